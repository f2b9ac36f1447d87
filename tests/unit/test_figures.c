/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The text of the metrics page, from figures that are given. */
#include "unit.h"

#include "kube-nftd/base/alloc.h"
#include "kube-nftd/base/clock.h"
#include "kube-nftd/commit.h"
#include "kube-nftd/figures.h"
#include "kube-nftd/netlink/flow_cleaner.h"
#include "kube-nftd/proxy.h"
#include "kube-nftd/serve/health.h"
#include "kube-nftd/serve/metrics_page.h"
#include "kube-nftd/source/reflector.h"
#include "kube-nftd/source/request_figures.h"

#include <fcntl.h>
#include <glob.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

static struct proxy_figures figures;
static struct sync_figures syncs[FAMILY_COUNT];
static struct ruleset_figures tables[FAMILY_COUNT];
static struct flow_cleaner_stats stats[FAMILY_COUNT];
static struct health_figures answers;
static struct reflector_figures counts[KIND_COUNT];
static struct request_figures requests;
static struct figures_sources sources;
static char *page;

/* In place of src/proxy.c, netlink/flow_cleaner.c, serve/health.c and source/reflector.c. */
void proxy_figures(const struct proxy *proxy, struct proxy_figures *out)
{
    ck_assert_ptr_eq(proxy, &figures);
    *out = figures;
}

const struct flow_cleaner_stats *flow_cleaner_stats(const struct flow_cleaner *cleaner,
                                                    enum family family)
{
    ck_assert_ptr_eq(cleaner, stats);
    return &stats[family];
}

struct health_figures health_figures(const struct health *health)
{
    ck_assert_ptr_eq(health, &answers);
    return answers;
}

void reflector_figures(const struct reflector *reflector, struct reflector_figures *out)
{
    *out = *(const struct reflector_figures *)(const void *)reflector;
}

static void set_up(void)
{
    memset(&figures, 0, sizeof(figures));
    memset(&answers, 0, sizeof(answers));
    memset(stats, 0, sizeof(stats));
    memset(tables, 0, sizeof(tables));
    memset(counts, 0, sizeof(counts));
    sources = (struct figures_sources){
        .proxy = (const struct proxy *)(void *)&figures,
        .flows = (const struct flow_cleaner *)(void *)stats,
        .health = (const struct health *)(void *)&answers,
        .requests = &requests,
    };
    for (int kind = 0; kind < KIND_COUNT; kind++)
        sources.reflectors[kind] = (const struct reflector *)(void *)&counts[kind];
    for (int f = 0; f < FAMILY_COUNT; f++) {
        sync_figures_init(&syncs[f], 1000.5);
        figures.family[f].in_use = true;
        figures.family[f].syncs = &syncs[f];
        figures.family[f].table = &tables[f];
        stats[f].scan_seconds.buckets = &histogram_exponential;
    }
}

static void tear_down(void)
{
    request_figures_clear(&requests);
    free(page);
    page = NULL;
}

static void write_page(void *ctx, struct metrics_page *out)
{
    figures_write(&sources, out);
}

static void print(void)
{
    size_t length;
    free(page);
    page = metrics_print(write_page, NULL, &length);
    ck_assert_uint_eq(strlen(page), length);
}

/* Among the samples, a line each, are these in a row. */
static void expect_samples(const char *expected)
{
    char *samples = xcalloc(strlen(page) + 1, 1);
    for (const char *line = page; *line; line += strcspn(line, "\n") + 1)
        if (*line != '#')
            strncat(samples, line, strcspn(line, "\n") + 1);
    ck_assert_msg(strstr(samples, expected) != NULL, "no %s in %s", expected, samples);
    free(samples);
}

static void expect_line(const char *line)
{
    char *wanted = xasprintf("\n%s\n", line);
    ck_assert_msg(strstr(page, wanted) != NULL, "no %s in %s", line, page);
    free(wanted);
}

static void expect_absent(const char *name)
{
    ck_assert_msg(strstr(page, name) == NULL, "%s in %s", name, page);
}

