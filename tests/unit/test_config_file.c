/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * KubeProxyConfiguration files: every field, what is refused, what flags count beside one, and that
 * a configuration that is written down reads back as the same.
 */
#include "config/configuration.h"

#include "config/setting.h"
#include "kube-nftd/base/alloc.h"
#include "kube-nftd/base/yaml.h"
#include "kube-nftd/base/yaml_writer.h"
#include "unit.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define HEAD "apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\n"
#define MOST_FLAGS 8

/* ---- one run ---- */

static char *path;

static void set_up(void)
{
    path = in_folder("config");
    put_file("config", "");
}

/* What main() does with "--config PATH" and the words of @flags. */
static int parse(const char *flags, struct options *options, struct error *err)
{
    char program[] = "kube-nftd", config[] = "--config", *argv[MOST_FLAGS + 4] = {program};
    char *copy = xstrdup(flags), *rest;
    int argc = 1;
    argv[argc++] = config;
    argv[argc++] = path;
    for (char *word = strtok_r(copy, " ", &rest); word; word = strtok_r(NULL, " ", &rest))
        argv[argc++] = word;
    int result = options_parse(argc, argv, options, err);
    free(copy);
    return result;
}

static void parse_well(const char *flags, struct options *options)
{
    struct error err = {0};
    int result = parse(flags, options, &err);
    ck_assert_msg(result == 0, "%s", err.text);
}

/* The value at @field of the configuration in force, as JSON. The caller frees it. */
static char *in_force(const struct options *options, const char *field)
{
    const cJSON *at = options->configuration;
    char *copy = xstrdup(field), *rest = copy, *name;
    while ((name = strsep(&rest, ".")))
        at = cJSON_GetObjectItemCaseSensitive(at, name);
    free(copy);
    ck_assert_msg(at != NULL, "%s is not there", field);
    return cJSON_PrintUnformatted(at);
}

static void expect_in_force(const struct options *options, const char *field, const char *expected)
{
    char *text = in_force(options, field);
    ck_assert_msg(strcmp(text, expected) == 0, "%s is %s, not %s", field, text, expected);
    free(text);
}

/* A file with @value, YAML in one line, at @field and @more behind it. */
static void write_field(const char *field, const char *value, const char *more)
{
    char *text = xstrdup(HEAD), *copy = xstrdup(field), *rest = copy, *name;
    int closing = 0;
    while ((name = strsep(&rest, "."))) {
        char *longer = xasprintf("%s%s%s: ", text, closing ? "{" : "", name);
        closing += rest != NULL;
        free(text);
        text = longer;
    }
    char *whole = xasprintf("%s%s%.*s\n%s\n", text, value, closing, "}}}}", more);
    put_file("config", whole);
    free(whole);
    free(copy);
    free(text);
}

/* All notes, each with its importance before it; "PATH" stands for the file. */
static char *notes_text(const struct options *options)
{
    char *text;
    size_t length;
    FILE *out = open_memstream(&text, &length);
    vec_each (&options->notes, note) {
        const char *file = strstr(note->text, path);
        int before = file ? (int)(file - note->text) : 0;
        fprintf(out, "%d %.*s%s%s\n", note->importance, before, note->text, file ? "PATH" : "",
                file ? file + strlen(path) : note->text);
    }
    fclose(out);
    return text;
}

/* ---- fields ---- */

/* Every field: its default, a value in a file and how that reads in force, a value of a wrong type,
 * one that is out of range (or NULL) and what more the file must have for that to count. */
