/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "kube-nftd/config/options.h"

#include "kube-nftd/base/alloc.h"
#include "script.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define MOST 20

/* The host's name as the tests want it; NULL: it cannot be read. */
static const char *host_name;

int gethostname(char *name, size_t length)
{
    if (!host_name || length <= strlen(host_name)) {
        errno = host_name ? ENAMETOOLONG : EPERM;
        return -1;
    }
    memcpy(name, host_name, strlen(host_name) + 1);
    return 0;
}

/* Parses the words of @line, of which "''" is an empty one. */
static int parse(const char *line, struct options *options, struct error *err)
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

/* What is not the default; nothing if all are 0. */
static void print_conntrack(FILE *out, const struct conntrack_settings *settings)
{
    const struct {
        const char *name;
        uint32_t value, standard;
    } values[] = {
        {"max", settings->max_per_core, 32768},
        {"min", settings->min, 131072},
        {"established", settings->tcp_established_timeout, 86400},
        {"close-wait", settings->tcp_close_wait_timeout, 3600},
        {"liberal", settings->tcp_be_liberal, 0},
        {"udp", settings->udp_timeout, 0},
        {"stream", settings->udp_stream_timeout, 0},
        {"limit-given", settings->max_given, 0},
    };
    bool any = false;
    for (size_t i = 0; i < COUNT(values); i++)
        any = any || values[i].value > 0;
    for (size_t i = 0; any && i < COUNT(values); i++)
        if (values[i].value != values[i].standard)
            fprintf(out, "%s=%u ", values[i].name, values[i].value);
}

static void print_command(FILE *out, const struct options *options)
{
    static const char *const names[] = {[COMMAND_LIST] = "list",
                                        [COMMAND_ENDPOINTS] = "endpoints",
                                        [COMMAND_STATUS] = "status",
                                        [COMMAND_EXPLAIN] = "explain",
                                        [COMMAND_PREFLIGHT] = "preflight"};
    if (options->command < COUNT(names) && names[options->command])
        fprintf(out, "%s%s%s ", names[options->command], options->subject ? "=" : "",
                options->subject ? options->subject : "");
}

static void print_switches(FILE *out, const struct options *options)
{
    print_command(out, options);
    fprintf(out, "%s%s%s%s%s%s%sv=%d", options->masquerade_all ? "all " : "",
            options->dump_rules ? "dump " : "", options->cleanup ? "cleanup " : "",
            options->cleanup_kube_proxy ? "cleanup-kube-proxy " : "",
            options->dry_run ? "dry-run " : "",
            options->version == VERSION_WANTED_RAW ? "raw "
            : options->version                     ? "version "
                                                   : "",
            options->help ? "help " : "", options->verbosity);
}

/* An address to listen at, unless it is the default. */
static void print_listen(FILE *out, const char *name, const char *address, const char *standard)
{
    if (!address)
        fprintf(out, "no-%s ", name);
    else if (strcmp(address, standard) != 0)
        fprintf(out, "%s=%s ", name, address);
}

static void print_running(FILE *out, const struct options *options)
{
    if (options->config)
        fprintf(out, "config=%s ", options->config);
    if (options->write_config_to)
        fprintf(out, "write=%s ", options->write_config_to);
    if (options->init_only)
        fputs("init ", out);
    if (options->log_format == LOG_FORMAT_JSON)
        fputs("json ", out);
    if (options->bind_address_hard_fail)
        fputs("hard ", out);
    if (options->no_external_ips)
        fputs("no-external-ips ", out);
    if (!options->configuration)
        return; /* what follows is without defaults then */
    print_listen(out, "healthz", options->healthz_bind_address, "0.0.0.0:10256");
    print_listen(out, "metrics", options->metrics_bind_address, "127.0.0.1:10249");
    if (options->masquerade_bit != 14)
        fprintf(out, "bit=%d ", options->masquerade_bit);
    if (options->sync_period != 30)
        fprintf(out, "sync=%g ", options->sync_period);
    if (options->oom_score_adj != -999)
        fprintf(out, "oom=%d ", options->oom_score_adj);
}

/* Everything that was given, in one text. */
static char *options_text(const struct options *options)
{
    static const char *const names[] = {"manifests", "kubeconfig", "master", "host",
                                        "bind",      "bridge",     "prefix", "taint"};
    const char *const values[] = {options->manifests,
                                  options->kubeconfig,
                                  options->master,
                                  options->hostname_override,
                                  options->bind_address,
                                  options->pod_bridge_interface,
                                  options->pod_interface_name_prefix,
                                  options->remove_startup_taint};
    char *text;
    size_t length;
    FILE *out = open_memstream(&text, &length);
    for (size_t i = 0; i < COUNT(names); i++)
        if (values[i])
            fprintf(out, "%s=%s ", names[i], values[i]);
    bool usual = options->kube_api_qps == 5 && options->kube_api_burst == 10;
    if (!usual && options->configuration)
        fprintf(out, "qps=%g,%d ", options->kube_api_qps, options->kube_api_burst);
    if (options->detect_local_mode)
        fprintf(out, "mode=%d ", options->detect_local_mode);
    print_cidrs(out, options);
    print_conntrack(out, &options->conntrack);
    print_running(out, options);
    print_switches(out, options);
    fclose(out);
    return text;
}