#define ENDPOINT_CHANGES "kubeproxy_sync_proxy_rules_endpoint_changes_"
#define SERVICE_CHANGES "kubeproxy_sync_proxy_rules_service_changes_"

/* Without labels they are there from the start, others with their first observation. */
TEST(nothing_observed)
{
    print();
    expect_samples(
        "kubeproxy_sync_proxy_rules_last_queued_timestamp_seconds{ip_family=\"IPv4\"} 1000.5\n"
        "kubeproxy_sync_proxy_rules_last_queued_timestamp_seconds{ip_family=\"IPv6\"} "
        "1000.5\n" ENDPOINT_CHANGES "pending 0\n" ENDPOINT_CHANGES "total 0\n" SERVICE_CHANGES
        "pending 0\n" SERVICE_CHANGES "total 0\nkube_nftd_frontends{");
}

TEST(changes)
{
    figures.slices_pending = 1;
    figures.slice_changes = 2;
    figures.services_pending = 3;
    figures.service_changes = 4;
    print();
    expect_line("# TYPE " ENDPOINT_CHANGES "pending gauge\n" ENDPOINT_CHANGES "pending 1");
    expect_line("# TYPE " ENDPOINT_CHANGES "total counter\n" ENDPOINT_CHANGES "total 2");
    expect_line("# TYPE " SERVICE_CHANGES "pending gauge\n" SERVICE_CHANGES "pending 3");
    expect_line("# TYPE " SERVICE_CHANGES "total counter\n" SERVICE_CHANGES "total 4");
}

static const struct {
    const char *name;
    struct histogram *histogram;
    const char *first_bound, *last_bound;
} histograms[] = {
    {"kubeproxy_sync_proxy_rules_duration_seconds", &syncs[FAMILY_IPV6].all, "0.001", "16.384"},
    {"kubeproxy_sync_full_proxy_rules_duration_seconds", &syncs[FAMILY_IPV6].full, "0.001",
     "16.384"},
    {"kubeproxy_sync_partial_proxy_rules_duration_seconds", &syncs[FAMILY_IPV6].partial, "0.001",
     "16.384"},
    {"kubeproxy_network_programming_duration_seconds", &syncs[FAMILY_IPV6].programming, "0.25",
     "300"},
    {"kubeproxy_conntrack_reconciler_sync_duration_seconds", &stats[FAMILY_IPV6].scan_seconds,
     "0.001", "16.384"},
};

TESTS(histograms_by_family, COUNT(histograms))
{
    char *line;
    print();
    expect_absent(histograms[_i].name);
    histogram_add(histograms[_i].histogram, 0.0005);
    histogram_add(histograms[_i].histogram, 1000);
    print();
    line = xasprintf("# TYPE %s histogram\n%s_bucket{ip_family=\"IPv6\",le=\"%s\"} 1",
                     histograms[_i].name, histograms[_i].name, histograms[_i].first_bound);
    expect_line(line);
    free(line);
    line = xasprintf("%s_bucket{ip_family=\"IPv6\",le=\"%s\"} 1\n"
                     "%s_bucket{ip_family=\"IPv6\",le=\"+Inf\"} 2\n"
                     "%s_sum{ip_family=\"IPv6\"} 1000.0005\n"
                     "%s_count{ip_family=\"IPv6\"} 2",
                     histograms[_i].name, histograms[_i].last_bound, histograms[_i].name,
                     histograms[_i].name, histograms[_i].name);
    expect_line(line);
    free(line);
    line = xasprintf("%s_count{ip_family=\"IPv4\"}", histograms[_i].name);
    expect_absent(line);
    free(line);
    for (size_t i = 0; i < sizeof(histograms) / sizeof(histograms[0]); i++)
        if (i != (size_t)_i)
            expect_absent(histograms[i].name);
}

#define NO_LOCAL "kubeproxy_sync_proxy_rules_no_local_endpoints_total"