static const struct field {
    const char *name, *standard, *given, *taken, *wrong, *out_of_range, *more;
} fields[] = {
    {"bindAddress", "\"0.0.0.0\"", "192.0.2.1", "\"192.0.2.1\"", "5", "node-1", ""},
    {"bindAddressHardFail", "false", "true", "true", "\"true\"", NULL, ""},
    {"clientConnection.acceptContentTypes", "\"\"", "a/b", "\"a/b\"", "1", NULL, ""},
    {"clientConnection.burst", "10", "0", "10", "\"1\"", "-1", ""},
    {"clientConnection.contentType", "\"application/vnd.kubernetes.protobuf\"", "a", "\"a\"", "[]",
     NULL, ""},
    {"clientConnection.kubeconfig", "\"\"", "/k", "\"/k\"", "true", NULL, ""},
    {"clientConnection.qps", "5", "2.5", "2.5", "\"5\"", NULL, ""},
    {"clusterCIDR", "\"\"", "\"10.0.0.0/8,fd00::/8\"", "\"10.0.0.0/8,fd00::/8\"", "[10.0.0.0/8]",
     "10.0.0.0", ""},
    {"clusterCIDR", "\"\"", "10.0.0.0/8", "\"10.0.0.0/8\"", "{}", "\"10.0.0.0/8,11.0.0.0/8\"", ""},
    {"configSyncPeriod", "\"15m0s\"", "0s", "\"15m0s\"", "0", "-1s", ""},
    {"conntrack.maxPerCore", "32768", "0", "0", "\"0\"", "-1", ""},
    {"conntrack.min", "131072", "7", "7", "1.5", "2147483648", ""},
    {"conntrack.tcpBeLiberal", "false", "true", "true", "1", NULL, ""},
    {"conntrack.tcpCloseWaitTimeout", "\"1h0m0s\"", "90s", "\"1m30s\"", "90", "-1s", ""},
    {"conntrack.tcpEstablishedTimeout", "\"24h0m0s\"", "0s", "\"0s\"", "0", "-1ns", ""},
    {"conntrack.udpStreamTimeout", "\"0s\"", "1h", "\"1h0m0s\"", "\"\"", "2147483648s", ""},
    {"conntrack.udpTimeout", "\"0s\"", "300ms", "\"300ms\"", "1m 1s", "-5m", ""},
    {"detectLocal.bridgeInterface", "\"\"", "cni0", "\"cni0\"", "0", "a/b", ""},
    {"detectLocal.interfaceNamePrefix", "\"\"", "veth", "\"veth\"", "0", "1234567890123456", ""},
    {"detectLocalMode", "\"ClusterCIDR\"", "NodeCIDR", "\"NodeCIDR\"", "1", "nodecidr", ""},
    {"detectLocalMode", "\"ClusterCIDR\"", "\"\"", "\"ClusterCIDR\"", "{}", "BridgeInterface", ""},
    {"enableProfiling", "false", "true", "true", "0", NULL, ""},
    {"featureGates", "{}", "{B: true, A: false}", "{\"B\":true,\"A\":false}", "{A: 1}", NULL, ""},
    {"healthzBindAddress", "\"0.0.0.0:10256\"", "192.0.2.1", "\"192.0.2.1:10256\"", "80",
     "192.0.2.1:65536", ""},
    {"healthzBindAddress", "\"0.0.0.0:10256\"", "\"[::1]:9\"", "\"[::1]:9\"", "[]", "0.0.0.0:10249",
     ""},
    {"hostnameOverride", "\"\"", "n", "\"n\"", "5", "\"  \"", ""},
    {"iptables.localhostNodePorts", "true", "false", "false", "\"false\"", NULL, ""},
    {"iptables.masqueradeAll", "false", "true", "true", "0", NULL, ""},
    {"iptables.masqueradeBit", "14", "0", "0", "\"14\"", "32", "mode: nftables"},
    {"iptables.minSyncPeriod", "\"1s\"", "0s", "\"1s\"", "0", "-1s", ""},
    {"iptables.minSyncPeriod", "\"1s\"", "30s", "\"30s\"", "x", "31s", ""},
    {"iptables.syncPeriod", "\"30s\"", "0s", "\"30s\"", "30", "-30s", ""},
    {"ipvs.excludeCIDRs", "null", "[10.0.0.0/8]", "[\"10.0.0.0/8\"]", "10.0.0.0/8", "[x]",
     "mode: ipvs"},
    {"ipvs.minSyncPeriod", "\"0s\"", "1s", "\"1s\"", "1", "31s", "mode: ipvs"},
    {"ipvs.scheduler", "\"\"", "rr", "\"rr\"", "1", NULL, ""},
    {"ipvs.strictARP", "false", "true", "true", "1", NULL, ""},
    {"ipvs.syncPeriod", "\"30s\"", "1m", "\"1m0s\"", "60", "-1s", "mode: ipvs"},
    {"ipvs.tcpFinTimeout", "\"0s\"", "1s", "\"1s\"", "1", "-1s", "mode: ipvs"},
    {"ipvs.tcpTimeout", "\"0s\"", "1s", "\"1s\"", "1", "-1s", "mode: ipvs"},
    {"ipvs.udpTimeout", "\"0s\"", "1s", "\"1s\"", "1", "-1s", "mode: ipvs"},
    {"logging.flushFrequency", "\"5s\"", "2000000000", "\"2s\"", "true", "x", ""},
    {"logging.format", "\"text\"", "json", "\"json\"", "1", "xml", ""},
    {"logging.options.json.infoBufferSize", "\"0\"", "5", "\"5\"", "true", NULL, ""},
    {"logging.options.json.splitStream", "false", "true", "true", "x", NULL, ""},
    {"logging.options.text.infoBufferSize", "\"0\"", "1Ki", "\"1Ki\"", "{}", NULL, ""},
    {"logging.options.text.splitStream", "false", "true", "true", "0", NULL, ""},
    {"logging.verbosity", "0", "4", "4", "\"4\"", "-1", ""},
    {"logging.vmodule", "null", "[{filePattern: a, verbosity: 3}]",
     "[{\"filePattern\":\"a\",\"verbosity\":3}]", "[{verbosity: a}]", NULL, ""},
    {"metricsBindAddress", "\"127.0.0.1:10249\"", "0.0.0.0", "\"0.0.0.0:10249\"", "1",
     "127.0.0.1:0", ""},
    {"mode", "\"nftables\"", "\"\"", "\"nftables\"", "1", "userspace", ""},
    {"nftables.masqueradeAll", "false", "true", "true", "\"\"", NULL, "mode: nftables"},
    {"nftables.masqueradeBit", "14", "31", "31", "[]", "-1", "mode: nftables"},
    {"nftables.minSyncPeriod", "\"1s\"", "10s", "\"10s\"", "10", "30.1s", "mode: nftables"},
    {"nftables.syncPeriod", "\"30s\"", "1m30s", "\"1m30s\"", "90", "-1s", "mode: nftables"},
    {"nodePortAddresses", "[\"primary\"]", "[10.0.0.0/8, fd00::/8]",
     "[\"10.0.0.0/8\",\"fd00::/8\"]", "primary", "[10.0.0.1]", ""},
    {"nodePortAddresses", "[\"primary\"]", "[]", "[\"primary\"]", "[5]", "[primary, fd00::/8]", ""},
    {"oomScoreAdj", "-999", "0", "0", "\"0\"", "-1001", ""},
    {"portRange", "\"\"", "1-2", "\"1-2\"", "1", NULL, ""},
    {"showHiddenMetricsForVersion", "\"\"", "\"1.35\"", "\"1.35\"", "1.35", NULL, ""},
    {"windowsRunAsService", "false", "true", "true", "1", NULL, ""},
    {"winkernel.enableDSR", "false", "true", "true", "1", NULL, ""},
    {"winkernel.forwardHealthCheckVip", "false", "true", "true", "1", NULL, ""},
    {"winkernel.networkName", "\"\"", "n", "\"n\"", "1", NULL, ""},
    {"winkernel.rootHnsEndpointName", "\"\"", "n", "\"n\"", "1", NULL, ""},
    {"winkernel.sourceVip", "\"\"", "n", "\"n\"", "1", NULL, ""},
};

