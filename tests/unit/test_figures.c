/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The text of the metrics page: the real server, with figures that are given. */
#include "unit.h"

#include "http_client.h"

#include "kube-nftd/figures.h"
#include "kube-nftd/netlink/flow_cleaner.h"
#include "kube-nftd/proxy.h"
#include "kube-nftd/serve/metrics.h"
#include "kube-nftd/source/reflector.h"

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

static struct reflector_figures counts[KIND_COUNT];

/* Either one for each kind, or none. */
static const struct reflector *the_reflectors[KIND_COUNT];

static void use_reflectors(bool any)
{
    for (int kind = 0; kind < KIND_COUNT; kind++)
        the_reflectors[kind] = any ? (const struct reflector *)(void *)&counts[kind] : NULL;
}

/* In place of src/source/reflector.c. */
void reflector_figures(const struct reflector *reflector, struct reflector_figures *out)
{
    *out = *(const struct reflector_figures *)(const void *)reflector;
}

static void write_page(void *ctx, struct metrics_page *page)
{
    figures_write(the_proxy, ctx, NULL, the_reflectors, NULL, page);
}

/* What stands before and behind is test_figures_parts.c's; here it is enough that it is there. */
static void expect_between(char *page, const char *before, const char *expected, const char *behind)
{
    char *begin = strstr(page, before), *end = strstr(page, behind);
    ck_assert_msg(begin && end, "no %s or %s in %s", before, behind, page);
    begin = strchr(begin + 1, '\n') + 1;
    ck_assert(begin <= end);
    *end = '\0';
    ck_assert_str_eq(begin, expected);
}

/* That part of the page, with and without a flow cleaner. */
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
    ck_assert_ptr_nonnull(strstr(body_of(&reply), "\n# TYPE kubeproxy_"));
    expect_between(reply.text + reply.body, "\nkube_nftd_refusals_total{ip_family=\"IPv6\"} 0",
                   expected, "# HELP process_");
    metrics_free(metrics);
    ev_loop_destroy(loop);
    log_set_sink(NULL, NULL);
    free(bind_to);
}

static struct sync_figures syncs;
static struct ruleset_figures table = {.replaced = 6};

static void use_families(bool ipv4)
{
    memset(&figures, 0, sizeof(figures));
    sync_figures_init(&syncs, 1000);
    for (int i = ipv4 ? 0 : 1; i < FAMILY_COUNT; i++) {
        figures.family[i].in_use = true;
        figures.family[i].syncs = &syncs;
        figures.family[i].table = &table;
        stats[i].scan_seconds.buckets = &histogram_exponential;
    }
}

/* A counter with values that begin with @tens. */
#define BY_RESOURCE(name, help, tens)                                                              \
    "# HELP " name " " help "\n# TYPE " name " counter\n" name "{resource=\"services\"} " tens     \
    "0\n" name "{resource=\"endpointslices.discovery.k8s.io\"} " tens "1\n" name                   \
    "{resource=\"servicecidrs.networking.k8s.io\"} " tens "2\n" name "{resource=\"nodes\"} " tens  \
    "3\n"

START_TEST(all_of_it)
{
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
    for (unsigned kind = 0; kind < KIND_COUNT; kind++)
        counts[kind] = (struct reflector_figures){.lists = 100 + kind,
                                                  .resumes = 110 + kind,
                                                  .events = 120 + kind,
                                                  .bad_objects = 130 + kind,
                                                  .bad_answers = 140 + kind,
                                                  .failures = 150 + kind};
    counts[KIND_SERVICE].received[ENCODING_JSON] = 7;
    counts[KIND_SERVICE].received[ENCODING_PROTOBUF] = 8;
    counts[KIND_NODE].received[ENCODING_PROTOBUF] = 9;
    use_families(true);
    use_reflectors(true);
    expect_page(
        the_flows,
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
        "kube_nftd_conntrack_scan_seconds_total{ip_family=\"IPv6\"} 1e-06\n" BY_RESOURCE(
            "kube_nftd_lists_total",
            "Whole contents taken from the API server, streamed or by pages.", "10")
            BY_RESOURCE("kube_nftd_watch_resumes_total",
                        "Watches that went on from a version remembered, without a list.", "11")
                BY_RESOURCE("kube_nftd_watch_events_total",
                            "Objects that watches said were added, changed or deleted.", "12")
                    BY_RESOURCE("kube_nftd_bad_objects_total",
                                "Objects that could not be read, each time they came.", "13")
                        BY_RESOURCE("kube_nftd_bad_answers_total",
                                    "Answers of the API server that were given up since they could "
                                    "not be read.",
                                    "14")
                            BY_RESOURCE("kube_nftd_request_failures_total",
                                        "Requests to the API server that were refused, cut or not "
                                        "answered.",
                                        "15") "# HELP kube_nftd_received_bytes_total Bytes of "
                                              "answers of the API server with objects, "
                                              "uncompressed.\n"
                                              "# TYPE kube_nftd_received_bytes_total counter\n"
                                              "kube_nftd_received_bytes_total{encoding=\"json\","
                                              "resource=\"services\"} 7\n"
                                              "kube_nftd_received_bytes_total{encoding="
                                              "\"protobuf\",resource=\"services\"} 8\n"
                                              "kube_nftd_received_bytes_total{encoding="
                                              "\"protobuf\",resource=\"nodes\"} 9\n");
}
END_TEST

/* One family, a kernel without conntrack over netlink, objects from files. */
START_TEST(what_is_not_in_use_is_left_out)
{
    use_families(false);
    use_reflectors(false);
    expect_page(NULL, "");
}
END_TEST

static void add_tests(TCase *tcase)
{
    tcase_add_test(tcase, all_of_it);
    tcase_add_test(tcase, what_is_not_in_use_is_left_out);
}

UNIT_MAIN("figures", add_tests)
