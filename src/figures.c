/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "kube-nftd/figures.h"

#include "kube-nftd/netlink/flow_cleaner.h"
#include "kube-nftd/proxy.h"
#include "kube-nftd/serve/metrics.h"

/* A family of metrics with one sample for each IP family in use. */
static void write_family(struct metrics_page *page, const struct proxy_figures *figures,
                         const char *name, const char *type, const char *help,
                         const double values[FAMILY_COUNT])
{
    metrics_family(page, name, type, help);
    for (int i = 0; i < FAMILY_COUNT; i++)
        if (figures->family[i].in_use)
            metrics_sample(page, "ip_family", family_name((enum family)i), values[i]);
}

/* The values of a member of an array of one struct a family. */
#define VALUES(array, member)                                                                      \
    (const double[FAMILY_COUNT])                                                                   \
    {                                                                                              \
        (double)(array)[FAMILY_IPV4].member, (double)(array)[FAMILY_IPV6].member                   \
    }

static void write_tables(const struct proxy_figures *figures, struct metrics_page *page)
{
    write_family(page, figures, "kube_nftd_frontends", "gauge",
                 "Addresses and ports that are proxied or rejected.",
                 VALUES(figures->family, frontends));
    metrics_family(page, "kube_nftd_frontends_claimed_twice", "gauge",
                   "Addresses and ports that more than one service port claims; one has them.");
    metrics_sample(page, NULL, NULL, (double)figures->conflicts);
    write_family(page, figures, "kube_nftd_transactions_total", "counter",
                 "Transactions that the kernel took.", VALUES(figures->family, transactions));
    write_family(page, figures, "kubeproxy_sync_proxy_rules_nftables_sync_failures_total",
                 "counter", "Transactions that the kernel refused.",
                 VALUES(figures->family, failures));
    write_family(page, figures, "kube_nftd_elements_added_total", "counter",
                 "Elements added to maps and sets.", VALUES(figures->family, added));
    write_family(page, figures, "kube_nftd_elements_deleted_total", "counter",
                 "Elements deleted from maps and sets.", VALUES(figures->family, deleted));
}

static void write_flows(const struct proxy_figures *figures, const struct flow_cleaner *flows,
                        struct metrics_page *page)
{
    const struct flow_cleaner_stats stats[FAMILY_COUNT] = {*flow_cleaner_stats(flows, FAMILY_IPV4),
                                                           *flow_cleaner_stats(flows, FAMILY_IPV6)};
    write_family(page, figures, "kubeproxy_conntrack_reconciler_deleted_entries_total", "counter",
                 "Conntrack entries of stale UDP flows that were deleted.", VALUES(stats, deleted));
    write_family(page, figures, "kube_nftd_conntrack_deletion_failures_total", "counter",
                 "Conntrack entries of stale UDP flows that could not be deleted.",
                 VALUES(stats, failed_deletions));
    write_family(page, figures, "kube_nftd_conntrack_scans_total", "counter",
                 "Passes over the conntrack table.", VALUES(stats, scans));
    write_family(page, figures, "kube_nftd_conntrack_scan_failures_total", "counter",
                 "Passes over the conntrack table that did not see all of it.",
                 VALUES(stats, failed_scans));
    write_family(page, figures, "kube_nftd_conntrack_scan_seconds_total", "counter",
                 "Time that passes over the conntrack table took.",
                 VALUES(stats, total_scan_seconds));
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
