/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "kube-nftd/config/options.h"

#include "kube-nftd/base/alloc.h"
#include "unit.h"

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

static const struct {
    const char *line, *expected;
} good[] = {
    {"", "v=0"},
    {"--manifests /m", "manifests=/m v=0"},
    {"--manifests=/m", "manifests=/m v=0"},
    {"--manifests=a=b", "manifests=a=b v=0"},
    {"--manifests -", "manifests=- v=0"},
    {"--manifests --odd", "manifests=--odd v=0"},
    {"--kubeconfig k --master https://x:6443", "kubeconfig=k master=https://x:6443 v=0"},
    {"--master=https://x", "master=https://x v=0"},
    {"--hostname-override n", "host=n v=0"},
    {"--hostname_override=n", "host=n v=0"},
    {"--hostname_override=n_a-b", "host=n_a-b v=0"},
    {"--healthz-bind-address 127.0.0.1:1", "healthz=127.0.0.1:1 v=0"},
    {"--healthz_bind-address 127.0.0.1:1", "healthz=127.0.0.1:1 v=0"},
    {"--healthz_bind_address=[::]:1", "healthz=[::]:1 v=0"},
    {"--dump-rules", "dump v=0"},
    {"--dump_rules", "dump v=0"},
    {"--dump-rules=true", "dump v=0"},
    {"--dump-rules=false", "v=0"},
    {"--dump-rules --dump-rules=false --cleanup", "cleanup v=0"},
    {"--cleanup", "cleanup v=0"},
    {"--cleanup-kube-proxy", "cleanup-kube-proxy v=0"},
    {"--cleanup_kube_proxy --dry-run", "cleanup-kube-proxy dry-run v=0"},
    {"--dry-run --cleanup-kube-proxy", "cleanup-kube-proxy dry-run v=0"},
    {"--dry-run --dry-run=false", "v=0"},
    {"--version", "version v=0"},
    {"--help", "help v=0"},
    {"-h", "help v=0"},
    {"-v 4", "v=4"},
    {"-v=4", "v=4"},
    {"-v4", "v=4"},
    {"-v10", "v=10"},
    {"--v 4", "v=4"},
    {"--v=4", "v=4"},
    {"-v 0", "v=0"},
    {"-v 007", "v=7"},
    {"-v 2147483647", "v=2147483647"},
    {"-v 1 -v2 --v=3", "v=3"},
    {"--manifests a --manifests b", "manifests=b v=0"},
    {"-v2 --manifests /m --dump-rules --hostname-override n", "manifests=/m host=n dump v=2"},
    /* Empty is the default, as with kube-proxy. */
    {"--kubeconfig= --master= --hostname-override= --healthz-bind-address=", "v=0"},
    {"--master ''", "v=0"},
    {"--master x --master ''", "v=0"},
    {"--manifests m --kubeconfig=", "manifests=m v=0"},
    /* Who asks for help gets it. */
    {"--help --manifests m --master x", "manifests=m master=x help v=0"},
    {"--version --dump-rules --cleanup", "dump cleanup version v=0"},
    {"--help --detect-local-mode BridgeInterface", "mode=2 help v=0"},

    {"--nodeport-addresses primary", "v=0"},
    {"--nodeport-addresses=", "v=0"},
    {"--nodeport-addresses 192.0.2.77/24", "ports=192.0.2.0/24 v=0"},
    {"--nodeport-addresses 10.0.0.0/8,fd00::1/64,192.0.2.0/24",
     "ports=10.0.0.0/8 ports=192.0.2.0/24 ports=fd00::/64 v=0"},
    {"--nodeport-addresses 10.0.0.0/8 --nodeport_addresses= --nodeport_addresses=0.0.0.0/0,::/0",
     "ports=10.0.0.0/8 ports=0.0.0.0/0 ports=::/0 v=0"},
    {"--nodeport-addresses '' --nodeport-addresses primary", "v=0"},

    {"--cluster-cidr 10.244.0.0/16", "cluster=10.244.0.0/16 v=0"},
    {"--cluster-cidr fd00:244::/56", "cluster=fd00:244::/56 v=0"},
    {"--cluster-cidr fd00:244::/56,10.244.0.0/16",
     "cluster=10.244.0.0/16 cluster=fd00:244::/56 v=0"},
    {"--cluster-cidr=", "v=0"},
    {"--cluster-cidr 10.1.0.0/16 --cluster-cidr 10.2.0.0/16", "cluster=10.2.0.0/16 v=0"},
    {"--cluster-cidr 10.1.0.0/16 --cluster-cidr=", "v=0"},
    {"--detect-local-mode ClusterCIDR", "v=0"},
    {"--detect-local-mode=", "v=0"},
    {"--detect_local_mode NodeCIDR", "mode=1 v=0"},
    {"--detect-local-mode NodeCIDR --detect-local-mode ''", "v=0"},
    {"--detect-local-mode NodeCIDR --cluster-cidr 10.1.0.0/16,10.2.0.0/16,fd00::/64,fd01::/64",
     "mode=1 cluster=10.1.0.0/16 cluster=fd00::/64 v=0"},
    {"--detect-local-mode BridgeInterface --pod-bridge-interface cni0", "bridge=cni0 mode=2 v=0"},
    {"--pod-bridge-interface 123456789012345", "bridge=123456789012345 v=0"},
    {"--pod-bridge-interface=", "v=0"},
    {"--pod-interface-name-prefix cali --detect-local-mode=InterfaceNamePrefix",
     "prefix=cali mode=3 v=0"},
    {"--pod-interface-name-prefix veth-_.@%", "prefix=veth-_.@% v=0"},
    {"--masquerade-all", "all v=0"},
    {"--masquerade-all=true", "all v=0"},
    {"--masquerade-all --masquerade_all=false", "v=0"},
    {"--masquerade-all=True", "all v=0"},
    {"--masquerade-all=TRUE", "all v=0"},
    {"--masquerade-all=t", "all v=0"},
    {"--masquerade-all=T", "all v=0"},
    {"--masquerade-all=1", "all v=0"},
    {"--masquerade-all --masquerade-all=0", "v=0"},
    {"--masquerade-all --masquerade-all=F", "v=0"},

    {"--bind-address 192.0.2.1", "bind=192.0.2.1 v=0"},
    {"--bind-address 2001:db8::1", "bind=2001:db8::1 healthz=[::]:10256 metrics=[::1]:10249 v=0"},
    {"--bind-address 2001:db8::1 --metrics-bind-address 127.0.0.1",
     "bind=2001:db8::1 healthz=[::]:10256 v=0"},
    {"--bind-address 0.0.0.0", "v=0"},
    {"--bind-address ::", "healthz=[::]:10256 metrics=[::1]:10249 v=0"},
    {"--bind-address=", "v=0"},
    {"--bind-address 192.0.2.1 --bind-address ''", "v=0"},
    {"--metrics-bind-address [::]:1", "metrics=[::]:1 v=0"},
    {"--metrics-bind-address=", "v=0"},

    {"--conntrack-max-per-core 0", "max=0 limit-given=1 v=0"},
    {"--conntrack-max-per-core 65536 --conntrack-min=2147483647",
     "max=65536 min=2147483647 limit-given=1 v=0"},
    {"--conntrack-tcp-timeout-established 0s", "established=0 v=0"},
    {"--conntrack-tcp-timeout-established 24h0m0s", "v=0"},
    {"--conntrack-tcp-timeout-established 1h30m", "established=5400 v=0"},
    {"--conntrack-tcp-timeout-close-wait 59.999s", "close-wait=59 v=0"},
    {"--conntrack-tcp-timeout-close-wait 300ms", "close-wait=0 v=0"},
    {"--conntrack-tcp-timeout-close-wait 2147483647s", "close-wait=2147483647 v=0"},
    {"--conntrack-tcp-be-liberal", "liberal=1 v=0"},
    {"--conntrack-tcp-be-liberal=false", "v=0"},
    {"--conntrack-udp-timeout 30s --conntrack-udp-timeout-stream 2m", "udp=30 stream=120 v=0"},
    {"--conntrack_udp_timeout=-0s", "v=0"},
    {"--metrics-bind-address 127.0.0.2 --healthz-bind-address ::2",
     "healthz=[::2]:10256 metrics=127.0.0.2:10249 v=0"},
    {"--healthz-port 0", "no-healthz v=0"},
    {"--healthz-port 0 --healthz-bind-address 127.0.0.1:1", "no-healthz v=0"},
    {"--healthz-port 81 --metrics_port 82", "healthz=0.0.0.0:81 metrics=127.0.0.1:82 v=0"},
    {"--healthz-port 81 --healthz-bind-address 192.0.2.1", "healthz=192.0.2.1:81 v=0"},
    {"--healthz-port 81 --healthz-bind-address 192.0.2.1:1", "healthz=192.0.2.1:1 v=0"},
    {"--healthz-port 81 --bind-address ::", "healthz=[::]:81 metrics=[::1]:10249 v=0"},
    {"--metrics-bind-address 127.0.0.2:10256 --healthz-bind-address 127.0.0.1:10256",
     "healthz=127.0.0.1:10256 metrics=127.0.0.2:10256 v=0"},
    {"--bind-address-hard-fail", "hard v=0"},
    {"--iptables-sync-period 2m --iptables-min-sync-period 0s", "sync=120 v=0"},
    {"--proxy-mode nftables --iptables-sync-period 1500ms", "sync=1.5 v=0"},
    {"--proxy-mode ipvs --iptables-sync-period 2m --ipvs-sync-period 5s", "sync=5 v=0"},
    {"--proxy-mode iptables", "v=0"},
    {"--proxy-mode=", "v=0"},
    {"--iptables-masquerade-bit 31", "bit=31 v=0"},
    {"--iptables-masquerade-bit 31 --proxy-mode ipvs", "bit=31 v=0"},
    {"--iptables-masquerade-bit 31 --proxy-mode nftables", "v=0"},
    {"--masquerade-all --proxy-mode nftables", "all v=0"},
    {"--masquerade-all --proxy-mode ipvs", "all v=0"},
    {"--oom-score-adj -1000", "oom=-1000 v=0"},
    {"--oom-score-adj=1000", "oom=1000 v=0"},
    {"--feature-gates AllowServiceExternalIPs=false", "no-external-ips v=0"},
    {"--feature-gates Other=true,AllowServiceExternalIPs=false --feature-gates Other=false",
     "no-external-ips v=0"},
    {"--feature-gates AllowServiceExternalIPs=false --feature-gates AllowServiceExternalIPs=true",
     "v=0"},
    {"--feature-gates=", "v=0"},
    {"--logging-format json", "json v=0"},
    {"--init-only", "init v=0"},
    {"--write-config-to f --cleanup", "write=f cleanup v=0"},
    {"--version=raw", "raw v=0"},
    {"--version=true", "version v=0"},
    {"--version=false", "v=0"},
    {"--version=v1.36.0", "v=0"},
    {"--remove-startup-taint a.b/k=v:NoExecute", "taint=a.b/k=v:NoExecute v=0"},
    {"--kube-api-qps 5.5 --kube-api-burst 0", "qps=5.5,0 v=0"},
    {"--kube-api-qps -1", "qps=-1,10 v=0"},
    {"--kube-api-burst 7", "qps=5,7 v=0"},
    /* Without effect here. */
    {"--kube-api-content-type x --config-sync-period 1s", "v=0"},
    {"--log-flush-frequency 1s --vmodule a=1,b*=2 --log-text-split-stream", "v=0"},
    {"--log-text-info-buffer-size 1Ki --log-json-split-stream=false --log-json-info-buffer-size 0",
     "v=0"},
    {"--profiling --show-hidden-metrics-for-version 1.35 --iptables-localhost-nodeports=false",
     "v=0"},
    {"--ipvs-min-sync-period 1s --ipvs-scheduler rr --ipvs-exclude-cidrs x,y --ipvs-strict-arp",
     "v=0"},
    {"--ipvs-tcp-timeout -1s --ipvs-tcpfin-timeout 1s --ipvs-udp-timeout 1s", "v=0"},
    {"--boot-id-file a,b --machine-id-file c", "v=0"},
    {"preflight", "preflight v=0"},
    {"dump --manifests m", "manifests=m dump v=0"},
    {"-v 2 cleanup", "cleanup v=2"},
    {"explain a/b --all -o json", "explain=a/b v=0"},
    {"list", "list v=0"},
    {"list kube-* -o wide", "list=kube-* v=0"},
    {"list endpoints a/b --output=json", "endpoints=a/b v=0"},
    {"status -o json", "status v=0"},
};