TEST_ROWS(field_default, fields)
{
    struct options options;
    put_file("config", HEAD);
    parse_well("", &options);
    expect_in_force(&options, row->name, row->standard);
    options_clear(&options);
    /* null is as good as nothing */
    write_field(row->name, "null", "");
    parse_well("", &options);
    expect_in_force(&options, row->name, row->standard);
    options_clear(&options);
}

TEST_ROWS(field_taken, fields)
{
    struct options options;
    write_field(row->name, row->given, row->more);
    parse_well("", &options);
    expect_in_force(&options, row->name, row->taken);
    options_clear(&options);
}

/* The error names the file and the field. */
static void expect_refused(const char *field, const char *value, const char *more)
{
    struct options options;
    struct error err = {0};
    write_field(field, value, more);
    ck_assert_msg(parse("", &options, &err) == -1, "%s: %s", field, value);
    char *file = xasprintf("--config %s: ", path);
    ck_assert_msg(strncmp(err.text, file, strlen(file)) == 0, "%s", err.text);
    ck_assert_msg(strstr(err.text, field) != NULL, "%s: %s", field, err.text);
    free(file);
    error_clear(&err);
}

TEST_ROWS(field_of_wrong_type, fields)
{
    expect_refused(row->name, row->wrong, "");
}

