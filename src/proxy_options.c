/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The proxy's configuration: from options, and from what the kernel supports. */
#include "proxy.h"

#include "kube-nftd/base.h"
#include "kube-nftd/config.h"

#include <stdlib.h>

/* The mark bit by which CNI's portmap plugin and netavark request masquerading: 0x2000. */
#define HOST_PORTS_BIT 13

void proxy_configure_ruleset(struct proxy_config *config, enum family family)
{
    static const enum pod_detector detectors[] = {
        [DETECT_LOCAL_CLUSTER_CIDR] = DETECT_CIDRS,
        [DETECT_LOCAL_NODE_CIDR] = DETECT_CIDRS,
        [DETECT_LOCAL_BRIDGE_INTERFACE] = DETECT_INTERFACE,
        [DETECT_LOCAL_INTERFACE_NAME_PREFIX] = DETECT_INTERFACE_PREFIX,
    };
    static const enum connection_counting counting[] = {
        [COUNT_CONNECTIONS_OFF] = COUNT_NOTHING,
        [COUNT_CONNECTIONS_SERVICES] = COUNT_SERVICES,
        [COUNT_CONNECTIONS_ENDPOINTS] = COUNT_ENDPOINTS,
    };
    const struct options *options = config->options;
    struct ruleset_config *ruleset = &config->rulesets[family];
    enum detect_local_mode mode = options->detect_local_mode;
    bool unknown = mode == DETECT_LOCAL_CLUSTER_CIDR && !options->has_cluster_cidr[family];
    ruleset->detector = unknown ? DETECT_NONE : detectors[mode];
    ruleset->interface = mode == DETECT_LOCAL_BRIDGE_INTERFACE ? options->pod_bridge_interface
                         : mode == DETECT_LOCAL_INTERFACE_NAME_PREFIX
                             ? options->pod_interface_name_prefix
                             : NULL;
    ruleset->masquerade_all = options->masquerade_all;
    ruleset->localhost = options->localhost_node_ports;
    ruleset->mark = 1u << options->masquerade_bit;
    if (options->masquerade_bit == HOST_PORTS_BIT)
        log_warn("daemon",
                 "family=%s masqueradeBit=%d is also the mark of CNI's portmap plugin and of "
                 "netavark (0x2000): each masquerades what the other one marks",
                 family_name(family), options->masquerade_bit);
    ruleset->counting = ruleset->no_counters ? COUNT_NOTHING : counting[options->count_connections];
    if (ruleset->no_counters && options->count_connections != COUNT_CONNECTIONS_OFF)
        log_warn("daemon",
                 "family=%s this kernel cannot count in elements of sets (CONFIG_NFT_COUNTER, "
                 "CONFIG_NF_CONNTRACK_MARK): --count-connections has no effect",
                 family_name(family));
    ruleset->flowtable = options->flowtable_devices && !ruleset->no_flowtable;
    if (ruleset->no_flowtable && options->flowtable_devices)
        log_warn(
            "daemon",
            "family=%s this kernel has no flowtables that serve here (Linux 5.14 with "
            "CONFIG_NF_FLOW_TABLE and CONFIG_NFT_FLOW_OFFLOAD has): --flowtable-devices has no "
            "effect",
            family_name(family));
}

bool proxy_serves_localhost(const struct proxy_config *config, enum family family)
{
    const struct options *options = config->options;
    return options->localhost_node_ports && config->families[family] &&
           node_port_addresses_have_localhost(&options->node_port_addresses, family);
}

int proxy_check_cluster_cidr(const struct proxy_config *config, struct error *err)
{
    const struct options *options = config->options;
    bool given = false, fits = false;
    for (int i = 0; i < FAMILY_COUNT; i++) {
        given = given || options->has_cluster_cidr[i];
        fits = fits || (options->has_cluster_cidr[i] && config->families[i]);
    }
    if (options->detect_local_mode == DETECT_LOCAL_CLUSTER_CIDR && !given)
        log_warn("daemon",
                 "no cluster CIDR is given (clusterCIDR, --cluster-cidr), so pods are not "
                 "recognised: connections to cluster IPs from outside of the cluster are not "
                 "masqueraded, and with externalTrafficPolicy Local pods count as outside");
    if (options->detect_local_mode != DETECT_LOCAL_CLUSTER_CIDR || !given || fits)
        return 0;
    error_set(err, "clusterCIDR (--cluster-cidr) has no CIDR of %s, the only family in use",
              family_name(config->families[FAMILY_IPV4] ? FAMILY_IPV4 : FAMILY_IPV6));
    return error_of_configuration(err);
}

/* ---- the kernel ---- */

static void degrade(const struct preflight *preflight, const struct options *options,
                    struct ruleset_config *ruleset)
{
    const bool wants_owner = options->table_owner == TABLE_OWNER_AUTO;
    const char *family = family_name(preflight->family);
    ruleset->no_fib = !preflight_has(preflight, NEED_FIB);
    ruleset->no_reject = !preflight_has(preflight, NEED_REJECT);
    ruleset->owned = wants_owner && preflight_has(preflight, NEED_OWNER);
    ruleset->no_counters = !preflight_has(preflight, NEED_COUNTERS);
    ruleset->no_flowtable = !preflight_has(preflight, NEED_FLOWTABLE);
    if (ruleset->no_fib)
        log_warn(
            "daemon",
            "family=%s this kernel has no fib expression (CONFIG_NFT_FIB_%s): the host itself "
            "gets no short-circuit under externalTrafficPolicy Local, and addresses of its own "
            "inside a ServiceCIDR do not answer",
            family, preflight->family == FAMILY_IPV4 ? "IPV4" : "IPV6");
    if (wants_owner && !ruleset->owned)
        log_info("daemon",
                 "family=%s this kernel cannot protect the table from other programs (Linux 6.9 "
                 "can): their changes are detected and repaired",
                 family);
    if (ruleset->no_reject)
        log_warn("daemon",
                 "family=%s this kernel cannot reject packets (CONFIG_NFT_REJECT): it drops them "
                 "instead, so clients wait for a time-out",
                 family);
}

int proxy_check_kernel(struct nft_socket *socket, struct proxy_config *config, struct error *err)
{
    struct preflight preflights[FAMILY_COUNT];
    bool any = false;
    preflight_run(socket, config->families, config->options->flowtable_devices, preflights);
    for (int i = 0; i < FAMILY_COUNT; i++) {
        const struct preflight *preflight = &preflights[i];
        if (!config->families[i])
            continue;
        if (preflight_passed(preflight)) {
            degrade(preflight, config->options, &config->rulesets[i]);
            any = true;
        } else {
            char *missing = preflight_missing(preflight);
            log_error("daemon", "family=%s is not proxied, this kernel lacks: %s",
                      family_name((enum family)i), missing);
            config->families[i] = false;
            error_set(err, "this kernel lacks: %s", missing);
            free(missing);
        }
    }
    for (int i = 0; i < FAMILY_COUNT; i++)
        preflight_clear(&preflights[i]);
    if (!any)
        return error_prefix(err, "no family can be proxied (kube-nftd preflight shows all)");
    error_clear(err);
    return 0;
}