TEST(successes)
{
    syncs[FAMILY_IPV4].without_local = (struct ports_without_local){5, 6};
    print();
    expect_absent(NO_LOCAL);
    expect_absent("last_timestamp_seconds");
    syncs[FAMILY_IPV4].last_success = 1795280617.25;
    print();
    expect_line("# TYPE kubeproxy_sync_proxy_rules_last_timestamp_seconds gauge\n"
                "kubeproxy_sync_proxy_rules_last_timestamp_seconds{ip_family=\"IPv4\"} "
                "1795280617.25");
    expect_line("# TYPE " NO_LOCAL " gauge\n" NO_LOCAL
                "{ip_family=\"IPv4\",traffic_policy=\"internal\"} 5\n" NO_LOCAL
                "{ip_family=\"IPv4\",traffic_policy=\"external\"} 6");
    expect_absent(NO_LOCAL "{ip_family=\"IPv6\"");
}

TEST(failures)
{
    syncs[FAMILY_IPV6].failures = 3;
    print();
    expect_line("# TYPE kubeproxy_sync_proxy_rules_nftables_sync_failures_total counter\n"
                "kubeproxy_sync_proxy_rules_nftables_sync_failures_total{ip_family=\"IPv6\"} 3");
}

#define DELETED "kubeproxy_conntrack_reconciler_deleted_entries_total"

TEST(deleted_flows)
{
    print();
    expect_absent(DELETED);
    stats[FAMILY_IPV4].scans = 1;
    stats[FAMILY_IPV6].deleted = 7;
    print();
    expect_line("# TYPE " DELETED " counter\n" DELETED "{ip_family=\"IPv4\"} 0\n" DELETED
                "{ip_family=\"IPv6\"} 7");
    sources.flows = NULL;
    print();
    expect_absent("conntrack");
}

TEST(health_answers)
{
    print();
    expect_absent("kubeproxy_proxy_");
    answers.healthz.good = 4;
    answers.healthz.bad = 1;
    answers.livez.bad = 2;
    print();
    expect_line("# TYPE kubeproxy_proxy_healthz_total counter\n"
                "kubeproxy_proxy_healthz_total{code=\"200\"} 4\n"
                "kubeproxy_proxy_healthz_total{code=\"503\"} 1");
    expect_line("# TYPE kubeproxy_proxy_livez_total counter\n"
                "kubeproxy_proxy_livez_total{code=\"503\"} 2");
}

/* A family that is not in use says nothing. */
TEST(one_family)
{
    figures.family[FAMILY_IPV6].in_use = false;
    figures.family[FAMILY_IPV6].syncs = NULL;
    figures.family[FAMILY_IPV6].table = NULL;
    syncs[FAMILY_IPV4].last_success = 1;
    histogram_add(&syncs[FAMILY_IPV4].all, 1);
    stats[FAMILY_IPV6].scans = 1;
    print();
    expect_absent("IPv6");
    ck_assert_ptr_nonnull(strstr(page, "IPv4"));
}