TEST_ROWS(field_out_of_range, fields)
{
    if (row->out_of_range)
        expect_refused(row->name, row->out_of_range, row->more);
}

TEST(fields_are_all)
{
    for (size_t i = 0; i < settings_count; i++) {
        size_t at = 0;
        if (!settings[i].field || strcmp(settings[i].field, "kind") == 0 ||
            strcmp(settings[i].field, "apiVersion") == 0)
            continue;
        while (at < COUNT(fields) && strcmp(fields[at].name, settings[i].field) != 0)
            at++;
        ck_assert_msg(at < COUNT(fields), "%s", settings[i].field);
    }
}

/* Ranges of the section of another mode do not count. */
TEST(other_sections)
{
    struct options options;
    put_file("config",
             HEAD "mode: nftables\nipvs: {excludeCIDRs: [x], tcpTimeout: -1s, syncPeriod: -1s}\n");
    parse_well("", &options);
    options_clear(&options);
    put_file("config", HEAD "nftables: {masqueradeBit: 99, syncPeriod: -1s}\n");
    parse_well("", &options);
    ck_assert_int_eq(options.masquerade_bit, 14);
    options_clear(&options);
}

/* ---- modes ---- */

/* What of the sections is in force in each mode. */
TESTS(modes, 4)
{
    static const struct {
        const char *mode;
        int bit;
        bool all;
        double period;
        const char *ignored;
    } rows[] = {
        {"\"\"", 1, false, 11,
         "here: nftables.masqueradeAll, nftables.masqueradeBit, nftables.syncPeriod, "
         "ipvs.syncPeriod\n"},
        {"iptables", 1, false, 11,
         "here: nftables.masqueradeAll, nftables.masqueradeBit, nftables.syncPeriod, "
         "ipvs.syncPeriod\n"},
        {"ipvs", 1, false, 12,
         "here: nftables.masqueradeAll, nftables.masqueradeBit, nftables.syncPeriod, "
         "iptables.syncPeriod\n"},
        {"nftables", 2, true, 13,
         "here: iptables.masqueradeBit, iptables.syncPeriod, ipvs.syncPeriod\n"},
    };
    struct options options;
    char *text =
        xasprintf(HEAD "mode: %s\n"
                       "iptables: {masqueradeBit: 1, syncPeriod: 11s}\n"
                       "ipvs: {syncPeriod: 12s}\n"
                       "nftables: {masqueradeBit: 2, masqueradeAll: true, syncPeriod: 13s}\n",
                  rows[_i].mode);
    put_file("config", text);
    free(text);
    parse_well("", &options);
    ck_assert_int_eq(options.masquerade_bit, rows[_i].bit);
    ck_assert(options.masquerade_all == rows[_i].all);
    ck_assert_double_eq(options.sync_period, rows[_i].period);
    char *text_of_notes = notes_text(&options);
    ck_assert_msg(strstr(text_of_notes, rows[_i].ignored) != NULL, "%s", text_of_notes);
    free(text_of_notes);
    options_clear(&options);
}

/* ---- whole files ---- */

