/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "setting.h"

#include "kube-nftd/base.h"
#include "kube-nftd/config.h"
#include "spelling.h"

#include <limits.h>
#include <string.h>

#define AT(member) .offset = offsetof(struct options, member)

/* In the order of --help. Settings without effect are checked and written to files all the same. */
const struct setting settings[] = {
    /* ---- where objects come from ---- */
    {GROUP_OBJECTS, "config", NULL, SETTING_TEXT, AT(config), .value = "FILE",
     .help =
         "read a KubeProxyConfiguration (kubeproxy.config.k8s.io/v1alpha1, YAML or JSON). Flags "
         "below that name a field are ignored then, except --hostname-override and the logging "
         "flags. The daemon exits with status 1 when the file is edited in place or renamed"},
    {GROUP_OBJECTS, "manifests", NULL, SETTING_TEXT, AT(manifests), .value = "PATH",
     .traits = NOT_EMPTY,
     .help = "read objects from a file or folder (YAML or JSON, as kubectl get -o writes them) and "
             "follow its changes"},
    {GROUP_OBJECTS, "kubeconfig", "clientConnection.kubeconfig", SETTING_TEXT, AT(kubeconfig),
     .value = "FILE",
     .help = "how to reach the API server; without this and --master, the pod's service account is "
             "used"},
    {GROUP_OBJECTS, "master", NULL, SETTING_TEXT, AT(master), .value = "URL",
     .help = "URL of the API server, instead of the one in the kubeconfig"},
    {GROUP_OBJECTS, "kube-api-qps", "clientConnection.qps", SETTING_FRACTION, AT(kube_api_qps),
     .standard = "5", .value = "N", .traits = ZERO_IS_DEFAULT,
     .help = "most Kubernetes Events posted per second; below 0: no limit"},
    {GROUP_OBJECTS, "kube-api-burst", "clientConnection.burst", SETTING_NUMBER, AT(kube_api_burst),
     .standard = "10", .high = INT_MAX, .value = "N", .traits = ZERO_IS_DEFAULT,
     .help = "most Kubernetes Events posted at once"},
    {GROUP_OBJECTS, "kube-api-content-type", "clientConnection.contentType", SETTING_TEXT,
     AT(content_type), .standard = "application/vnd.kubernetes.protobuf", .value = "TYPE",
     .help = "encoding requested from the API server; objects come as JSON if the server has no "
             "other, or if this is application/json"},
    {GROUP_OBJECTS, NULL, "clientConnection.acceptContentTypes", SETTING_TEXT,
     AT(accept_content_types), .value = "TYPES",
     .help = "encodings accepted in responses, as in an Accept header"},
    {GROUP_OBJECTS, "hostname-override", "hostnameOverride", SETTING_NAME, AT(hostname_override),
     .value = "NAME", .traits = BESIDE_FILE,
     .help = "name of this node's Node object, instead of the host's name"},

    /* ---- traffic ---- */
    {GROUP_TRAFFIC, "nodeport-addresses", "nodePortAddresses", SETTING_NODE_PORTS,
     AT(node_port_addresses), .standard = "primary", .value = "CIDR,...",
     .help =
         "addresses of this host that serve NodePorts: those in the CIDRs, \"primary\" (the "
         "node's own address of each family), \"all\" and \"localhost\" (127.0.0.1 and ::1, see "
         "--feature-gates), in any mixture; may be given several times"},
    {GROUP_TRAFFIC, "localhost-connections", NULL, SETTING_NUMBER, AT(localhost_connections),
     .standard = "4096", .low = 2, .high = 65536, .value = "N",
     .help =
         "most open connections to NodePorts on 127.0.0.1 and ::1; one NodePort leaves at least "
         "half of what others have left"},
    {GROUP_TRAFFIC, "bind-address", "bindAddress", SETTING_ADDRESS, AT(bind_address),
     .standard = "0.0.0.0", .value = "IP",
     .help = "the node's own address of this IP family, instead of the one in the Node object; "
             "0.0.0.0 and :: mean none"},
    {GROUP_TRAFFIC, "masquerade-all", "nftables.masqueradeAll", SETTING_SWITCH, AT(masquerade_all),
     .standard = "false", .modes = "nftables", .help = "masquerade all traffic to cluster IPs"},
    {GROUP_TRAFFIC, NULL, "nftables.masqueradeBit", SETTING_NUMBER, AT(masquerade_bit),
     .standard = "14", .high = 31, .value = "N", .modes = "nftables",
     .help = "bit of the packet mark that requests masquerading"},
    {GROUP_TRAFFIC, "iptables-masquerade-bit", "iptables.masqueradeBit", SETTING_NUMBER,
     .standard = "14", .high = 31, .value = "N", .modes = "iptables, ipvs",
     .as = "nftables.masqueradeBit", .help = "the same, unless the mode is nftables"},
    {GROUP_TRAFFIC, "iptables-sync-period", "nftables.syncPeriod", SETTING_DURATION,
     AT(sync_period), .standard = "30s", .value = "DURATION",
     .traits = ZERO_IS_DEFAULT | ABOVE_ZERO, .modes = "nftables",
     .help = "longest wait before a transaction that the kernel rejected is retried; /healthz and "
             "/livez fail when a change has waited for twice as long"},
    {GROUP_TRAFFIC, "proxy-mode", "mode", SETTING_CHOICE, .choices = "nftables, iptables, ipvs",
     .value = "MODE",
     .help = "nftables, iptables or ipvs. nftables is always used; the mode selects the section of "
             "a configuration file (iptables if empty)"},
    {GROUP_TRAFFIC, "table-owner", NULL, SETTING_CHOICE, AT(table_owner), .standard = "auto",
     .choices = "auto, off", .value = "auto|off",
     .help = "auto: no other program can change the tables while the daemon runs, if the kernel "
             "supports that (Linux 6.9 and later); off, or on older kernels: changes by other "
             "programs are detected and repaired"},
    {GROUP_TRAFFIC, "audit-period", NULL, SETTING_DURATION, AT(audit_period), .standard = "60s",
     .value = "DURATION",
     .help = "pause between two audits, which re-read and repair the tables; 0: no audits"},
    {GROUP_TRAFFIC, "count-connections", NULL, SETTING_CHOICE, AT(count_connections),
     .standard = "off", .choices = "off, services, endpoints", .value = "off|services|endpoints",
     .help = "count new connections in the kernel, for top, list -o wide and metrics: by Service, "
             "or by Service and endpoint"},
    {GROUP_TRAFFIC, "flowtable-devices", "flowtableDevices", SETTING_DEVICES, AT(flowtable_devices),
     .value = "PATTERN,...", .traits = BESIDE_FILE | OMIT_EMPTY,
     .help = "devices whose packets of known TCP and UDP connections to Services the kernel "
             "forwards by a flowtable, past routing, conntrack and the chains of all programs: "
             "names, or patterns like veth*; may be given several times. Needs Linux 5.14"},
    {GROUP_TRAFFIC, "feature-gates", "featureGates", SETTING_GATES, AT(no_external_ips),
     .value = "NAME=BOOL,...",
     .help = "AllowServiceExternalIPs=false: do not proxy external IPs of Services. "
             "KubeProxyNFTablesLocalhostNodePorts=true: serve TCP NodePorts on 127.0.0.1 and ::1, "
             "if they are in --nodeport-addresses. Other gates have no effect"},

    /* ---- pod traffic ---- */
    {GROUP_PODS, "detect-local-mode", "detectLocalMode", SETTING_CHOICE, AT(detect_local_mode),
     .standard = "ClusterCIDR",
     .choices = "ClusterCIDR, NodeCIDR, BridgeInterface, InterfaceNamePrefix", .value = "MODE",
     .help = "ClusterCIDR, NodeCIDR, BridgeInterface or InterfaceNamePrefix"},
    {GROUP_PODS, "cluster-cidr", "clusterCIDR", SETTING_CLUSTER_CIDR, AT(cluster_cidr),
     .value = "CIDR,...",
     .help = "for ClusterCIDR: the addresses of all pods, one CIDR per family"},
    {GROUP_PODS, "pod-bridge-interface", "detectLocal.bridgeInterface", SETTING_INTERFACE,
     AT(pod_bridge_interface), .value = "NAME",
     .help = "for BridgeInterface: the bridge by which packets of pods arrive"},
    {GROUP_PODS, "pod-interface-name-prefix", "detectLocal.interfaceNamePrefix", SETTING_INTERFACE,
     AT(pod_interface_name_prefix), .value = "PREFIX",
     .help = "for InterfaceNamePrefix: prefix of the interfaces by which packets of pods arrive"},

    /* ---- connection tracking ---- */
    {GROUP_CONNTRACK, "conntrack-max-per-core", "conntrack.maxPerCore", SETTING_NUMBER,
     AT(conntrack.max_per_core), .standard = "32768", .high = INT_MAX, .value = "N",
     .help = "most connections to track per CPU, 1048576 in total at most; with 0, --conntrack-min "
             "has no effect; if neither is given, a larger limit of the host stays"},
    {GROUP_CONNTRACK, "conntrack-min", "conntrack.min", SETTING_NUMBER, AT(conntrack.min),
     .standard = "131072", .high = INT_MAX, .value = "N",
     .help = "least number of connections to track"},
    {GROUP_CONNTRACK, "conntrack-tcp-timeout-established", "conntrack.tcpEstablishedTimeout",
     SETTING_SECONDS, AT(conntrack.tcp_established_timeout), .standard = "24h", .value = "DURATION",
     .help = "how long an idle TCP connection is tracked"},
    {GROUP_CONNTRACK, "conntrack-tcp-timeout-close-wait", "conntrack.tcpCloseWaitTimeout",
     SETTING_SECONDS, AT(conntrack.tcp_close_wait_timeout), .standard = "1h", .value = "DURATION",
     .help = "how long a TCP connection is tracked after one side has closed it"},
    {GROUP_CONNTRACK, "conntrack-tcp-be-liberal", "conntrack.tcpBeLiberal", SETTING_SWITCH,
     AT(conntrack.tcp_be_liberal), .standard = "false",
     .help = "accept TCP packets outside of the connection's window"},
    {GROUP_CONNTRACK, "conntrack-udp-timeout", "conntrack.udpTimeout", SETTING_SECONDS,
     AT(conntrack.udp_timeout), .standard = "0s", .value = "DURATION",
     .help = "how long a UDP flow without a reply is tracked"},
    {GROUP_CONNTRACK, "conntrack-udp-timeout-stream", "conntrack.udpStreamTimeout", SETTING_SECONDS,
     AT(conntrack.udp_stream_timeout), .standard = "0s", .value = "DURATION",
     .help = "how long a UDP flow in both directions is tracked"},

    /* ---- health and metrics ---- */
    {GROUP_SERVING, "healthz-bind-address", "healthzBindAddress", SETTING_LISTEN,
     AT(healthz_bind_address), .standard = "0.0.0.0:10256", .value = "IP:PORT",
     .help = "listen address for /healthz and /livez; [::] if --bind-address is IPv6"},
    {GROUP_SERVING, "healthz-port", NULL, SETTING_NUMBER, .high = 65535, .value = "PORT",
     .traits = NOT_BESIDE_FILE,
     .help = "port for a --healthz-bind-address without one; 0 disables it. "
             "Deprecated"},
    {GROUP_SERVING, "metrics-bind-address", "metricsBindAddress", SETTING_LISTEN,
     AT(metrics_bind_address), .standard = "127.0.0.1:10249", .value = "IP:PORT",
     .help = "listen address for /metrics; [::1] if --bind-address is IPv6"},
    {GROUP_SERVING, "metrics-port", NULL, SETTING_NUMBER, .low = 1, .high = 65535, .value = "PORT",
     .traits = NOT_BESIDE_FILE,
     .help = "port for a --metrics-bind-address without one. Deprecated"},
    {GROUP_SERVING, "bind-address-hard-fail", "bindAddressHardFail", SETTING_SWITCH,
     AT(bind_address_hard_fail), .standard = "false",
     .help = "exit at startup if one of the two addresses cannot be bound, instead of retrying"},
    {GROUP_SERVING, "profiling", "enableProfiling", SETTING_SWITCH, AT(profiling),
     .standard = "false",
     .help = "let clients of the metrics address set the log level: PUT to /debug/flags/v"},

    /* ---- commands, and the process ---- */
    {GROUP_RUNNING, "all", NULL, SETTING_SWITCH, AT(explain_all),
     .help = "with explain: list every endpoint, not only the first 1000"},
    {GROUP_RUNNING, "output", NULL, SETTING_CHOICE, AT(output), .standard = "text",
     .choices = "text, json, wide, name, yaml", .value = "FORMAT",
     .help = "with list, status, top and explain: text, json or yaml; with list also wide (more "
             "columns) and name (names only); short form -o"},
    {GROUP_RUNNING, "namespace", NULL, SETTING_NAME, AT(namespace), .value = "NAME",
     .traits = NOT_EMPTY,
     .help = "with list, top and explain: the namespace of the Service, or of all that are listed; "
             "short form -n"},
    {GROUP_RUNNING, "all-namespaces", NULL, SETTING_SWITCH, AT(all_namespaces),
     .help = "with list and top: all namespaces, as without --namespace; short form -A"},
    {GROUP_RUNNING, "once", NULL, SETTING_SWITCH, AT(once),
     .help = "with top: print the numbers of one second and exit"},
    {GROUP_RUNNING, "dump-rules", NULL, SETTING_SWITCH, .help = "same as the command dump"},
    {GROUP_RUNNING, "cleanup", NULL, SETTING_SWITCH, .help = "same as the command cleanup"},
    {GROUP_RUNNING, "cleanup-kube-proxy", NULL, SETTING_SWITCH,
     .help = "remove kube-proxy's rules from the kernel, report what remains and why, and exit; "
             "status 0 if nothing remains"},
    {GROUP_RUNNING, "dry-run", NULL, SETTING_SWITCH, AT(dry_run),
     .help = "with --cleanup-kube-proxy: only report what would be removed"},
    {GROUP_RUNNING, "init-only", NULL, SETTING_SWITCH,
     .help = "do the steps that need more privileges than the daemon (set conntrack limits, check "
             "the kernel), and exit"},
    {GROUP_RUNNING, "write-config-to", NULL, SETTING_TEXT, AT(write_config_to), .value = "FILE",
     .traits = NOT_EMPTY,
     .help = "write the effective configuration as a KubeProxyConfiguration, and exit"},
    {GROUP_RUNNING, "remove-startup-taint", NULL, SETTING_TAINT, AT(remove_startup_taint),
     .value = "KEY[=VALUE][:EFFECT]", .traits = NOT_EMPTY,
     .help = "remove the taint from this node's Node object once the tables are applied; without "
             "VALUE or EFFECT, any matches; needs the right to patch nodes"},
    {GROUP_RUNNING, "oom-score-adj", "oomScoreAdj", SETTING_NUMBER, AT(oom_score_adj),
     .standard = "-999", .low = -1000, .high = 1000, .value = "N",
     .help = "how readily the kernel kills the daemon when memory is short"},
    {GROUP_RUNNING, "v", "logging.verbosity", SETTING_NUMBER, AT(verbosity), .standard = "0",
     .high = INT_MAX, .value = "N", .traits = BESIDE_FILE, .help = "log level, 0 to 4"},
    {GROUP_RUNNING, "logging-format", "logging.format", SETTING_CHOICE, AT(log_format),
     .standard = "text", .choices = "text, json", .value = "FORMAT", .traits = BESIDE_FILE,
     .help = "text or json: one line of text or one JSON object per event"},
    {GROUP_RUNNING, "version", NULL, SETTING_VERSION, AT(version),
     .help = "print the version and exit; =raw: only the number"},
    {GROUP_RUNNING, "help", NULL, SETTING_SWITCH, AT(help), .help = "print this and exit"},

    /* ---- without effect by themselves; in mode iptables or ipvs, some of these replace values of
     * the section nftables ---- */
    {GROUP_IGNORED, NULL, "apiVersion", SETTING_TEXT,
     .standard = "kubeproxy.config.k8s.io/v1alpha1"},
    {GROUP_IGNORED, NULL, "kind", SETTING_TEXT, .standard = "KubeProxyConfiguration"},
    {GROUP_IGNORED, "log-flush-frequency", "logging.flushFrequency", SETTING_DURATION,
     .standard = "5s", .traits = BESIDE_FILE | MAY_BE_NUMBER},
    {GROUP_IGNORED, "vmodule", "logging.vmodule", SETTING_VMODULE, .traits = BESIDE_FILE},
    {GROUP_IGNORED, "log-text-split-stream", "logging.options.text.splitStream", SETTING_SWITCH,
     .standard = "false", .traits = BESIDE_FILE},
    {GROUP_IGNORED, "log-text-info-buffer-size", "logging.options.text.infoBufferSize",
     SETTING_TEXT, .standard = "0", .traits = BESIDE_FILE | MAY_BE_NUMBER},
    {GROUP_IGNORED, "log-json-split-stream", "logging.options.json.splitStream", SETTING_SWITCH,
     .standard = "false", .traits = BESIDE_FILE},
    {GROUP_IGNORED, "log-json-info-buffer-size", "logging.options.json.infoBufferSize",
     SETTING_TEXT, .standard = "0", .traits = BESIDE_FILE | MAY_BE_NUMBER},
    {GROUP_IGNORED, "show-hidden-metrics-for-version", "showHiddenMetricsForVersion",
     .type = SETTING_TEXT},
    {GROUP_IGNORED, "config-sync-period", "configSyncPeriod", SETTING_DURATION, .standard = "15m",
     .traits = ZERO_IS_DEFAULT | ABOVE_ZERO},
    {GROUP_IGNORED, NULL, "portRange", .type = SETTING_TEXT},
    {GROUP_IGNORED, "iptables-min-sync-period", "nftables.minSyncPeriod", SETTING_DURATION,
     .standard = "1s", .traits = ZERO_IS_DEFAULT, .modes = "nftables"},
    {GROUP_IGNORED, "iptables-min-sync-period", "iptables.minSyncPeriod", SETTING_DURATION,
     .standard = "1s", .traits = ZERO_IS_DEFAULT, .modes = "iptables",
     .as = "nftables.minSyncPeriod"},
    {GROUP_IGNORED, "iptables-sync-period", "iptables.syncPeriod", SETTING_DURATION,
     .standard = "30s", .traits = ZERO_IS_DEFAULT | ABOVE_ZERO, .modes = "iptables",
     .as = "nftables.syncPeriod"},
    {GROUP_IGNORED, "masquerade-all", "iptables.masqueradeAll", SETTING_SWITCH, .standard = "false",
     .modes = "iptables, ipvs", .as = "nftables.masqueradeAll"},
    {GROUP_IGNORED, "iptables-localhost-nodeports", "iptables.localhostNodePorts", SETTING_SWITCH,
     .standard = "true"},
    {GROUP_IGNORED, "ipvs-sync-period", "ipvs.syncPeriod", SETTING_DURATION, .standard = "30s",
     .traits = ZERO_IS_DEFAULT | ABOVE_ZERO, .modes = "ipvs", .as = "nftables.syncPeriod"},
    {GROUP_IGNORED, "ipvs-min-sync-period", "ipvs.minSyncPeriod", SETTING_DURATION,
     .standard = "0s", .modes = "ipvs", .as = "nftables.minSyncPeriod"},
    {GROUP_IGNORED, "ipvs-scheduler", "ipvs.scheduler", .type = SETTING_TEXT},
    {GROUP_IGNORED, "ipvs-exclude-cidrs", "ipvs.excludeCIDRs", .type = SETTING_CIDRS},
    {GROUP_IGNORED, "ipvs-strict-arp", "ipvs.strictARP", SETTING_SWITCH, .standard = "false"},
    {GROUP_IGNORED, "ipvs-tcp-timeout", "ipvs.tcpTimeout", SETTING_DURATION, .standard = "0s"},
    {GROUP_IGNORED, "ipvs-tcpfin-timeout", "ipvs.tcpFinTimeout", SETTING_DURATION,
     .standard = "0s"},
    {GROUP_IGNORED, "ipvs-udp-timeout", "ipvs.udpTimeout", SETTING_DURATION, .standard = "0s"},
    {GROUP_IGNORED, NULL, "winkernel.networkName", .type = SETTING_TEXT},
    {GROUP_IGNORED, NULL, "winkernel.sourceVip", .type = SETTING_TEXT},
    {GROUP_IGNORED, NULL, "winkernel.enableDSR", SETTING_SWITCH, .standard = "false"},
    {GROUP_IGNORED, NULL, "winkernel.rootHnsEndpointName", .type = SETTING_TEXT},
    {GROUP_IGNORED, NULL, "winkernel.forwardHealthCheckVip", SETTING_SWITCH, .standard = "false"},
    {GROUP_IGNORED, NULL, "windowsRunAsService", SETTING_SWITCH, .standard = "false"},
    {GROUP_IGNORED, "boot-id-file", NULL, .type = SETTING_TEXT},
    {GROUP_IGNORED, "machine-id-file", NULL, .type = SETTING_TEXT},
};