TEST(our_own_of_the_tables)
{
    figures.family[FAMILY_IPV4].frontends = 1;
    figures.family[FAMILY_IPV6].frontends = 2;
    figures.conflicts = 3;
    figures.reserved = 24;
    figures.services = 4;
    figures.slices = 5;
    figures.left_out[KIND_SERVICE] = 6;
    figures.left_out[KIND_NODE] = 7;
    syncs[FAMILY_IPV4].transactions = 11;
    syncs[FAMILY_IPV4].bytes = 12;
    syncs[FAMILY_IPV4].seconds = 1.5;
    syncs[FAMILY_IPV4].last_bytes = 13;
    syncs[FAMILY_IPV4].last_seconds = 0.25;
    syncs[FAMILY_IPV4].elements_added = 14;
    syncs[FAMILY_IPV4].elements_deleted = 15;
    tables[FAMILY_IPV4] = (struct ruleset_figures){.elements = 16,
                                                   .read_backs = 17,
                                                   .mistakes = 25,
                                                   .replaced = 18,
                                                   .refused = 19,
                                                   .left_out = 20,
                                                   .refusals = 21,
                                                   .records = 22,
                                                   .most_records = 23,
                                                   .records_known = true};
    figures.family[FAMILY_IPV4].repairs = 19;
    figures.family[FAMILY_IPV6].drift = 20;
    figures.audits = 21;
    print();
    expect_samples("kube_nftd_frontends{ip_family=\"IPv4\"} 1\n"
                   "kube_nftd_frontends{ip_family=\"IPv6\"} 2\n"
                   "kube_nftd_services 4\n"
                   "kube_nftd_endpoint_slices 5\n"
                   "kube_nftd_objects_left_out_total{kind=\"Service\"} 6\n"
                   "kube_nftd_objects_left_out_total{kind=\"EndpointSlice\"} 0\n"
                   "kube_nftd_objects_left_out_total{kind=\"ServiceCIDR\"} 0\n"
                   "kube_nftd_objects_left_out_total{kind=\"Node\"} 7\n"
                   "kube_nftd_frontends_claimed_twice 3\n"
                   "kube_nftd_frontends_reserved 24\n"
                   "kube_nftd_repairs_total{ip_family=\"IPv4\"} 19\n"
                   "kube_nftd_repairs_total{ip_family=\"IPv6\"} 0\n"
                   "kube_nftd_drift_elements{ip_family=\"IPv4\"} 0\n"
                   "kube_nftd_drift_elements{ip_family=\"IPv6\"} 20\n"
                   "kube_nftd_audits_total 21\n"
                   "kube_nftd_affinity_records{ip_family=\"IPv4\"} 22\n"
                   "kube_nftd_affinity_records_most{ip_family=\"IPv4\"} 23\n"
                   "kube_nftd_affinity_records_most{ip_family=\"IPv6\"} 0\n"
                   "kube_nftd_transactions_total{ip_family=\"IPv4\"} 11\n"
                   "kube_nftd_transactions_total{ip_family=\"IPv6\"} 0\n"
                   "kube_nftd_transaction_bytes_total{ip_family=\"IPv4\"} 12\n"
                   "kube_nftd_transaction_bytes_total{ip_family=\"IPv6\"} 0\n"
                   "kube_nftd_transaction_seconds_total{ip_family=\"IPv4\"} 1.5\n"
                   "kube_nftd_transaction_seconds_total{ip_family=\"IPv6\"} 0\n"
                   "kube_nftd_last_transaction_bytes{ip_family=\"IPv4\"} 13\n"
                   "kube_nftd_last_transaction_bytes{ip_family=\"IPv6\"} 0\n"
                   "kube_nftd_last_transaction_seconds{ip_family=\"IPv4\"} 0.25\n"
                   "kube_nftd_last_transaction_seconds{ip_family=\"IPv6\"} 0\n"
                   "kube_nftd_elements{ip_family=\"IPv4\"} 16\n"
                   "kube_nftd_elements{ip_family=\"IPv6\"} 0\n"
                   "kube_nftd_elements_added_total{ip_family=\"IPv4\"} 14\n"
                   "kube_nftd_elements_added_total{ip_family=\"IPv6\"} 0\n"
                   "kube_nftd_elements_deleted_total{ip_family=\"IPv4\"} 15\n"
                   "kube_nftd_elements_deleted_total{ip_family=\"IPv6\"} 0\n"
                   "kube_nftd_table_read_backs_total{ip_family=\"IPv4\"} 17\n"
                   "kube_nftd_table_read_backs_total{ip_family=\"IPv6\"} 0\n"
                   "kube_nftd_frontends_recomputed_total{ip_family=\"IPv4\"} 25\n"
                   "kube_nftd_frontends_recomputed_total{ip_family=\"IPv6\"} 0\n"
                   "kube_nftd_tables_replaced_total{ip_family=\"IPv4\"} 18\n"
                   "kube_nftd_tables_replaced_total{ip_family=\"IPv6\"} 0\n"
                   "kube_nftd_frontends_refused{ip_family=\"IPv4\"} 19\n"
                   "kube_nftd_frontends_refused{ip_family=\"IPv6\"} 0\n"
                   "kube_nftd_elements_refused{ip_family=\"IPv4\"} 20\n"
                   "kube_nftd_elements_refused{ip_family=\"IPv6\"} 0\n"
                   "kube_nftd_refusals_total{ip_family=\"IPv4\"} 21\n"
                   "kube_nftd_refusals_total{ip_family=\"IPv6\"} 0\n");
}