static const struct {
    const char *text, *error; /* behind "--config PATH: " */
} bad_files[] = {
    {"", "no document"},
    {"{", "line 2 column 1: did not find expected node content, while parsing a flow node"},
    {"[]", "not a KubeProxyConfiguration"},
    {"kind: KubeProxyConfiguration",
     "apiVersion is missing, it must be kubeproxy.config.k8s.io/v1alpha1"},
    {"apiVersion: kubeproxy.config.k8s.io/v1alpha1",
     "kind is missing, it must be KubeProxyConfiguration"},
    {"apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind:",
     "kind is missing, it must be KubeProxyConfiguration"},
    {"apiVersion: kubeproxy.config.k8s.io/v1\nkind: KubeProxyConfiguration",
     "apiVersion is \"kubeproxy.config.k8s.io/v1\", but must be kubeproxy.config.k8s.io/v1alpha1"},
    {"apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeletConfiguration",
     "kind is \"KubeletConfiguration\", but must be KubeProxyConfiguration"},
    {"apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: [KubeProxyConfiguration]",
     "kind: a list is not a string"},
    {HEAD "---\n" HEAD, "line 4 column 1: a second document, where one is expected"},
    {HEAD "conntrack: 5", "conntrack: the number 5 is not a mapping"},
    {HEAD "conntrack: {udpTimeout: 30}",
     "conntrack.udpTimeout: the number 30 is not a duration like \"30s\""},
    {HEAD "nodePortAddresses: [10.0.0.0/8, 5]",
     "nodePortAddresses: entry 2: the number 5 is not a string"},
    {HEAD "featureGates: {A: \"true\"}",
     "featureGates: A: the string \"true\" is not true or false"},
    {HEAD "detectLocalMode: BridgeInterface\ndetectLocal: {interfaceNamePrefix: a}",
     "detectLocalMode BridgeInterface needs detectLocal.bridgeInterface"},
    {HEAD "detectLocalMode: InterfaceNamePrefix",
     "detectLocalMode InterfaceNamePrefix needs detectLocal.interfaceNamePrefix"},
    {HEAD "metricsBindAddress: 0.0.0.0:10256",
     "healthzBindAddress 0.0.0.0:10256 and metricsBindAddress 0.0.0.0:10256 use the same port"},
    {HEAD "iptables: {syncPeriod: 500ms}",
     "iptables.minSyncPeriod: \"1s\" is longer than syncPeriod, which is \"500ms\""},
};

TEST_ROWS(file_refused, bad_files)
{
    struct options options;
    struct error err = {0};
    put_file("config", row->text);
    ck_assert_int_eq(parse("", &options, &err), -1);
    char *expected = xasprintf("--config %s: %s", path, row->error);
    ck_assert_str_eq(err.text, expected);
    free(expected);
    error_clear(&err);
}

static const struct {
    const char *text, *flags, *notes;
} noted[] = {
    {"mode: nftables", "", ""},
    {"mode: nftables\nfoo: 1\nconntrack: {a: {b: c}, min: 5}\nzzz: {conntrack: 1}", "",
     "0 PATH: unknown fields: foo, conntrack.a, zzz\n"},
    {"mode: nftables\nMode: iptables", "", "0 PATH: unknown fields: Mode\n"},
    {"mode: nftables\noomScoreAdj: 1\noomScoreAdj: 2", "",
     "0 PATH: duplicate fields, the last one is used: oomScoreAdj\n"},
    {"mode: nftables\nconntrack: {min: 1, min: 2, x: 1}\nfeatureGates: {}", "",
     "0 PATH: unknown fields: conntrack.x; duplicate fields, the last one is used: "
     "conntrack.min\n"},
    {"mode: nftables\nlogging: {vmodule: [{filePattern: a, x: 1, verbosity: 1}]}", "",
     "0 PATH: unknown fields: logging.vmodule[0].x\n2 settings without effect here: "
     "logging.vmodule\n"},
    {"mode: nftables\nfeatureGates: {A: true, AllowServiceExternalIPs: true}", "",
     "0 feature gates without effect here: A\n"},
    {"mode: nftables\nipvs: {strictARP: true, scheduler: \"\", syncPeriod: 30s}", "",
     "2 settings without effect here: ipvs.strictARP\n"},
    {"mode: nftables", "--kubeconfig=k --masquerade-all --healthz-port=0 --master=m -v=1",
     "0 flags ignored because of --config: --kubeconfig, --masquerade-all, --healthz-port\n"},
    {"mode: ipvs", "",
     "1 mode=\"ipvs\": nftables is used with the settings for ipvs; NodePorts are served on "
     "nodePortAddresses, by default the node's own addresses\n"},
};

