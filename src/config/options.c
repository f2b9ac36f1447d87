/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "kube-nftd/config/options.h"

#include "kube-nftd/base/alloc.h"
#include "kube-nftd/config/flag_value.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* What is read: options, and what they are made from when all flags are known. */
struct command_line {
    struct options options;
    cidr_vec cluster_cidrs[FAMILY_COUNT];
};

/* The kinds of flag_value.h; the first ones own their text. */
enum kind {
    TEXT,
    OPTIONAL_TEXT,
    INTERFACE,
    ADDRESS,
    SWITCH,
    NUMBER,
    COUNT,
    SECONDS,
    DETECT_LOCAL_MODE,
    CIDRS, /* of several flags the last counts */
    NODE_PORT_ADDRESSES,
};

enum group { OBJECTS, TRAFFIC, PODS, CONNTRACK, SERVING, RUNNING };

static const char *const headings[] = {
    [OBJECTS] = "Where objects come from:",
    [TRAFFIC] = "What is done with traffic:",
    [PODS] = "How traffic of pods is told from other traffic:",
    [CONNTRACK] = "What is set for connection tracking at the start (0 leaves a value alone):",
    [SERVING] = "Where the daemon answers:",
    [RUNNING] = "What it does:",
};

#define FIELD(member) offsetof(struct command_line, member)

static const struct flag {
    enum group group;
    const char *name; /* without dashes; one letter: with one dash or two */
    enum kind kind;
    size_t offset;
    const char *value, *help;
} flags[] = {
    {OBJECTS, "manifests", TEXT, FIELD(options.manifests), "PATH",
     "take objects from a file or folder (YAML or JSON, as kubectl get -o writes them) and follow "
     "its changes"},
    {OBJECTS, "kubeconfig", OPTIONAL_TEXT, FIELD(options.kubeconfig), "FILE",
     "how to reach the API server; without it and --master, the pod's service account"},
    {OBJECTS, "master", OPTIONAL_TEXT, FIELD(options.master), "URL",
     "the API server, instead of the one in the kubeconfig"},
    {OBJECTS, "hostname-override", OPTIONAL_TEXT, FIELD(options.hostname_override), "NAME",
     "the name of the own Node, instead of the host's name"},
    {TRAFFIC, "nodeport-addresses", NODE_PORT_ADDRESSES, FIELD(options.node_port_addresses),
     "CIDR,...",
     "on which of this host's addresses node ports answer: those in the CIDRs, or \"primary\" "
     "(default) for the node's own address of each family; may be given several times"},
    {TRAFFIC, "bind-address", ADDRESS, FIELD(options.bind_address), "IP",
     "the node's own address of its family, instead of the one in the Node object (default "
     "0.0.0.0: none)"},
    {TRAFFIC, "masquerade-all", SWITCH, FIELD(options.masquerade_all), NULL,
     "masquerade everything that goes to cluster IPs"},
    {PODS, "detect-local-mode", DETECT_LOCAL_MODE, FIELD(options.detect_local_mode), "MODE",
     "ClusterCIDR (default), NodeCIDR, BridgeInterface or InterfaceNamePrefix"},
    {PODS, "cluster-cidr", CIDRS, FIELD(cluster_cidrs), "CIDR,...",
     "the addresses of all pods, for ClusterCIDR: one CIDR of each family"},
    {PODS, "pod-bridge-interface", INTERFACE, FIELD(options.pod_bridge_interface), "NAME",
     "the bridge that packets of pods come in by, for BridgeInterface"},
    {PODS, "pod-interface-name-prefix", INTERFACE, FIELD(options.pod_interface_name_prefix),
     "PREFIX",
     "how the names of the interfaces begin that packets of pods come in by, for "
     "InterfaceNamePrefix"},
    {CONNTRACK, "conntrack-max-per-core", COUNT, FIELD(options.conntrack.max_per_core), "N",
     "how many connections to track for each CPU (default 32768), in all at most 1048576; with 0, "
     "--conntrack-min means nothing"},
    {CONNTRACK, "conntrack-min", COUNT, FIELD(options.conntrack.min), "N",
     "how many connections to track at least (default 131072)"},
    {CONNTRACK, "conntrack-tcp-timeout-established", SECONDS,
     FIELD(options.conntrack.tcp_established_timeout), "DURATION",
     "how long an idle TCP connection is tracked (default 24h)"},
    {CONNTRACK, "conntrack-tcp-timeout-close-wait", SECONDS,
     FIELD(options.conntrack.tcp_close_wait_timeout), "DURATION",
     "how long a TCP connection is tracked that one side has closed (default 1h)"},
    {CONNTRACK, "conntrack-tcp-be-liberal", SWITCH, FIELD(options.conntrack.tcp_be_liberal), NULL,
     "let TCP packets pass that are outside of the connection's window"},
    {CONNTRACK, "conntrack-udp-timeout", SECONDS, FIELD(options.conntrack.udp_timeout), "DURATION",
     "how long a UDP flow is tracked that has no answer yet (default 0s)"},
    {CONNTRACK, "conntrack-udp-timeout-stream", SECONDS,
     FIELD(options.conntrack.udp_stream_timeout), "DURATION",
     "how long a UDP flow is tracked that goes both ways (default 0s)"},
    {SERVING, "healthz-bind-address", OPTIONAL_TEXT, FIELD(options.healthz_bind_address), "IP:PORT",
     "where /healthz and /livez answer (default 0.0.0.0:10256)"},
    {SERVING, "metrics-bind-address", OPTIONAL_TEXT, FIELD(options.metrics_bind_address), "IP:PORT",
     "where /metrics answers (default 127.0.0.1:10249, or [::1]:10249 if --bind-address is IPv6)"},
    {RUNNING, "preflight", SWITCH, FIELD(options.preflight), NULL,
     "say whether this host's kernel can do what the tables need, and exit"},
    {RUNNING, "dump-rules", SWITCH, FIELD(options.dump_rules), NULL,
     "print the tables computed from the objects, in nft syntax, and exit"},
    {RUNNING, "cleanup", SWITCH, FIELD(options.cleanup), NULL, "remove the tables and exit"},
    {RUNNING, "v", NUMBER, FIELD(options.verbosity), "N", "how much to log: 0 (default) to 4"},
    {RUNNING, "version", SWITCH, FIELD(options.version), NULL, "print the version and exit"},
    {RUNNING, "help", SWITCH, FIELD(options.help), NULL, "print this and exit"},
};