const size_t settings_count = sizeof(settings) / sizeof(settings[0]);

/* ---- lookup ---- */

static bool same_flag(const char *flag, const char *name, size_t length)
{
    size_t at = 0;
    if (!flag || strlen(flag) != length)
        return false;
    while (at < length && flag[at] == (name[at] == '_' ? '-' : name[at]))
        at++;
    return at == length;
}

const struct setting *setting_by_flag(const char *name, size_t length)
{
    settings_each (setting)
        if (same_flag(setting->flag, name, length))
            return setting;
    return NULL;
}

bool setting_is_first(const struct setting *setting)
{
    return setting_by_flag(setting->flag, strlen(setting->flag)) == setting;
}

const struct setting *setting_near_flag(const char *text, size_t length)
{
    const struct setting *nearest = NULL;
    size_t least = SPELLING_FAR;
    settings_each (setting) {
        char *name = setting->flag ? setting_flag_name(setting) : NULL;
        const size_t errors = name ? spelling_errors(text, length, name) : SPELLING_FAR;
        if (errors < least) {
            least = errors;
            nearest = setting;
        }
        free(name);
    }
    return nearest;
}

const struct setting *setting_by_field(const char *path)
{
    settings_each (setting)
        if (setting->field && strcmp(setting->field, path) == 0)
            return setting;
    return NULL;
}