/* The value of a sample without labels. */
static double value(const char *name)
{
    double result;
    char *before = xasprintf("\n%s ", name);
    const char *at = strstr(page, before);
    ck_assert_msg(at != NULL, "no %s in %s", name, page);
    ck_assert_int_eq(sscanf(at + strlen(before), "%lf", &result), 1);
    free(before);
    return result;
}

/* But for the one by which they are listed. Valgrind has some of its own, which fcntl() hides. */
static size_t open_descriptors(void)
{
    glob_t found;
    ck_assert_int_eq(glob("/proc/self/fd/*", GLOB_NOSORT, NULL, &found), 0);
    size_t count = found.gl_pathc - 1;
    globfree(&found);
    return count;
}

TEST(the_process)
{
    struct rlimit limit;
    print();
    double start = value("process_start_time_seconds"), now = clock_realtime();
    ck_assert_msg(start > now - 3600 && start < now + 1, "%f at %f", start, now);
    double fds = value("process_open_fds"), memory = value("process_resident_memory_bytes");
    ck_assert(fds == (double)open_descriptors());
    double cpu = value("process_cpu_seconds_total");
    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
    ck_assert(value("process_max_fds") == (double)limit.rlim_cur);
    ck_assert(memory > 100e3 && value("process_virtual_memory_bytes") >= memory);

    int fd = open("/dev/null", O_RDONLY);
    size_t size = (size_t)32 << 20;
    volatile char *block = xcalloc(size, 1);
    for (size_t i = 0; i < size; i += 1024)
        block[i] = 1;
    while (clock_realtime() < now + 0.2)
        continue;
    print();
    ck_assert(value("process_open_fds") == fds + 1);
    ck_assert(value("process_resident_memory_bytes") > memory + 30e6);
    ck_assert(value("process_start_time_seconds") == start);
    double spent = value("process_cpu_seconds_total") - cpu;
    ck_assert_msg(spent > 0.01 && spent < 5, "%f", spent);
    free((void *)block);
    close(fd);
}

TEST(the_build)
{
    static const char *const labels[] = {"{build_date=\"",
                                         ",compiler=\"",
                                         ",git_commit=\"" KUBE_NFTD_COMMIT "\"",
                                         ",git_tree_state=\"" KUBE_NFTD_TREE_STATE "\"",
                                         ",git_version=\"v" KUBE_NFTD_VERSION "\"",
                                         ",go_version=\"",
                                         ",major=\"",
                                         ",minor=\"",
                                         ",platform=\"linux/"};
    print();
    const char *at = strstr(page, "\nkubernetes_build_info");
    ck_assert_ptr_nonnull(at);
    char *line = xstrndup(at + 1, strcspn(at + 1, "\n"));
    const char *rest = line;
    for (size_t i = 0; i < sizeof(labels) / sizeof(labels[0]); i++) {
        rest = strstr(rest, labels[i]);
        ck_assert_msg(rest != NULL, "%s: %s", line, labels[i]);
    }
    ck_assert_str_eq(line + strlen(line) - 4, "\"} 1");
    free(line);
    ck_assert_ptr_nonnull(strstr(page, ",version=\"" KUBE_NFTD_VERSION "\"} 1\n"));
}

/* ---- requests ---- */

