/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The text of the metrics page: the real server, with figures that are given. */
#include "unit.h"

#include "http_client.h"

#include "kube-nftd/figures.h"
#include "kube-nftd/netlink/flow_cleaner.h"
#include "kube-nftd/proxy.h"
#include "kube-nftd/serve/metrics.h"

static struct proxy_figures figures;
static struct flow_cleaner_stats stats[FAMILY_COUNT];

static const struct proxy *const the_proxy = (const struct proxy *)(void *)&figures;
static const struct flow_cleaner *const the_flows = (const struct flow_cleaner *)(void *)stats;

/* In place of src/proxy.c. */
void proxy_figures(const struct proxy *proxy, struct proxy_figures *out)
{
    ck_assert_ptr_eq(proxy, the_proxy);
    *out = figures;
}

/* In place of src/netlink/flow_cleaner.c. */
const struct flow_cleaner_stats *flow_cleaner_stats(const struct flow_cleaner *cleaner,
                                                    enum family family)
{
    ck_assert_ptr_eq(cleaner, the_flows);
    return &stats[family];
}

static void write_page(void *ctx, struct metrics_page *page)
{
    figures_write(the_proxy, ctx, page);
}

/* The page with and without a flow cleaner. */
static void expect_page(const struct flow_cleaner *flows, const char *expected)
{
    struct error err = {0};
    uint16_t port = free_port();
    char *bind_to = xasprintf("127.0.0.1:%u", port);
    log_set_sink(take_line, NULL);
    loop = ev_loop_new(EVFLAG_AUTO);
    struct metrics *metrics = metrics_new(loop, write_page, (void *)(uintptr_t)flows);
    ck_assert_int_eq(metrics_listen(metrics, bind_to, &err), 0);
    struct reply reply = GET(port, "/metrics");
    ck_assert_int_eq(reply.status, 200);
    ck_assert_str_eq(body_of(&reply), expected);
    metrics_free(metrics);
    ev_loop_destroy(loop);
    log_set_sink(NULL, NULL);
    free(bind_to);
}

#define CONFLICTS                                                                                  \
    "# HELP kube_nftd_frontends_claimed_twice Addresses and ports that more than one service "     \
    "port claims; one has them.\n"                                                                 \
    "# TYPE kube_nftd_frontends_claimed_twice gauge\n"                                             \
    "kube_nftd_frontends_claimed_twice 3\n"