TEST_ROWS(accepted, good)
{
    struct options options;
    struct error err = {0};
    ck_assert_msg(parse(row->line, &options, &err) == 0, "%s: %s", row->line, err.text);
    ck_assert_ptr_null(err.text);
    char *text = options_text(&options);
    ck_assert_msg(strcmp(text, row->expected) == 0, "%s is %s", row->line, text);
    free(text);
    options_clear(&options);
    text = options_text(&options);
    ck_assert_str_eq(text, "v=0");
    free(text);
}

static const struct {
    const char *line, *error;
} wrong[] = {
    {"--unknown", "unknown flag: --unknown (see --help)"},
    {"--unknown=x", "unknown flag: --unknown (see --help)"},
    {"--manifest x", "unknown flag: --manifest (did you mean --manifests? see --help)"},
    {"--manifestss x", "unknown flag: --manifestss (did you mean --manifests? see --help)"},
    {"--Manifests x", "unknown flag: --Manifests (did you mean --manifests? see --help)"},
    {"---manifests x", "unknown flag: ---manifests (did you mean --manifests? see --help)"},
    {"--", "unknown flag: -- (see --help)"},
    {"--=x", "unknown flag: -- (see --help)"},
    {"-=x", "unknown flag: - (see --help)"},
    {"-x", "unknown flag: -x (see --help)"},
    {"-vv", "unknown flag: -vv (did you mean -v? see --help)"},
    {"-version", "unknown flag: -version (did you mean --version? see --help)"},
    {"-manifests=/m", "unknown flag: -manifests (did you mean --manifests? see --help)"},
    {"--v4", "unknown flag: --v4 (see --help)"},
    {"--version --unknown", "unknown flag: --unknown (see --help)"},
    {"word", "unknown command: word (see --help)"},
    {"--cleanup false", "unknown command: false (see --help)"},
    {"-", "unknown command: - (see --help)"},
    {"''", "unknown command:  (see --help)"},
    {"__manifests=x", "unknown command: __manifests=x (see --help)"},
    {"--manifests", "--manifests: the value is missing"},
    {"--cleanup --master", "--master: the value is missing"},
    {"-v", "-v: the value is missing"},
    {"--manifests=", "--manifests: the value is empty"},
    {"--manifests ''", "--manifests: the value is empty"},
    {"--cleanup=yes", "--cleanup: \"yes\" is neither true nor false"},
    {"--cleanup=", "--cleanup: \"\" is neither true nor false"},
    {"--help=tRUE", "--help: \"tRUE\" is neither true nor false"},
    {"-v x", "-v: \"x\" is not a number from 0 to 2147483647"},
    {"-v 4x", "-v: \"4x\" is not a number from 0 to 2147483647"},
    {"-v4x", "-v: \"4x\" is not a number from 0 to 2147483647"},
    {"-v -1", "-v: \"-1\" is not a number from 0 to 2147483647"},
    {"-v +1", "-v: \"+1\" is not a number from 0 to 2147483647"},
    {"-v=", "-v: \"\" is not a number from 0 to 2147483647"},
    {"-v 1.5", "-v: \"1.5\" is not a number from 0 to 2147483647"},
    {"-v 2147483648", "-v: \"2147483648\" is not a number from 0 to 2147483647"},
    {"-v 99999999999999999999",
     "-v: \"99999999999999999999\" is not a number from 0 to 2147483647"},
    {"--manifests m --kubeconfig k",
     "--manifests and --kubeconfig exclude each other: objects have one source"},
    {"--master x --manifests m",
     "--manifests and --master exclude each other: objects have one source"},
    {"--dump-rules --cleanup", "--dump-rules and --cleanup exclude each other"},
    {"--kubeconfig k -v 3 --cleanup --dump-rules", "--dump-rules and --cleanup exclude each other"},
    {"preflight --dump-rules", "preflight and --dump-rules exclude each other"},
    {"--cleanup list", "list and --cleanup exclude each other"},
    {"--preflight", "unknown flag: --preflight (it is a command: kube-nftd preflight; see --help)"},
    {"--explain=a/b", "unknown flag: --explain (it is a command: kube-nftd explain; see --help)"},
    {"lst", "unknown command: lst (see --help)"},
    {"endpoints a/b", "unknown command: endpoints (see --help)"},
    {"explain", "explain: WHAT is missing"},
    {"list endpoints", "list endpoints: NAMESPACE/SERVICE is missing"},
    {"list a b", "unexpected argument: b (see --help)"},
    {"status now", "unexpected argument: now (see --help)"},
    {"status --manifests m",
     "status and --manifests exclude each other: status asks a running daemon"},
    {"--cleanup --cleanup-kube-proxy", "--cleanup and --cleanup-kube-proxy exclude each other"},
    {"--cleanup-kube-proxy --init-only", "--cleanup-kube-proxy and --init-only exclude each other"},
    {"--dry-run", "--dry-run works only with --cleanup-kube-proxy"},
    {"--cleanup --dry-run", "--dry-run works only with --cleanup-kube-proxy"},
    {"--dry-run --manifests m", "--dry-run works only with --cleanup-kube-proxy"},

    {"--nodeport-addresses 10.0.0.0/8,10.0.0.1",
     "--nodeport-addresses: \"10.0.0.1\" is not a CIDR like 192.0.2.0/24 or 2001:db8::/64"},
    {"--nodeport-addresses 10.0.0.0/8, --cleanup",
     "--nodeport-addresses: \"\" is not a CIDR like 192.0.2.0/24 or 2001:db8::/64"},
    {"--nodeport-addresses Primary",
     "--nodeport-addresses: \"Primary\" is not a CIDR like 192.0.2.0/24 or 2001:db8::/64"},
    {"--nodeport-addresses primary,10.0.0.0/8",
     "--nodeport-addresses: \"10.0.0.0/8\" is an additional entry, but \"primary\" must be the "
     "only one"},
    {"--nodeport-addresses fd00::/8 --nodeport-addresses primary",
     "--nodeport-addresses: \"primary\" is an additional entry, but \"primary\" must be the only "
     "one"},
    {"--nodeport-addresses primary,primary", "--nodeport-addresses: \"primary\" is an additional "
                                             "entry, but \"primary\" must be the only one"},

    {"--cluster-cidr 10.0.0.0/33",
     "--cluster-cidr: \"10.0.0.0/33\" is not a CIDR like 192.0.2.0/24 or 2001:db8::/64"},
    {"--cluster-cidr 10.1.0.0/16,fd00::/64,10.2.0.9/16",
     "--cluster-cidr: 10.2.0.0/16 is a second IPv4 CIDR, but only one per family is allowed"},
    {"--cluster-cidr fd00::/64,fd01::/64",
     "--cluster-cidr: fd01::/64 is a second IPv6 CIDR, but only one per family is allowed"},
    {"--detect-local-mode clustercidr",
     "--detect-local-mode: \"clustercidr\" is none of ClusterCIDR, NodeCIDR, BridgeInterface and "
     "InterfaceNamePrefix"},
    {"--detect-local-mode BridgeInterface --pod-interface-name-prefix x",
     "--detect-local-mode BridgeInterface needs --pod-bridge-interface"},
    {"--pod-bridge-interface= --detect-local-mode BridgeInterface",
     "--detect-local-mode BridgeInterface needs --pod-bridge-interface"},
    {"--detect-local-mode InterfaceNamePrefix --pod-bridge-interface x",
     "--detect-local-mode InterfaceNamePrefix needs --pod-interface-name-prefix"},
    {"--pod-bridge-interface 1234567890123456",
     "--pod-bridge-interface: \"1234567890123456\" is longer than 15 bytes, the most for an "
     "interface name"},

    {"--bind-address node-1", "--bind-address: \"node-1\" is not an IP address"},
    {"--bind-address 192.0.2.1:80", "--bind-address: \"192.0.2.1:80\" is not an IP address"},

    {"--conntrack-min -1", "--conntrack-min: \"-1\" is not a number from 0 to 2147483647"},
    {"--conntrack-max-per-core 2147483648",
     "--conntrack-max-per-core: \"2147483648\" is not a number from 0 to 2147483647"},
    {"--conntrack-max-per-core=",
     "--conntrack-max-per-core: \"\" is not a number from 0 to 2147483647"},
    {"--conntrack-udp-timeout 30",
     "--conntrack-udp-timeout: \"30\" is not a duration like 30s, 1h30m or 0s"},
    {"--conntrack-udp-timeout-stream=",
     "--conntrack-udp-timeout-stream: \"\" is not a duration like 30s, 1h30m or 0s"},
    {"--conntrack-tcp-timeout-established -300ms",
     "--conntrack-tcp-timeout-established: \"-300ms\" is below zero"},
    {"--conntrack-tcp-timeout-close-wait 2147483648s",
     "--conntrack-tcp-timeout-close-wait: \"2147483648s\" is more than 2147483647 seconds"},
    {"--conntrack-tcp-timeout-established 2562048h",
     "--conntrack-tcp-timeout-established: \"2562048h\" is not a duration like 30s, 1h30m or 0s"},
    {"--healthz-port 65536", "--healthz-port: \"65536\" is not a number from 0 to 65535"},
    {"--metrics-port 0", "--metrics-port: \"0\" is not a number from 1 to 65535"},
    {"--metrics-bind-address 127.0.0.1:0",
     "--metrics-bind-address: \"127.0.0.1:0\" is not an IP address, IP:port or [IPv6]:port"},
    {"--healthz-bind-address x",
     "--healthz-bind-address: \"x\" is not an IP address, IP:port or [IPv6]:port"},
    {"--metrics-bind-address 127.0.0.1:10256",
     "--healthz-bind-address 0.0.0.0:10256 and "
     "--metrics-bind-address 127.0.0.1:10256 use the same port"},
    {"--metrics-bind-address [::1]:7 --healthz-bind-address [::]:7",
     "--healthz-bind-address "
     "[::]:7 and --metrics-bind-address [::1]:7 use the same port"},
    {"--metrics-port 7 --healthz-port 7", "--healthz-bind-address 0.0.0.0:7 and "
                                          "--metrics-bind-address 127.0.0.1:7 use the same port"},
    {"--proxy-mode userspace",
     "--proxy-mode: \"userspace\" is none of nftables, iptables and ipvs"},
    {"--logging-format xml", "--logging-format: \"xml\" is none of text and json"},
    {"--iptables-masquerade-bit 32",
     "--iptables-masquerade-bit: \"32\" is not a number from 0 to 31"},
    {"--iptables-masquerade-bit -1 --proxy-mode nftables",
     "--iptables-masquerade-bit: \"-1\" is not a number from 0 to 31"},
    {"--oom-score-adj 1001", "--oom-score-adj: \"1001\" is not a number from -1000 to 1000"},
    {"--oom-score-adj -1001", "--oom-score-adj: \"-1001\" is not a number from -1000 to 1000"},
    {"--iptables-sync-period 0s", "--iptables-sync-period: \"0s\" is not above zero"},
    {"--iptables-sync-period 1s --iptables-min-sync-period 2s",
     "--iptables-min-sync-period: \"2s\" is longer than syncPeriod, which is \"1s\""},
    {"--proxy-mode ipvs --ipvs-min-sync-period 31s",
     "--ipvs-min-sync-period: \"31s\" is longer than syncPeriod, which is \"30s\""},
    {"--proxy-mode ipvs --ipvs-tcp-timeout -1s", "--ipvs-tcp-timeout: \"-1s\" is below zero"},
    {"--proxy-mode ipvs --ipvs-exclude-cidrs 10.0.0.0/8,x",
     "--ipvs-exclude-cidrs: \"x\" is not a CIDR like 192.0.2.0/24 or 2001:db8::/64"},
    {"--config-sync-period 0s", "--config-sync-period: \"0s\" is not above zero"},
    {"--kube-api-burst -1", "--kube-api-burst: \"-1\" is not a number from 0 to 2147483647"},
    {"--kube-api-qps x", "--kube-api-qps: \"x\" is not a number"},
    {"--remove-startup-taint=", "--remove-startup-taint: the value is empty"},
    {"--remove-startup-taint k:Never",
     "--remove-startup-taint: \"k:Never\": the effect is none of NoSchedule, PreferNoSchedule and "
     "NoExecute"},
    {"--remove-startup-taint =v",
     "--remove-startup-taint: \"=v\" does not begin with a taint's key"},
    {"--remove-startup-taint k=v,w",
     "--remove-startup-taint: \"k=v,w\": \"v,w\" cannot be the value of a taint"},
    {"--manifests m --remove-startup-taint k", "--manifests and --remove-startup-taint exclude "
                                               "each other: the Node object is on an API server"},
    {"--feature-gates A", "--feature-gates: \"A\" is not NAME=true or NAME=false"},
    {"--feature-gates A=2", "--feature-gates: \"A=2\" is not NAME=true or NAME=false"},
    {"--feature-gates =true", "--feature-gates: \"=true\" is not NAME=true or NAME=false"},
    {"--vmodule a", "--vmodule: \"a\" is not PATTERN=N"},
    {"--vmodule a=-1", "--vmodule: \"a=-1\" is not PATTERN=N"},
    {"--version=1.36", "--version: \"1.36\" is neither true nor false"},
    {"--config=", "--config: the value is empty"},
    {"--write-config-to ''", "--write-config-to: the value is empty"},
    {"--config /no/such/file", "--config /no/such/file: No such file or directory"},
    {"--conntrack_max_per_cor 3",
     "unknown flag: --conntrack_max_per_cor (did you mean --conntrack-max-per-core? see --help)"},
    {"--conntrak-min=3", "unknown flag: --conntrak-min (did you mean --conntrack-min? see --help)"},
    {"--hlep", "unknown flag: --hlep (did you mean --help? see --help)"},
    {"--ipvs-strict-arps",
     "unknown flag: --ipvs-strict-arps (did you mean --ipvs-strict-arp? see --help)"},
    {"list --once", "--once works only with top"},
    {"top --manifests x", "top and --manifests exclude each other: top asks a running daemon"},
    {"top a/b c", "unexpected argument: c (see --help)"},
    {"--output json", "--output works only with list, status, top and explain"},
    {"-o text --dump-rules", "--output works only with list, status, top and explain"},
    {"list --all", "--all works only with explain"},
    {"explain a/b -o wide", "--output wide works only with list"},
    {"list endpoints a/b -o name", "--output name works only with a list of Services"},
    {"--dry-run", "--dry-run works only with --cleanup-kube-proxy"},
    {"--cleanup --init-only", "--cleanup and --init-only exclude each other"},
    {"--conntrack-tcp-be-liberal=2", "--conntrack-tcp-be-liberal: \"2\" is neither true nor false"},
};