TEST(requests_by_outcome_and_time)
{
    requests = (struct request_figures){.host = xstrdup("10.0.0.1:6443")};
    print();
    expect_absent("rest_client");
    request_figures_answered(&requests, "GET", 200);
    request_figures_answered(&requests, "GET", 0);
    request_figures_answered(&requests, "POST", 200);
    request_figures_answered(&requests, "GET", 200);
    request_figures_answered(&requests, "GET", 410);
    request_figures_took(&requests, "GET", 0.02);
    request_figures_took(&requests, "GET", 70);
    request_figures_took(&requests, "POST", 0.005);
    print();
    expect_line("# TYPE rest_client_requests_total counter");
    expect_line("# TYPE rest_client_request_duration_seconds histogram");
#define GETS "{host=\"10.0.0.1:6443\",verb=\"GET\""
#define POSTS "{host=\"10.0.0.1:6443\",verb=\"POST\""
#define BUCKET(labels, le, n)                                                                      \
    "rest_client_request_duration_seconds_bucket" labels ",le=\"" le "\"} " n "\n"
#define BUCKETS(labels, first, second, all)                                                        \
    BUCKET(labels, "0.005", first)                                                                 \
    BUCKET(labels, "0.025", second)                                                                \
    BUCKET(labels, "0.1", second)                                                                  \
    BUCKET(labels, "0.25", second)                                                                 \
    BUCKET(labels, "0.5", second)                                                                  \
    BUCKET(labels, "1", second)                                                                    \
    BUCKET(labels, "2", second)                                                                    \
    BUCKET(labels, "4", second)                                                                    \
    BUCKET(labels, "8", second)                                                                    \
    BUCKET(labels, "15", second)                                                                   \
    BUCKET(labels, "30", second) BUCKET(labels, "60", second) BUCKET(labels, "+Inf", all)
    expect_samples(
        "rest_client_requests_total{code=\"200\",host=\"10.0.0.1:6443\",method=\"GET\"} 2\n"
        "rest_client_requests_total{code=\"<error>\",host=\"10.0.0.1:6443\",method=\"GET\"} 1\n"
        "rest_client_requests_total{code=\"200\",host=\"10.0.0.1:6443\",method=\"POST\"} 1\n"
        "rest_client_requests_total{code=\"410\",host=\"10.0.0.1:6443\",method=\"GET\"} "
        "1\n" BUCKETS(GETS, "0", "1",
                      "2") "rest_client_request_duration_seconds_sum" GETS "} 70.02\n"
                           "rest_client_request_duration_seconds_count" GETS "} 2\n" BUCKETS(
                               POSTS, "1", "1",
                               "1") "rest_client_request_duration_seconds_sum" POSTS "} 0.005\n"
                                    "rest_client_request_duration_seconds_count" POSTS "} 1\n");
}

TESTS(gates, 2)
{
    figures.external_ips = _i == 1;
    print();
    expect_line(
        _i == 1
            ? "kubernetes_feature_enabled{name=\"AllowServiceExternalIPs\",stage=\"DEPRECATED\"} 1"
            : "kubernetes_feature_enabled{name=\"AllowServiceExternalIPs\",stage=\"DEPRECATED\"} "
              "0");
    expect_line("kubernetes_feature_enabled{name=\"NFTablesProxyMode\",stage=\"\"} 1");
}

/* A counter with values that begin with @tens. */
#define BY_RESOURCE(name, help, tens)                                                              \
    "# HELP " name " " help "\n# TYPE " name " counter\n" name "{resource=\"services\"} " tens     \
    "0\n" name "{resource=\"endpointslices.discovery.k8s.io\"} " tens "1\n" name                   \
    "{resource=\"servicecidrs.networking.k8s.io\"} " tens "2\n" name "{resource=\"nodes\"} " tens  \
    "3\n"