START_TEST(all_of_it)
{
    figures = (struct proxy_figures){.conflicts = 3,
                                     .family = {{.in_use = true,
                                                 .frontends = 11,
                                                 .transactions = 12,
                                                 .failures = 13,
                                                 .added = 14,
                                                 .deleted = 15},
                                                {.in_use = true,
                                                 .frontends = 21,
                                                 .transactions = 22,
                                                 .failures = 23,
                                                 .added = 24,
                                                 .deleted = 9007199254740991}}};
    stats[FAMILY_IPV4] = (struct flow_cleaner_stats){.scans = 31,
                                                     .deleted = 32,
                                                     .failed_deletions = 33,
                                                     .failed_scans = 34,
                                                     .total_scan_seconds = 36.25};
    stats[FAMILY_IPV6] = (struct flow_cleaner_stats){.scans = 41,
                                                     .deleted = 42,
                                                     .failed_deletions = 43,
                                                     .failed_scans = 44,
                                                     .total_scan_seconds = 0.000001};
    expect_page(
        the_flows,
        "# HELP kube_nftd_frontends Addresses and ports that are proxied or rejected.\n"
        "# TYPE kube_nftd_frontends gauge\n"
        "kube_nftd_frontends{ip_family=\"IPv4\"} 11\n"
        "kube_nftd_frontends{ip_family=\"IPv6\"} 21\n" CONFLICTS
        "# HELP kube_nftd_transactions_total Transactions that the kernel took.\n"
        "# TYPE kube_nftd_transactions_total counter\n"
        "kube_nftd_transactions_total{ip_family=\"IPv4\"} 12\n"
        "kube_nftd_transactions_total{ip_family=\"IPv6\"} 22\n"
        "# HELP kubeproxy_sync_proxy_rules_nftables_sync_failures_total Transactions that the "
        "kernel refused.\n"
        "# TYPE kubeproxy_sync_proxy_rules_nftables_sync_failures_total counter\n"
        "kubeproxy_sync_proxy_rules_nftables_sync_failures_total{ip_family=\"IPv4\"} 13\n"
        "kubeproxy_sync_proxy_rules_nftables_sync_failures_total{ip_family=\"IPv6\"} 23\n"
        "# HELP kube_nftd_elements_added_total Elements added to maps and sets.\n"
        "# TYPE kube_nftd_elements_added_total counter\n"
        "kube_nftd_elements_added_total{ip_family=\"IPv4\"} 14\n"
        "kube_nftd_elements_added_total{ip_family=\"IPv6\"} 24\n"
        "# HELP kube_nftd_elements_deleted_total Elements deleted from maps and sets.\n"
        "# TYPE kube_nftd_elements_deleted_total counter\n"
        "kube_nftd_elements_deleted_total{ip_family=\"IPv4\"} 15\n"
        "kube_nftd_elements_deleted_total{ip_family=\"IPv6\"} 9007199254740991\n"
        "# HELP kubeproxy_conntrack_reconciler_deleted_entries_total Conntrack entries of stale "
        "UDP flows that were deleted.\n"
        "# TYPE kubeproxy_conntrack_reconciler_deleted_entries_total counter\n"
        "kubeproxy_conntrack_reconciler_deleted_entries_total{ip_family=\"IPv4\"} 32\n"
        "kubeproxy_conntrack_reconciler_deleted_entries_total{ip_family=\"IPv6\"} 42\n"
        "# HELP kube_nftd_conntrack_deletion_failures_total Conntrack entries of stale UDP flows "
        "that could not be deleted.\n"
        "# TYPE kube_nftd_conntrack_deletion_failures_total counter\n"
        "kube_nftd_conntrack_deletion_failures_total{ip_family=\"IPv4\"} 33\n"
        "kube_nftd_conntrack_deletion_failures_total{ip_family=\"IPv6\"} 43\n"
        "# HELP kube_nftd_conntrack_scans_total Passes over the conntrack table.\n"
        "# TYPE kube_nftd_conntrack_scans_total counter\n"
        "kube_nftd_conntrack_scans_total{ip_family=\"IPv4\"} 31\n"
        "kube_nftd_conntrack_scans_total{ip_family=\"IPv6\"} 41\n"
        "# HELP kube_nftd_conntrack_scan_failures_total Passes over the conntrack table that did "
        "not see all of it.\n"
        "# TYPE kube_nftd_conntrack_scan_failures_total counter\n"
        "kube_nftd_conntrack_scan_failures_total{ip_family=\"IPv4\"} 34\n"
        "kube_nftd_conntrack_scan_failures_total{ip_family=\"IPv6\"} 44\n"
        "# HELP kube_nftd_conntrack_scan_seconds_total Time that passes over the conntrack table "
        "took.\n"
        "# TYPE kube_nftd_conntrack_scan_seconds_total counter\n"
        "kube_nftd_conntrack_scan_seconds_total{ip_family=\"IPv4\"} 36.25\n"
        "kube_nftd_conntrack_scan_seconds_total{ip_family=\"IPv6\"} 1e-06\n");
}
END_TEST

/* One family, and a kernel without conntrack over netlink. */
START_TEST(what_is_not_in_use_is_left_out)
{
    figures = (struct proxy_figures){
        .conflicts = 3, .family = {{.frontends = 1}, {.in_use = true, .frontends = 2}}};
    expect_page(NULL,
                "# HELP kube_nftd_frontends Addresses and ports that are proxied or rejected.\n"
                "# TYPE kube_nftd_frontends gauge\n"
                "kube_nftd_frontends{ip_family=\"IPv6\"} 2\n" CONFLICTS
                "# HELP kube_nftd_transactions_total Transactions that the kernel took.\n"
                "# TYPE kube_nftd_transactions_total counter\n"
                "kube_nftd_transactions_total{ip_family=\"IPv6\"} 0\n"
                "# HELP kubeproxy_sync_proxy_rules_nftables_sync_failures_total Transactions that "
                "the kernel refused.\n"
                "# TYPE kubeproxy_sync_proxy_rules_nftables_sync_failures_total counter\n"
                "kubeproxy_sync_proxy_rules_nftables_sync_failures_total{ip_family=\"IPv6\"} 0\n"
                "# HELP kube_nftd_elements_added_total Elements added to maps and sets.\n"
                "# TYPE kube_nftd_elements_added_total counter\n"
                "kube_nftd_elements_added_total{ip_family=\"IPv6\"} 0\n"
                "# HELP kube_nftd_elements_deleted_total Elements deleted from maps and sets.\n"
                "# TYPE kube_nftd_elements_deleted_total counter\n"
                "kube_nftd_elements_deleted_total{ip_family=\"IPv6\"} 0\n");
}
END_TEST

static void add_tests(TCase *tcase)
{
    tcase_add_test(tcase, all_of_it);
    tcase_add_test(tcase, what_is_not_in_use_is_left_out);
}

UNIT_MAIN("figures", add_tests)
