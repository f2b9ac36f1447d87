/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "proxy_options.h"

#include "kube-nftd/base.h"

#include <stdlib.h>

/* Settings of one family's table. */
static void apply_to_family(const struct options *options, enum family family,
                            struct proxy_config *config)
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
    struct ruleset_config *ruleset = &config->rulesets[family];
    bool by_cidr = options->detect_local_mode == DETECT_LOCAL_CLUSTER_CIDR;
    config->node.has_cluster_cidr[family] = by_cidr && options->has_cluster_cidr[family];
    config->node.cluster_cidr[family] = options->cluster_cidr[family];
    ruleset->detector = detectors[options->detect_local_mode];
    if (by_cidr && !options->has_cluster_cidr[family])
        ruleset->detector = DETECT_NONE;
    else if (ruleset->detector == DETECT_INTERFACE)
        ruleset->interface = options->pod_bridge_interface;
    else if (ruleset->detector == DETECT_INTERFACE_PREFIX)
        ruleset->interface = options->pod_interface_name_prefix;
    ruleset->owned = ruleset->owned && options->table_owner == TABLE_OWNER_AUTO;
    ruleset->masquerade_all = options->masquerade_all;
    ruleset->mark = 1u << options->masquerade_bit;
    ruleset->counting = ruleset->no_counters ? COUNT_NOTHING : counting[options->count_connections];
    if (ruleset->no_counters && options->count_connections != COUNT_CONNECTIONS_OFF)
        log_warn("daemon",
                 "family=%s this kernel cannot count in elements of sets (CONFIG_NFT_COUNTER): "
                 "--count-connections has no effect",
                 family_name(family));
}

void proxy_options_apply(const struct options *options, const char *node_name,
                         struct proxy_config *config)
{
    struct node_info_config *node = &config->node;
    enum family family;
    struct address address;
    config->sync_period = options->sync_period;
    config->audit_period = options->audit_period;
    config->no_external_ips = options->no_external_ips;
    node->name = node_name;
    node->required = !options->manifests;
    node->node_port_addresses = options->node_port_addresses;
    node->follow_pod_cidrs = options->detect_local_mode == DETECT_LOCAL_NODE_CIDR;
    if (options->bind_address && address_parse(options->bind_address, &family, &address)) {
        node->has_bind_address[family] = true;
        node->bind_address[family] = address;
    }
    for (int i = 0; i < FAMILY_COUNT; i++)
        apply_to_family(options, (enum family)i, config);
}

int proxy_options_check_cluster_cidr(const struct options *options,
                                     const struct proxy_config *config, struct error *err)
{
    const bool *given = options->has_cluster_cidr, *used = config->families;
    bool any = given[FAMILY_IPV4] || given[FAMILY_IPV6];
    bool counts =
        (given[FAMILY_IPV4] && used[FAMILY_IPV4]) || (given[FAMILY_IPV6] && used[FAMILY_IPV6]);
    if (options->detect_local_mode != DETECT_LOCAL_CLUSTER_CIDR || !any || counts)
        return 0;
    error_set(err, "clusterCIDR (--cluster-cidr) has no CIDR of %s, the only family in use",
              family_name(used[FAMILY_IPV4] ? FAMILY_IPV4 : FAMILY_IPV6));
    return error_of_configuration(err);
}

/* ---- the kernel ---- */

static void degrade(const struct preflight *preflight, struct ruleset_config *ruleset)
{
    const char *family = family_name(preflight->family);
    ruleset->no_fib = !preflight_has(preflight, NEED_FIB);
    ruleset->no_reject = !preflight_has(preflight, NEED_REJECT);
    ruleset->owned = preflight_has(preflight, NEED_OWNER);
    ruleset->no_counters = !preflight_has(preflight, NEED_COUNTERS);
    if (ruleset->no_fib)
        log_warn("daemon",
                 "family=%s this kernel has no fib expression (CONFIG_NFT_FIB_%s): the host itself "
                 "gets no short-circuit under externalTrafficPolicy Local",
                 family, preflight->family == FAMILY_IPV4 ? "IPV4" : "IPV6");
    if (!ruleset->owned)
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

int proxy_options_check_kernel(struct nft_socket *socket, struct proxy_config *config,
                               struct error *err)
{
    struct preflight preflights[FAMILY_COUNT];
    bool any = false;
    preflight_run(socket, config->families, preflights);
    for (int i = 0; i < FAMILY_COUNT; i++) {
        const struct preflight *preflight = &preflights[i];
        if (!config->families[i])
            continue;
        if (preflight_passed(preflight)) {
            degrade(preflight, &config->rulesets[i]);
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