/* What is made of the words, and that nothing is left of it afterwards. */
static void run_flags(char *words, FILE *out)
{
    struct options options;
    struct error err = {0};
    int result = parse(words, &options, &err);
    ck_assert_int_eq(result == 0, err.text == NULL);
    char *text = options_text(&options);
    fprintf(out, "%s%s\n", result ? "error: " : "", result ? err.text : text);
    error_clear(&err);
    if (result == 0) {
        free(text);
        options_clear(&options);
        text = options_text(&options);
    }
    ck_assert_str_eq(text, "v=0");
    free(text);
}

static void run_notes(char *words, FILE *out)
{
    struct options options;
    struct error err = {0};
    const char *said = "none";
    ck_assert_msg(parse(words, &options, &err) == 0, "%s", err.text);
    vec_each (&options.notes, note)
        if (strstr(note->text, "without effect"))
            said = note->text;
    fprintf(out, "%s\n", said);
    options_clear(&options);
}

static const struct script_command commands[] = {
    {"flags", run_flags}, {"notes", run_notes}, {NULL, NULL}};

SCRIPT("options", commands)

/* What may not stand in a rule's text, or in the name of an interface. */
TEST(interface_names)
{
    static const char bad[] = "\t\n\v\"'\\/*:\x7f\x80\xff";
    for (const char *c = bad; *c; c++) {
        struct options options;
        struct error err = {0};
        char *line = xasprintf("--pod-interface-name-prefix=a%cb", *c);
        char *expected =
            xasprintf("--pod-interface-name-prefix: \"a%cb\" is not an interface name: blanks, "
                      "quotes, '\\', '/', '*', ':' and non-ASCII characters are not allowed",
                      *c);
        ck_assert_msg(parse(line, &options, &err) == -1, "%s", line);
        ck_assert_str_eq(err.text, expected);
        error_clear(&err);
        free(expected);
        free(line);
    }
}

TEST(defaults)
{
    struct options options;
    struct error err = {0};
    ck_assert_int_eq(parse("", &options, &err), 0);
    ck_assert(options.node_port_addresses.primary);
    ck_assert_int_eq(options.detect_local_mode, DETECT_LOCAL_CLUSTER_CIDR);
    ck_assert_uint_eq(options.conntrack.max_per_core, 32768);
    ck_assert_uint_eq(options.conntrack.min, 131072);
    ck_assert_uint_eq(options.conntrack.tcp_established_timeout, 86400);
    ck_assert_uint_eq(options.conntrack.tcp_close_wait_timeout, 3600);
    options_clear(&options);
    ck_assert_int_eq(parse("--nodeport-addresses ::/0", &options, &err), 0);
    ck_assert(!options.node_port_addresses.primary);
    options_clear(&options);
}

/* No line is longer than a narrow window. */
TEST(usage_is_narrow)
{
    char *text;
    size_t length;
    FILE *out = open_memstream(&text, &length);
    options_usage(out);
    fclose(out);
    for (const char *line = text; *line; line += strcspn(line, "\n") + 1)
        ck_assert_msg(strcspn(line, "\n") <= 100, "%s", line);
    free(text);
}

/* ---------------------------------------------------------- the own node */

static void expect_name(const char *override, const char *expected)
{
    struct error err = {0};
    char *name = node_name(override, &err);
    ck_assert_msg(name != NULL, "%s", err.text);
    ck_assert_str_eq(name, expected);
    ck_assert_ptr_null(err.text);
    free(name);
}

static void expect_no_name(const char *override, const char *expected)
{
    struct error err = {0};
    ck_assert_ptr_null(node_name(override, &err));
    ck_assert_str_eq(err.text, expected);
    error_clear(&err);
}

TEST(name_given)
{
    host_name = "host";
    expect_name("node-1", "node-1");
    expect_name("Node-1.Example.ORG", "node-1.example.org");
    expect_name(" \t\nNode 1\r\v\f ", "node 1");
    expect_name("x", "x");
    expect_no_name("", "--hostname-override: the name is empty");
    expect_no_name(" \t\n", "--hostname-override: the name is empty");
}

TEST(name_of_the_host)
{
    host_name = "HOST-1.example";
    expect_name(NULL, "host-1.example");
    host_name = " Host ";
    expect_name(NULL, "host");
    /* The longest that Linux allows. */
    host_name = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789.-";
    expect_name(NULL, "abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyz0123456789.-");
    host_name = "";
    expect_no_name(NULL, "the host has no name: give --hostname-override");
    host_name = "  ";
    expect_no_name(NULL, "the host has no name: give --hostname-override");
    host_name = NULL;
    expect_no_name(NULL, "cannot read the host's name: Operation not permitted");
}