#define N_FLAGS (sizeof(flags) / sizeof(flags[0]))

void options_clear(struct options *options)
{
    for (size_t i = 0; i < N_FLAGS; i++)
        if (flags[i].kind <= ADDRESS)
            free(*(char **)(void *)((char *)options + flags[i].offset));
    for (int family = 0; family < FAMILY_COUNT; family++)
        vec_free(&options->node_port_addresses.cidrs[family]);
    memset(options, 0, sizeof(*options));
}

static void print_flag(FILE *out, const struct flag *flag)
{
    fprintf(out, "  %s%s%s%s\n        %s\n", flag->name[1] ? "--" : "-", flag->name,
            flag->value ? " " : "", flag->value ? flag->value : "", flag->help);
}

void options_usage(FILE *out)
{
    fputs("Usage: kube-nftd [FLAG]...\n"
          "Watches Services and EndpointSlices and keeps the nftables tables ip and ip6 kube-nftd\n"
          "true to them, in place of kube-proxy.\n",
          out);
    for (size_t i = 0; i < N_FLAGS; i++) {
        if (i == 0 || flags[i].group != flags[i - 1].group)
            fprintf(out, "\n%s\n", headings[flags[i].group]);
        print_flag(out, &flags[i]);
    }
}

/* ---- one flag ---- */

/* The flag of that name, with '_' for '-'. */
static const struct flag *find_flag(const char *name, size_t length)
{
    for (size_t i = 0; i < N_FLAGS; i++) {
        size_t at = 0;
        if (strlen(flags[i].name) != length)
            continue;
        while (at < length && flags[i].name[at] == (name[at] == '_' ? '-' : name[at]))
            at++;
        if (at == length)
            return &flags[i];
    }
    return NULL;
}

