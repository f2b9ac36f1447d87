/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "options_text.h"

int parse(const char *line, struct options *options, struct error *err)
{
    char *copy = xstrdup(line), *rest, *argv[MOST + 2] = {NULL};
    char program[] = "--unknown", empty[] = "";
    int argc = 1, result;
    argv[0] = program;
    for (char *word = strtok_r(copy, " ", &rest); word; word = strtok_r(NULL, " ", &rest))
        argv[argc++] = strcmp(word, "''") == 0 ? empty : word;
    memset(options, 0xee, sizeof(*options));
    result = options_parse(argc, argv, options, err);
    free(copy);
    return result;
}

/* "NAME=VALUE ", or nothing if it is the default. */
static void print_number(FILE *out, const char *name, double value, double standard)
{
    if (value != standard)
        fprintf(out, "%s=%.15g ", name, value);
}

static void print_text(FILE *out, const char *name, const char *value)
{
    if (value)
        fprintf(out, "%s=%s ", name, value);
}

static void print_switch(FILE *out, const char *name, bool on)
{
    if (on)
        fprintf(out, "%s ", name);
}

static void print_cidr(FILE *out, const char *name, enum family family, const struct cidr *cidr)
{
    char text[ADDRESS_TEXT_SIZE];
    fprintf(out, "%s=%s/%u ", name, address_format(family, &cidr->address, text), cidr->length);
}

static void print_cidrs(FILE *out, const struct options *options)
{
    for (int i = 0; i < FAMILY_COUNT; i++) {
        const cidr_vec *cidrs = &options->node_port_addresses.cidrs[i];
        vec_each (cidrs, cidr)
            print_cidr(out, "ports", (enum family)i, cidr);
        if (options->has_cluster_cidr[i])
            print_cidr(out, "cluster", (enum family)i, &options->cluster_cidr[i]);
    }
}

static bool has_cidrs(const struct options *options)
{
    return options->node_port_addresses.cidrs[0].n + options->node_port_addresses.cidrs[1].n > 0;
}

/* Nothing if all are 0. */
static void print_conntrack(FILE *out, const struct conntrack_settings *conntrack)
{
    if (!(conntrack->max_per_core | conntrack->min | conntrack->tcp_established_timeout |
          conntrack->tcp_close_wait_timeout | conntrack->tcp_be_liberal | conntrack->udp_timeout |
          conntrack->udp_stream_timeout | conntrack->max_given))
        return;
    print_number(out, "max", conntrack->max_per_core, 32768);
    print_number(out, "min", conntrack->min, 131072);
    print_number(out, "established", conntrack->tcp_established_timeout, 86400);
    print_number(out, "close-wait", conntrack->tcp_close_wait_timeout, 3600);
    print_number(out, "liberal", conntrack->tcp_be_liberal, 0);
    print_number(out, "udp", conntrack->udp_timeout, 0);
    print_number(out, "stream", conntrack->udp_stream_timeout, 0);
    print_number(out, "limit-given", conntrack->max_given, 0);
}

static void print_command(FILE *out, const struct options *options)
{
    static const char *const names[] = {
        [COMMAND_LIST] = "list",           [COMMAND_ENDPOINTS] = "endpoints",
        [COMMAND_STATUS] = "status",       [COMMAND_EXPLAIN] = "explain",
        [COMMAND_PREFLIGHT] = "preflight", [COMMAND_DUMP] = "dump",
        [COMMAND_CLEANUP] = "cleanup",     [COMMAND_CLEANUP_KUBE_PROXY] = "cleanup-kube-proxy",
        [COMMAND_INIT_ONLY] = "init"};
    const char *name = options->command < COUNT(names) ? names[options->command] : NULL;
    if (name && options->subject)
        print_text(out, name, options->subject);
    else
        print_switch(out, name ? name : "", name);
}

/* An address to listen at, unless it is the default. */
static void print_listen(FILE *out, const char *name, const char *address, const char *standard)
{
    if (!address)
        fprintf(out, "no-%s ", name);
    else if (strcmp(address, standard) != 0)
        fprintf(out, "%s=%s ", name, address);
}

static void print_texts(FILE *out, const struct options *options)
{
    print_text(out, "manifests", options->manifests);
    print_text(out, "kubeconfig", options->kubeconfig);
    print_text(out, "master", options->master);
    print_text(out, "host", options->hostname_override);
    print_text(out, "bind", options->bind_address);
    print_text(out, "flowtable", options->flowtable_devices);
    print_text(out, "bridge", options->pod_bridge_interface);
    print_text(out, "prefix", options->pod_interface_name_prefix);
    print_text(out, "taint", options->remove_startup_taint);
    bool usual = options->kube_api_qps == 5 && options->kube_api_burst == 10;
    if (!usual && options->configuration)
        fprintf(out, "qps=%g,%d ", options->kube_api_qps, options->kube_api_burst);
    print_number(out, "mode", options->detect_local_mode, 0);
}

static void print_running(FILE *out, const struct options *options)
{
    if (options->config && strcmp(options->config, "config") != 0)
        print_text(out, "config", options->config);
    print_text(out, "write", options->write_config_to);
    print_switch(out, "json", options->log_format == LOG_FORMAT_JSON);
    print_switch(out, "hard", options->bind_address_hard_fail);
    print_switch(out, "no-external-ips", options->no_external_ips);
    print_switch(out, "localhost", options->localhost_node_ports);
    print_switch(out, "primary", options->node_port_addresses.primary && has_cidrs(options));
    if (!options->configuration)
        return; /* what follows is without defaults then */
    print_listen(out, "healthz", options->healthz_bind_address, "0.0.0.0:10256");
    print_listen(out, "metrics", options->metrics_bind_address, "127.0.0.1:10249");
    print_number(out, "bit", options->masquerade_bit, 14);
    print_number(out, "sync", options->sync_period, 30);
    print_number(out, "oom", options->oom_score_adj, -999);
}

static void print_switches(FILE *out, const struct options *options)
{
    print_switch(out, "all", options->masquerade_all);
    print_switch(out, "dry-run", options->dry_run);
    print_switch(out, options->version == VERSION_RAW ? "raw" : "version", options->version);
    print_switch(out, "help", options->help);
}

char *options_text(const struct options *options)
{
    char *text;
    size_t length;
    FILE *out = open_memstream(&text, &length);
    print_texts(out, options);
    print_cidrs(out, options);
    print_conntrack(out, &options->conntrack);
    print_running(out, options);
    print_command(out, options);
    print_switches(out, options);
    fprintf(out, "v=%d", options->verbosity);
    fclose(out);
    return text;
}