TEST(flows_and_reflectors)
{
    stats[FAMILY_IPV4] =
        (struct flow_cleaner_stats){.scans = 31,
                                    .deleted = 32,
                                    .failed_deletions = 33,
                                    .failed_scans = 34,
                                    .total_scan_seconds = 36.25,
                                    .scan_seconds.buckets = &histogram_exponential};
    stats[FAMILY_IPV6] =
        (struct flow_cleaner_stats){.scans = 41,
                                    .deleted = 42,
                                    .failed_deletions = 43,
                                    .failed_scans = 44,
                                    .total_scan_seconds = 0.000001,
                                    .scan_seconds.buckets = &histogram_exponential};
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
    print();
    const char *expected =
        "# HELP kube_nftd_conntrack_deletion_failures_total Failed deletions of conntrack entries "
        "of stale UDP flows.\n# TYPE kube_nftd_conntrack_deletion_failures_total "
        "counter\nkube_nftd_conntrack_deletion_failures_total{ip_family=\"IPv4\"} "
        "33\nkube_nftd_conntrack_deletion_failures_total{ip_family=\"IPv6\"} 43\n# HELP "
        "kube_nftd_conntrack_scans_total Scans of the conntrack table.\n# TYPE "
        "kube_nftd_conntrack_scans_total "
        "counter\nkube_nftd_conntrack_scans_total{ip_family=\"IPv4\"} "
        "31\nkube_nftd_conntrack_scans_total{ip_family=\"IPv6\"} 41\n# HELP "
        "kube_nftd_conntrack_scan_failures_total Scans of the conntrack table that ended before "
        "its last entry.\n# TYPE kube_nftd_conntrack_scan_failures_total "
        "counter\nkube_nftd_conntrack_scan_failures_total{ip_family=\"IPv4\"} "
        "34\nkube_nftd_conntrack_scan_failures_total{ip_family=\"IPv6\"} 44\n# HELP "
        "kube_nftd_conntrack_scan_seconds_total Total duration of scans of the conntrack table.\n"
        "# TYPE kube_nftd_conntrack_scan_seconds_total counter\n"
        "kube_nftd_conntrack_scan_seconds_total{ip_family=\"IPv4\"} 36.25\n"
        "kube_nftd_conntrack_scan_seconds_total{ip_family=\"IPv6\"} 1e-06\n" BY_RESOURCE(
            "kube_nftd_lists_total",
            "Complete lists received from the API server, streamed or paged.", "10")
            BY_RESOURCE("kube_nftd_watch_resumes_total",
                        "Watches resumed from the last resource version, without a list.", "11")
                BY_RESOURCE("kube_nftd_watch_events_total",
                            "Watch events: objects added, modified or deleted.", "12")
                    BY_RESOURCE("kube_nftd_bad_objects_total",
                                "Invalid objects, counted each time they are received.", "13")
                        BY_RESOURCE("kube_nftd_bad_answers_total",
                                    "Responses of the API server abandoned as unreadable.", "14")
                            BY_RESOURCE(
                                "kube_nftd_request_failures_total",
                                "Requests to the API server that were refused, interrupted or not "
                                "answered.",
                                "15") "# HELP kube_nftd_received_bytes_total Uncompressed size of "
                                      "the API server's responses with objects.\n"
                                      "# TYPE kube_nftd_received_bytes_total counter\n"
                                      "kube_nftd_received_bytes_total{encoding=\"json\","
                                      "resource=\"services\"} 7\n"
                                      "kube_nftd_received_bytes_total{encoding="
                                      "\"protobuf\",resource=\"services\"} 8\n"
                                      "kube_nftd_received_bytes_total{encoding="
                                      "\"protobuf\",resource=\"nodes\"} 9\n";
    ck_assert_msg(strstr(page, expected) != NULL, "no %s in %s", expected, page);
}

/* One family, a kernel without conntrack over netlink, objects from files. */
TEST(what_is_not_in_use_is_left_out)
{
    sources = (struct figures_sources){.proxy = sources.proxy};
    print();
    expect_absent("conntrack");
    expect_absent("resource=");
    expect_absent("rest_client");
    expect_absent("kubeproxy_proxy_");
    expect_absent("kube_nftd_events_total");
}

UNIT_FIXTURE(set_up, tear_down)