TEST_ROWS(notes, noted)
{
    struct options options;
    char *whole = xasprintf(HEAD "%s\n", row->text);
    put_file("config", whole);
    free(whole);
    parse_well(row->flags, &options);
    char *text = notes_text(&options);
    ck_assert_str_eq(text, row->notes);
    free(text);
    options_clear(&options);
}

TEST(last_of_duplicates)
{
    struct options options;
    put_file("config", HEAD "oomScoreAdj: 1\nconntrack: {min: 1}\noomScoreAdj: 2\noomScoreAdj: 3\n"
                            "conntrack: {maxPerCore: 1}\n");
    parse_well("", &options);
    ck_assert_int_eq(options.oom_score_adj, 3);
    ck_assert_uint_eq(options.conntrack.max_per_core, 1);
    ck_assert_uint_eq(options.conntrack.min, 131072); /* the first section does not count at all */
    ck_assert_uint_eq(options.notes.n, 2);
    options_clear(&options);
}

/* ---- flags beside a file ---- */

/* Every flag that has a field, with a value that a file does not have: which of the two counts. */
TEST(precedence)
{
    struct options options;
    put_file("config", HEAD "mode: nftables\nhostnameOverride: of-file\n"
                            "logging: {verbosity: 3, format: json}\nbindAddress: 192.0.2.1\n"
                            "conntrack: {min: 5}\n");
    parse_well("", &options);
    ck_assert_str_eq(options.hostname_override, "of-file");
    ck_assert_int_eq(options.verbosity, 3);
    ck_assert_int_eq(options.log_format, LOG_FORMAT_JSON);
    options_clear(&options);
    parse_well("--hostname-override=of-flag -v=1 --logging-format=text --master=m --init-only "
               "--bind-address=192.0.2.2 --conntrack-min=6 --kubeconfig=k",
               &options);
    ck_assert_str_eq(options.hostname_override, "of-flag");
    ck_assert_int_eq(options.verbosity, 1);
    ck_assert_int_eq(options.log_format, LOG_FORMAT_TEXT);
    ck_assert_str_eq(options.master, "m");
    ck_assert(options.init_only);
    ck_assert_str_eq(options.bind_address, "192.0.2.1");
    ck_assert_uint_eq(options.conntrack.min, 5);
    ck_assert_ptr_null(options.kubeconfig);
    options_clear(&options);
    /* nothing of such a flag is left: not its value, not its range */
    parse_well("--cluster-cidr=10.0.0.0/8 --proxy-mode=ipvs --feature-gates=A=true "
               "--nodeport-addresses=10.0.0.0/8 --oom-score-adj=5000 --metrics-port=0",
               &options);
    ck_assert(!options.has_cluster_cidr[FAMILY_IPV4]);
    ck_assert(options.node_port_addresses.primary);
    ck_assert_int_eq(options.oom_score_adj, -999);
    ck_assert_uint_eq(options.notes.n, 1);
    options_clear(&options);
}

/* Which flags count beside a file (docs/behaviour.md 8.1): these and no other that has a field. */
TEST(flags_beside_a_file)
{
    static const char *const beside[] = {"hostname-override",
                                         "v",
                                         "vmodule",
                                         "logging-format",
                                         "log-flush-frequency",
                                         "log-text-split-stream",
                                         "log-text-info-buffer-size",
                                         "log-json-split-stream",
                                         "log-json-info-buffer-size"};
    for (size_t i = 0; i < settings_count; i++) {
        bool expected = false;
        for (size_t j = 0; j < COUNT(beside); j++)
            expected = expected || (settings[i].flag && strcmp(beside[j], settings[i].flag) == 0);
        ck_assert_msg(!!(settings[i].traits & BESIDE_FILE) == expected, "%s", settings[i].flag);
    }
}

TEST(manifests_beside_a_kubeconfig)
{
    struct options options;
    put_file("config", HEAD "mode: nftables\nclientConnection: {kubeconfig: k}\n");
    parse_well("--manifests=m", &options);
    ck_assert_str_eq(options.manifests, "m");
    options_clear(&options);
}