static int set_cluster_cidrs(cidr_vec *cidrs, const char *value, struct error *err)
{
    vec_clear(&cidrs[FAMILY_IPV4]);
    vec_clear(&cidrs[FAMILY_IPV6]);
    return flag_cidrs(value, cidrs, err);
}

static int set_value(void *field, enum kind kind, const char *value, struct error *err)
{
    switch (kind) {
    case TEXT:
        return flag_text(value, field, err);
    case OPTIONAL_TEXT:
        return flag_optional_text(value, field, err);
    case INTERFACE:
        return flag_interface(value, field, err);
    case ADDRESS:
        return flag_address(value, field, err);
    case SWITCH:
        return flag_switch(value, field, err);
    case NUMBER:
        return flag_number(value, field, err);
    case COUNT:
        return flag_count(value, field, err);
    case SECONDS:
        return flag_seconds(value, field, err);
    case DETECT_LOCAL_MODE:
        return flag_detect_local_mode(value, field, err);
    case CIDRS:
        return set_cluster_cidrs(field, value, err);
    case NODE_PORT_ADDRESSES:
        return flag_node_port_addresses(value, field, err);
    }
    return 0;
}

static int set_flag(struct command_line *line, const struct flag *flag, const char *value,
                    struct error *err)
{
    if (set_value((char *)line + flag->offset, flag->kind, value, err))
        return error_prefix(err, "%s%s", flag->name[1] ? "--" : "-", flag->name);
    return 0;
}

/* Reads the flag at argv[*at] and its value, which may be the next argument. */
static int parse_flag(struct command_line *line, int argc, char *const *argv, int *at,
                      struct error *err)
{
    const char *text = argv[*at];
    if (text[0] != '-' || text[1] == '\0')
        return error_set(err, "unexpected argument: %s (there are only flags)", text);
    const char *name = text + 1 + (text[1] == '-');
    size_t length = strcspn(name, "=");
    const char *value = name[length] == '=' ? name + length + 1 : NULL;
    const struct flag *flag = find_flag(name, length);
    if (strcmp(text, "-h") == 0)
        flag = find_flag("help", 4);
    /* "-v4" for "-v 4" */
    if (!flag && text[1] == 'v' && isdigit((unsigned char)text[2])) {
        flag = find_flag("v", 1);
        value = text + 2;
    }
    bool short_name = text[1] != '-' && strcmp(text, "-h") != 0;
    if (!flag || (short_name && flag->name[1]))
        return error_set(err, "unknown flag: %.*s", (int)(name - text + (ptrdiff_t)length), text);
    if (flag->kind != SWITCH && !value) {
        if (*at + 1 >= argc)
            return error_set(err, "%s: a value is missing", text);
        value = argv[++*at];
    }
    return set_flag(line, flag, value, err);
}

/* ---- all of them ---- */

/* Only one of these is done. */
static int check_commands(const struct options *options, struct error *err)
{
    const struct {
        const char *name;
        bool given;
    } commands[] = {
        {"--preflight", options->preflight},
        {"--dump-rules", options->dump_rules},
        {"--cleanup", options->cleanup},
    };
    const char *first = NULL;
    for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
        if (commands[i].given && first)
            return error_set(err, "%s and %s exclude each other", first, commands[i].name);
        if (commands[i].given)
            first = commands[i].name;
    }
    return 0;
}

static int check_sources(const struct options *options, struct error *err)
{
    const char *other = options->kubeconfig ? "--kubeconfig" : "--master";
    if (options->manifests && (options->kubeconfig || options->master))
        return error_set(err, "--manifests and %s exclude each other: objects come from one place",
                         other);
    return 0;
}