/* With an error nothing is left in the options: the leak checker would find it. */
TEST_ROWS(refused, wrong)
{
    struct options options;
    struct error err = {0};
    ck_assert_msg(parse(row->line, &options, &err) == -1, "%s", row->line);
    ck_assert_str_eq(err.text, row->error);
    char *text = options_text(&options);
    ck_assert_str_eq(text, "v=0");
    free(text);
    error_clear(&err);
}

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

/* All flags, each under the heading of its kind, each once. */
TEST(usage)
{
    static const char *const lines[] = {"Commands:\n",
                                        "  list endpoints NAMESPACE/SERVICE\n",
                                        "  list [NAMESPACE[/SERVICE]]\n",
                                        "  status\n",
                                        "  explain WHAT\n",
                                        "  preflight\n",
                                        "  dump\n",
                                        "  cleanup\n",
                                        "Where objects come from:\n",
                                        "  --manifests PATH\n",
                                        "  --kubeconfig FILE\n",
                                        "  --master URL\n",
                                        "  --hostname-override NAME\n",
                                        "Traffic:\n",
                                        "  --nodeport-addresses CIDR,...\n",
                                        "  --bind-address IP\n",
                                        "  --masquerade-all\n",
                                        "Pod traffic:\n",
                                        "  --detect-local-mode MODE\n",
                                        "  --cluster-cidr CIDR,...\n",
                                        "  --pod-bridge-interface NAME\n",
                                        "  --pod-interface-name-prefix PREFIX\n",
                                        "Connection tracking, set at startup",
                                        "  --conntrack-max-per-core N\n",
                                        "  --conntrack-min N\n",
                                        "  --conntrack-tcp-timeout-established DURATION\n",
                                        "  --conntrack-tcp-timeout-close-wait DURATION\n",
                                        "  --conntrack-tcp-be-liberal\n",
                                        "  --conntrack-udp-timeout DURATION\n",
                                        "  --conntrack-udp-timeout-stream DURATION\n",
                                        "Health and metrics:\n",
                                        "  --healthz-bind-address IP:PORT\n",
                                        "  --metrics-bind-address IP:PORT\n",
                                        "Commands, and the process:\n",
                                        "  --dump-rules\n",
                                        "  --cleanup\n",
                                        "  --cleanup-kube-proxy\n",
                                        "  --dry-run\n",
                                        "  -v N\n",
                                        "  --version\n",
                                        "  --help\n"};
    char *text;
    size_t length;
    FILE *out = open_memstream(&text, &length);
    options_usage(out);
    fclose(out);
    const char *at = text;
    for (size_t i = 0; i < COUNT(lines); i++) {
        const char *found = strstr(at, lines[i]);
        ck_assert_msg(found != NULL, "%s", lines[i]);
        ck_assert_ptr_null(strstr(found + 1, lines[i]));
        at = found;
    }
    free(text);
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

/* What is said of flags that kube-proxy has and that mean nothing here. */
static const struct {
    const char *line, *note;
} without_effect[] = {
    {"--iptables-sync-period=1m --masquerade-all", NULL},
    {"--proxy-mode=nftables --iptables-sync-period=1m --masquerade-all", NULL},
    {"--proxy-mode=ipvs --ipvs-sync-period=1m --masquerade-all", NULL},
    {"--proxy-mode=ipvs --iptables-sync-period=1m",
     "settings without effect here: --iptables-sync-period"},
    {"--ipvs-sync-period=1m --vmodule=a=1",
     "settings without effect here: --vmodule, --ipvs-sync-period"},
    {"--iptables-min-sync-period=3s", "settings without effect here: --iptables-min-sync-period"},
    {"--proxy-mode=nftables --iptables-min-sync-period=3s",
     "settings without effect here: --iptables-min-sync-period"},
};

TEST_ROWS(effects, without_effect)
{
    struct options options;
    struct error err = {0};
    const char *said = NULL;
    ck_assert_msg(parse(row->line, &options, &err) == 0, "%s", err.text);
    vec_each (&options.notes, note)
        if (strstr(note->text, "without effect"))
            said = note->text;
    ck_assert_pstr_eq(said, row->note);
    options_clear(&options);
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
