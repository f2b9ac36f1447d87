/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "kube-nftd/figures.h"

#include "kube-nftd/netlink/flow_cleaner.h"
#include "kube-nftd/proxy.h"
#include "kube-nftd/serve/metrics.h"

/* One sample for each family in use. */
#define EACH_FAMILY(page, figures, value)                                                          \
    for (int i = 0; i < FAMILY_COUNT; i++)                                                         \
        if ((figures)->family[i].in_use)                                                           \
    metrics_sample(page, "ip_family", family_name((enum family)i), (double)(value))

static void write_tables(const struct proxy_figures *figures, struct metrics_page *page)
{
    metrics_family(page, "kube_nftd_frontends", "gauge",
                   "Addresses and ports that are proxied or rejected.");
    EACH_FAMILY(page, figures, figures->family[i].frontends);
    metrics_family(page, "kube_nftd_frontends_claimed_twice", "gauge",
                   "Addresses and ports that more than one service port claims; one has them.");
    metrics_sample(page, NULL, NULL, (double)figures->conflicts);
    metrics_family(page, "kube_nftd_transactions_total", "counter",
                   "Transactions that the kernel took.");
    EACH_FAMILY(page, figures, figures->family[i].transactions);
    metrics_family(page, "kubeproxy_sync_proxy_rules_nftables_sync_failures_total", "counter",
                   "Transactions that the kernel refused.");
    EACH_FAMILY(page, figures, figures->family[i].failures);
    metrics_family(page, "kube_nftd_elements_added_total", "counter",
                   "Elements added to maps and sets.");
    EACH_FAMILY(page, figures, figures->family[i].added);
    metrics_family(page, "kube_nftd_elements_deleted_total", "counter",
                   "Elements deleted from maps and sets.");
    EACH_FAMILY(page, figures, figures->family[i].deleted);
}

static void write_flows(const struct proxy_figures *figures, const struct flow_cleaner *flows,
                        struct metrics_page *page)
{
    metrics_family(page, "kubeproxy_conntrack_reconciler_deleted_entries_total", "counter",
                   "Conntrack entries of stale UDP flows that were deleted.");
    EACH_FAMILY(page, figures, flow_cleaner_stats(flows, (enum family)i)->deleted);
    metrics_family(page, "kube_nftd_conntrack_scans_total", "counter",
                   "Passes over the conntrack table.");
    EACH_FAMILY(page, figures, flow_cleaner_stats(flows, (enum family)i)->scans);
    metrics_family(page, "kube_nftd_conntrack_scan_failures_total", "counter",
                   "Passes over the conntrack table that did not see all of it.");
    EACH_FAMILY(page, figures, flow_cleaner_stats(flows, (enum family)i)->failed_scans);
    metrics_family(page, "kube_nftd_conntrack_scan_seconds_total", "counter",
                   "Time that passes over the conntrack table took.");
    EACH_FAMILY(page, figures, flow_cleaner_stats(flows, (enum family)i)->total_scan_seconds);
}

void figures_write(const struct proxy *proxy, const struct flow_cleaner *flows,
                   struct metrics_page *page)
{
    struct proxy_figures figures;
    proxy_figures(proxy, &figures);
    write_tables(&figures, page);
    if (flows)
        write_flows(&figures, flows, page);
}