/* ---- a file as kubeadm writes it ---- */

static const char kubeadm[] = "apiVersion: kubeproxy.config.k8s.io/v1alpha1\n"
                              "bindAddress: 0.0.0.0\n"
                              "bindAddressHardFail: false\n"
                              "clientConnection:\n"
                              "  acceptContentTypes: \"\"\n"
                              "  burst: 0\n"
                              "  contentType: \"\"\n"
                              "  kubeconfig: /var/lib/kube-proxy/kubeconfig.conf\n"
                              "  qps: 0\n"
                              "clusterCIDR: 10.244.0.0/16,fd00:10:244::/56\n"
                              "configSyncPeriod: 0s\n"
                              "conntrack:\n"
                              "  maxPerCore: null\n"
                              "  min: null\n"
                              "  tcpBeLiberal: false\n"
                              "  tcpCloseWaitTimeout: null\n"
                              "  tcpEstablishedTimeout: null\n"
                              "  udpStreamTimeout: 0s\n"
                              "  udpTimeout: 0s\n"
                              "detectLocal:\n"
                              "  bridgeInterface: \"\"\n"
                              "  interfaceNamePrefix: \"\"\n"
                              "detectLocalMode: \"\"\n"
                              "enableProfiling: false\n"
                              "healthzBindAddress: \"\"\n"
                              "hostnameOverride: \"\"\n"
                              "iptables:\n"
                              "  localhostNodePorts: null\n"
                              "  masqueradeAll: false\n"
                              "  masqueradeBit: null\n"
                              "  minSyncPeriod: 0s\n"
                              "  syncPeriod: 0s\n"
                              "ipvs:\n"
                              "  excludeCIDRs: null\n"
                              "  minSyncPeriod: 0s\n"
                              "  scheduler: \"\"\n"
                              "  strictARP: false\n"
                              "  syncPeriod: 0s\n"
                              "  tcpFinTimeout: 0s\n"
                              "  tcpTimeout: 0s\n"
                              "  udpTimeout: 0s\n"
                              "kind: KubeProxyConfiguration\n"
                              "logging:\n"
                              "  flushFrequency: 0\n"
                              "  options:\n"
                              "    json:\n"
                              "      infoBufferSize: \"0\"\n"
                              "    text:\n"
                              "      infoBufferSize: \"0\"\n"
                              "  verbosity: 0\n"
                              "metricsBindAddress: \"\"\n"
                              "mode: \"\"\n"
                              "nftables:\n"
                              "  masqueradeAll: false\n"
                              "  masqueradeBit: null\n"
                              "  minSyncPeriod: 0s\n"
                              "  syncPeriod: 0s\n"
                              "nodePortAddresses: null\n"
                              "oomScoreAdj: null\n"
                              "portRange: \"\"\n"
                              "showHiddenMetricsForVersion: \"\"\n"
                              "winkernel:\n"
                              "  enableDSR: false\n"
                              "  forwardHealthCheckVip: false\n"
                              "  networkName: \"\"\n"
                              "  rootHnsEndpointName: \"\"\n"
                              "  sourceVip: \"\"\n";

/* All of it is the default, but for the two that kubeadm fills in. */
TEST(of_kubeadm)
{
    struct options given, standard;
    put_file("config", kubeadm);
    parse_well("", &given);
    ck_assert_str_eq(given.kubeconfig, "/var/lib/kube-proxy/kubeconfig.conf");
    ck_assert(!given.conntrack.max_given); /* null is nothing */
    ck_assert(given.has_cluster_cidr[FAMILY_IPV4] && given.has_cluster_cidr[FAMILY_IPV6]);
    put_file("config", HEAD "clientConnection: {kubeconfig: /var/lib/kube-proxy/kubeconfig.conf}\n"
                            "clusterCIDR: 10.244.0.0/16,fd00:10:244::/56\n"
                            "logging: {flushFrequency: 0}\n");
    parse_well("", &standard);
    ck_assert(cJSON_Compare(given.configuration, standard.configuration, true));
    char *text = notes_text(&given);
    ck_assert_msg(strstr(text, "unknown") == NULL && strstr(text, "twice") == NULL, "%s", text);
    free(text);
    options_clear(&given);
    options_clear(&standard);
}