bool setting_is_below(const char *field, const char *section)
{
    size_t length = strlen(section);
    return field && strncmp(field, section, length) == 0 && field[length] == '.';
}

char *setting_flag_name(const struct setting *setting)
{
    return xasprintf("%s%s", setting->flag[1] ? "--" : "-", setting->flag);
}

/* ---- --help ---- */

static const char *const headings[] = {
    [GROUP_OBJECTS] = "Where objects come from:",
    [GROUP_TRAFFIC] = "Traffic:",
    [GROUP_PODS] = "Pod traffic:",
    [GROUP_CONNTRACK] = "Connection tracking, set at startup (0 leaves a value unchanged):",
    [GROUP_SERVING] = "Health and metrics:",
    [GROUP_RUNNING] = "Commands, and the process:",
};

static const char ignored_heading[] =
    "Accepted for compatibility with kube-proxy, without effect (changes are committed at once, a "
    "burst as one transaction, so no minimum sync period is needed):";

/* A terminal's usual width. */
#define COLUMNS 80

void setting_print_text(FILE *out, int indent, const char *text)
{
    const size_t width = (size_t)(COLUMNS - indent);
    while (*text) {
        size_t length = strlen(text);
        if (length > width)
            for (length = width; length > 1 && text[length] != ' ';)
                length--;
        fprintf(out, "%*s%.*s\n", indent, "", (int)length, text);
        text += length + (text[length] == ' ');
    }
}