static int check_cluster_cidrs(const cidr_vec cidrs[FAMILY_COUNT], struct error *err)
{
    char text[ADDRESS_TEXT_SIZE];
    for (int i = 0; i < FAMILY_COUNT; i++) {
        enum family family = (enum family)i;
        if (cidrs[i].n < 2)
            continue;
        const struct cidr *second = &cidrs[i].v[1];
        return error_set(err,
                         "--cluster-cidr: %s/%u is a second %s CIDR, but only one of each family "
                         "counts",
                         address_format(family, &second->address, text), second->length,
                         family_name(family));
    }
    return 0;
}

/* What each way of telling pods needs. */
static int check_detection(const struct command_line *line, struct error *err)
{
    const struct options *options = &line->options;
    enum detect_local_mode mode = options->detect_local_mode;
    if (mode == DETECT_LOCAL_BRIDGE_INTERFACE && !options->pod_bridge_interface)
        return error_set(err, "--detect-local-mode BridgeInterface needs --pod-bridge-interface");
    if (mode == DETECT_LOCAL_INTERFACE_NAME_PREFIX && !options->pod_interface_name_prefix)
        return error_set(err, "--detect-local-mode InterfaceNamePrefix needs "
                              "--pod-interface-name-prefix");
    return mode == DETECT_LOCAL_CLUSTER_CIDR ? check_cluster_cidrs(line->cluster_cidrs, err) : 0;
}

static int check(const struct command_line *line, struct error *err)
{
    if (check_sources(&line->options, err) || check_commands(&line->options, err))
        return -1;
    return check_detection(line, err);
}

/* An address that is none is taken out; one of IPv6 moves a default. */
static void settle_bind_address(struct options *options)
{
    static const struct address none;
    enum family family;
    struct address address;
    if (!options->bind_address || !address_parse(options->bind_address, &family, &address))
        return;
    if (family == FAMILY_IPV6 && !options->metrics_bind_address)
        options->metrics_bind_address = xstrdup("[::1]:10249");
    if (memcmp(&address, &none, sizeof(none)) == 0) {
        free(options->bind_address);
        options->bind_address = NULL;
    }
}

/* Makes the options from what was read. */
static void settle(struct command_line *line)
{
    struct options *options = &line->options;
    struct node_port_addresses *node_ports = &options->node_port_addresses;
    if (node_ports->cidrs[FAMILY_IPV4].n + node_ports->cidrs[FAMILY_IPV6].n == 0)
        node_ports->primary = true;
    for (int family = 0; family < FAMILY_COUNT; family++) {
        options->has_cluster_cidr[family] = line->cluster_cidrs[family].n > 0;
        if (options->has_cluster_cidr[family])
            options->cluster_cidr[family] = line->cluster_cidrs[family].v[0];
    }
    settle_bind_address(options);
}

int options_parse(int argc, char *const *argv, struct options *options, struct error *err)
{
    struct command_line line = {.options.conntrack = conntrack_defaults};
    int result = 0;
    for (int at = 1; at < argc && result == 0; at++)
        result = parse_flag(&line, argc, argv, &at, err);
    if (result == 0 && !line.options.help && !line.options.version)
        result = check(&line, err);
    settle(&line);
    for (int family = 0; family < FAMILY_COUNT; family++)
        vec_free(&line.cluster_cidrs[family]);
    *options = line.options;
    if (result)
        options_clear(options);
    return result;
}

char *node_name(const char *override, struct error *err)
{
    char host[HOST_NAME_MAX + 1] = "";
    if (!override && gethostname(host, sizeof(host)) < 0) {
        error_set(err, "cannot read the host's name: %s", strerror(errno));
        return NULL;
    }
    const char *name = override ? override : host;
    while (isspace((unsigned char)*name))
        name++;
    size_t length = strlen(name);
    while (length > 0 && isspace((unsigned char)name[length - 1]))
        length--;
    if (length == 0) {
        error_set(err, override ? "--hostname-override: the name is empty"
                                : "the host has no name: give --hostname-override");
        return NULL;
    }
    char *copy = xstrndup(name, length);
    for (char *s = copy; *s; s++)
        *s = (char)tolower((unsigned char)*s);
    return copy;
}