/* ---- written and read again ---- */

/* Puts @value, which is taken, at @field in place of what is there. */
static void put_at(cJSON *tree, const char *field, cJSON *value)
{
    const char *dot;
    while ((dot = strchr(field, '.'))) {
        char *name = xstrndup(field, (size_t)(dot - field));
        cJSON *section = cJSON_GetObjectItemCaseSensitive(tree, name);
        tree = section ? section : cJSON_AddObjectToObject(tree, name);
        free(name);
        field = dot + 1;
    }
    cJSON_DeleteItemFromObjectCaseSensitive(tree, field);
    cJSON_AddItemToObject(tree, field, value);
}

/* Settings at random: each field of the table has its value or its default. */
static cJSON *random_tree(unsigned *seed)
{
    static const char *const all_modes[] = {"iptables", "ipvs", "nftables", ""};
    struct error err = {0};
    cJSON *tree = yaml_parse(HEAD, strlen(HEAD), &err);
    for (size_t i = 0; i < COUNT(fields); i++)
        if (rand_r(seed) % 2)
            put_at(tree, fields[i].name,
                   yaml_parse(fields[i].given, strlen(fields[i].given), &err));
    put_at(tree, "mode", cJSON_CreateString(all_modes[(unsigned)rand_r(seed) % COUNT(all_modes)]));
    return tree;
}

TEST(round_trip)
{
    unsigned seed = 5;
    for (int i = 0; i < unit_steps(300); i++) {
        struct options first, second;
        struct error err = {0};
        cJSON *tree = random_tree(&seed);
        ck_assert_msg(config_file_write(path, tree, &err) == 0, "%s", err.text);
        parse_well("", &first);
        first.write_config_to = path;
        ck_assert_msg(options_write(&first, &err) == 0, "%s", err.text);
        first.write_config_to = NULL;
        parse_well("", &second);
        char *once = cJSON_Print(first.configuration), *again = cJSON_Print(second.configuration);
        ck_assert_msg(strcmp(once, again) == 0, "%s\n%s", once, again);
        /* what was written is what the daemon does: nothing is left to say of the mode */
        vec_each (&second.notes, note)
            ck_assert_int_ne(note->importance, NOTE_INFO);
        ck_assert_int_eq(first.masquerade_bit, second.masquerade_bit);
        ck_assert_double_eq(first.sync_period, second.sync_period);
        ck_assert(first.masquerade_all == second.masquerade_all);
        ck_assert(first.conntrack.max_given == second.conntrack.max_given);
        free(once);
        free(again);
        cJSON_Delete(tree);
        options_clear(&first);
        options_clear(&second);
    }
}

TEST(not_writable)
{
    struct error err = {0};
    cJSON *tree = cJSON_CreateObject();
    ck_assert_int_eq(config_file_write("/no/such/folder/f", tree, &err), -1);
    ck_assert_str_eq(err.text, "--write-config-to /no/such/folder/f: No such file or directory");
    error_clear(&err);
    ck_assert_int_eq(config_file_write("/dev/full", tree, &err), -1);
    ck_assert_str_eq(err.text, "--write-config-to /dev/full: No space left on device");
    error_clear(&err);
    cJSON_Delete(tree);
}

/* ---- the table ---- */

/* Each default is of its own form and in its own range, each place one for values. */
TEST(table)
{
    for (size_t i = 0; i < settings_count; i++) {
        const struct setting *s = &settings[i];
        struct error err = {0};
        ck_assert(s->flag || s->field);
        ck_assert_msg(s->group == GROUP_IGNORED || s->help, "%s", s->flag);
        if (!s->standard)
            continue;
        cJSON *json = setting_read_text(s, s->standard, NULL, &err);
        ck_assert_msg(json != NULL, "%s: %s", s->field, err.text);
        ck_assert_msg(setting_check(s, json, &err) == 0, "%s: %s", s->field, err.text);
        cJSON_Delete(json);
    }
}

UNIT_FIXTURE(set_up, NULL)