void setting_print(FILE *out, const struct setting *s)
{
    char *name = s->flag ? setting_flag_name(s) : xasprintf("in the file: %s", s->field);
    const char *field = s->flag ? s->field : NULL;
    const char *standard = s->type == SETTING_SWITCH ? NULL : s->standard;
    bool facts = field || standard;
    char *help = xasprintf("%s%s%s%s%s%s%s", s->help, facts ? " (" : "", field ? field : "",
                           field && standard ? "; " : "", standard ? "default " : "",
                           standard ? standard : "", facts ? ")" : "");
    fprintf(out, "  %s%s%s\n", name, s->value ? " " : "", s->value ? s->value : "");
    setting_print_text(out, HELP_INDENT, help);
    free(name);
    free(help);
}

void settings_print(FILE *out)
{
    enum setting_group group = GROUP_IGNORED;
    settings_each (setting) {
        if (setting->group == GROUP_IGNORED)
            continue;
        if (setting->group != group)
            fprintf(out, "\n%s\n", headings[setting->group]);
        group = setting->group;
        setting_print(out, setting);
    }
    fputc('\n', out);
    setting_print_text(out, 0, ignored_heading);
    settings_each (setting)
        if (setting->group == GROUP_IGNORED && setting->flag && setting_is_first(setting))
            fprintf(out, "  --%s\n", setting->flag);
}
