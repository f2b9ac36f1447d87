/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The list of metrics. Those with the prefix kubeproxy_ are kube-proxy's, with its names, labels,
 * types and buckets (docs/behaviour.md 7).
 * kubeproxy_sync_proxy_rules_nftables_cleanup_failures_total is omitted: unused objects are deleted
 * in ordinary transactions here, so nothing could be counted.
 */
#include "pages.h"

#include "kube-nftd/commit.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#if defined(__clang__)
#define COMPILER "clang"
#else
#define COMPILER "gcc"
#endif

/* Go's names. */
#if defined(__x86_64__)
#define ARCHITECTURE "amd64"
#elif defined(__aarch64__)
#define ARCHITECTURE "arm64"
#elif defined(__arm__)
#define ARCHITECTURE "arm"
#elif defined(__i386__)
#define ARCHITECTURE "386"
#elif defined(__s390x__)
#define ARCHITECTURE "s390x"
#elif defined(__riscv)
#define ARCHITECTURE "riscv64"
#elif defined(__powerpc64__)
#define ARCHITECTURE "ppc64le"
#else
#define ARCHITECTURE "unknown"
#endif

/* The struct that contains a value: the snapshot, or one per IP family in use or per kind of
 * object. CONSTANT: the value is 1. */
enum place { CONSTANT, ONCE, OF_PROCESS, OF_FAMILY, OF_SYNCS, OF_TABLE, OF_FLOWS, OF_KIND };

struct member {
    enum { NONE, WHOLE, FLOATING, HISTOGRAM } type;
    size_t offset, size;
};

struct metric {
    const char *name, *type, *help; /* no name: more samples of the previous metric */
    enum place place;
    struct member value;
    struct member when; /* no sample while this and the value are 0; NONE: always a sample */
    struct metrics_label labels[METRICS_LABELS_MOST];
    /* Replaces all of the above: writes samples with arbitrary labels. */
    void (*write)(const struct snapshot *now, struct metrics_page *page);
};

/* ---- samples with arbitrary labels ---- */

static void write_flowtable_devices(const struct snapshot *now, struct metrics_page *page)
{
    for (enum family i = 0; i < FAMILY_COUNT; i++)
        if (now->family[i].flowtable.in_use)
            metrics_sample(page, (const struct metrics_label[]){{"ip_family", family_name(i)}}, 1,
                           (double)now->family[i].flowtable.devices->n);
}

static void write_flowtable_flows(const struct snapshot *now, struct metrics_page *page)
{
    struct flowtable_flows flows;
    bool in_use = false;
    for (enum family i = 0; i < FAMILY_COUNT; i++)
        in_use = in_use || now->family[i].flowtable.in_use;
    if (!in_use || !flowtable_flows(&flows))
        return;
    for (enum family i = 0; i < FAMILY_COUNT; i++)
        if (now->family[i].flowtable.in_use)
            metrics_sample(page, (const struct metrics_label[]){{"ip_family", family_name(i)}}, 1,
                           (double)flows.n[i]);
}

static void write_requests(const struct snapshot *now, struct metrics_page *page)
{
    const struct request_stats *requests = now->requests;
    for (size_t i = 0; requests && i < requests->counts.n; i++) {
        const struct request_count *it = &requests->counts.v[i];
        char code[24];
        snprintf(code, sizeof(code), "%ld", it->status);
        const struct metrics_label labels[] = {{"code", it->status ? code : "<error>"},
                                               {"host", requests->host},
                                               {"method", it->method}};
        metrics_sample(page, labels, 3, (double)it->count);
    }
}

static void write_request_times(const struct snapshot *now, struct metrics_page *page)
{
    const struct request_stats *requests = now->requests;
    for (size_t i = 0; requests && i < requests->times.n; i++) {
        const struct request_times *it = &requests->times.v[i];
        const struct metrics_label labels[] = {{"host", requests->host}, {"verb", it->method}};
        metrics_histogram(page, labels, 2, &it->seconds);
    }
}

static void write_dropped_lines(const struct snapshot *now, struct metrics_page *page)
{
    (void)now;
    metrics_sample(page, NULL, 0, (double)log_lines_dropped());
}

/* ---- the list ---- */

#define MEMBER(type, member)                                                                       \
    {                                                                                              \
        _Generic(((const type *)NULL)->member, double                                              \
                 : FLOATING, struct histogram                                                      \
                 : HISTOGRAM, default                                                              \
                 : WHOLE),                                                                         \
            offsetof(type, member), sizeof(((const type *)NULL)->member)                           \
    }

#define ONCE(member) .place = ONCE, .value = MEMBER(struct snapshot, member)
#define PROCESS(member) .place = OF_PROCESS, .value = MEMBER(struct process_usage, member)
#define FAMILY(member) .place = OF_FAMILY, .value = MEMBER(struct table_view, member)
#define SYNCS(member) .place = OF_SYNCS, .value = MEMBER(struct sync_metrics, member)
#define TABLE(member) .place = OF_TABLE, .value = MEMBER(struct ruleset_stats, member)
#define FLOWS(member) .place = OF_FLOWS, .value = MEMBER(struct flow_cleaner_stats, member)
#define REFLECTOR(member) .place = OF_KIND, .value = MEMBER(struct reflector_stats, member)

#define WHEN(type, member) .when = MEMBER(type, member)
#define LABEL(name, value) .labels = {{name, value}}
#define GATE(name, stage) .labels = {{"name", name}, {"stage", stage}}

static const struct metric metrics[] = {
    {"kubeproxy_sync_proxy_rules_duration_seconds", "histogram",
     "Duration of syncs of the family's table, failed ones included.", SYNCS(all)},
    {"kubeproxy_sync_full_proxy_rules_duration_seconds", "histogram",
     "Duration of full syncs, which read the table back: the first one, and those after failures.",
     SYNCS(full)},
    {"kubeproxy_sync_partial_proxy_rules_duration_seconds", "histogram",
     "Duration of partial syncs, which send only the difference.", SYNCS(partial)},
    {"kubeproxy_network_programming_duration_seconds", "histogram",
     "Time from the change that triggered an EndpointSlice update until it was applied.",
     SYNCS(programming)},
    {"kubeproxy_sync_proxy_rules_last_timestamp_seconds", "gauge",
     "Time of the last successful sync.", SYNCS(last_success),
     WHEN(struct sync_metrics, last_success)},
    {"kubeproxy_sync_proxy_rules_last_queued_timestamp_seconds", "gauge",
     "Time when a change last requested a sync.", SYNCS(last_queued),
     WHEN(struct sync_metrics, last_queued)},
    {"kubeproxy_sync_proxy_rules_nftables_sync_failures_total", "counter",
     "Transactions that the kernel rejected.", SYNCS(failures)},
    {"kubeproxy_sync_proxy_rules_no_local_endpoints_total", "gauge",
     "Service ports with traffic policy Local that have endpoints, but none on this node.",
     SYNCS(without_local.internal), WHEN(struct sync_metrics, last_success),
     LABEL("traffic_policy", "internal")},
    {SYNCS(without_local.external), WHEN(struct sync_metrics, last_success),
     LABEL("traffic_policy", "external")},
    {"kubeproxy_sync_proxy_rules_endpoint_changes_pending", "gauge",
     "Changed EndpointSlices that are not applied yet.", ONCE(slices_pending)},
    {"kubeproxy_sync_proxy_rules_endpoint_changes_total", "counter",
     "EndpointSlices of Services that were received or deleted; counts unchanged ones too.",
     ONCE(slice_changes)},
    {"kubeproxy_sync_proxy_rules_service_changes_pending", "gauge",
     "Changed Services that are not applied yet.", ONCE(services_pending)},
    {"kubeproxy_sync_proxy_rules_service_changes_total", "counter",
     "Services that were received or deleted; counts unchanged ones too, once per IP family.",
     ONCE(service_changes)},
    {"kubeproxy_conntrack_reconciler_sync_duration_seconds", "histogram",
     "Duration of scans of the conntrack table.", FLOWS(scan_seconds)},
    {"kubeproxy_conntrack_reconciler_deleted_entries_total", "counter",
     "Deleted conntrack entries of stale UDP flows.", FLOWS(deleted)},
    {"kubeproxy_proxy_healthz_total", "counter",
     "Responses of /healthz on the health address, by status code.",
     ONCE(health_counts.healthz.good), LABEL("code", "200")},
    {ONCE(health_counts.healthz.bad), LABEL("code", "503")},
    {"kubeproxy_proxy_livez_total", "counter",
     "Responses of /livez on the health address, by status code.", ONCE(health_counts.livez.good),
     LABEL("code", "200")},
    {ONCE(health_counts.livez.bad), LABEL("code", "503")},

    {"kubeproxy_nftables_localhost_nodeport_listeners", "gauge",
     "NodePorts that are served on the family's loopback address.",
     .write = metrics_localhost_listeners},
    {"kubeproxy_nftables_localhost_nodeport_listener_creation_failures_total", "counter",
     "Failed attempts to listen at a NodePort on the family's loopback address.",
     .write = metrics_localhost_failures},
    {"kubeproxy_nftables_localhost_nodeport_rejected_packets_total", "counter",
     "First packets to NodePorts on loopback addresses that are not served there: UDP and SCTP, "
     "and "
     "TCP unless --nodeport-addresses has localhost. The kernel refuses them, unless a process of "
     "this host listens.",
     .write = metrics_localhost_rejected},
    {"kube_nftd_localhost_connections", "gauge",
     "Open connections to NodePorts on loopback addresses.",
     .write = metrics_localhost_connections},

    {"kube_nftd_frontends", "gauge",
     "Frontends: addresses and ports that are proxied, rejected or dropped.", FAMILY(frontends)},
    {"kube_nftd_services", "gauge", "Services in the cache.", ONCE(n_services)},
    {"kube_nftd_endpoint_slices", "gauge", "EndpointSlices in the cache.", ONCE(n_slices)},
    {"kube_nftd_objects_left_out_total", "counter",
     "Received objects that are invalid; the last good version of each stays active.",
     ONCE(invalid[KIND_SERVICE]), LABEL("kind", "Service")},
    {ONCE(invalid[KIND_ENDPOINTSLICE]), LABEL("kind", "EndpointSlice")},
    {ONCE(invalid[KIND_SERVICECIDR]), LABEL("kind", "ServiceCIDR")},
    {ONCE(invalid[KIND_NODE]), LABEL("kind", "Node")},
    {"kube_nftd_frontends_claimed_twice", "gauge",
     "Frontends that several service ports claim; one of these gets each.", ONCE(conflicts)},
    {"kube_nftd_frontends_reserved", "gauge",
     "Addresses and ports of the API server that Services claim as external or load-balancer "
     "addresses; no Service gets them.",
     ONCE(reserved)},
    {"kube_nftd_endpoints_at_service_addresses", "gauge",
     "Endpoints of service ports that are not used, since they are cluster IPs or inside a "
     "ServiceCIDR.",
     ONCE(service_addresses)},
    {"kube_nftd_repairs_total", "counter", "Repairs of the table after changes by other programs.",
     FAMILY(repairs)},
    {"kube_nftd_drift_elements", "gauge",
     "Elements that audits found changed, missing or unexpected since startup, and repaired.",
     FAMILY(drift)},
    {"kube_nftd_audits_total", "counter", "Completed audits of all tables.", ONCE(audits)},
    {"kube_nftd_affinity_records", "gauge",
     "Session affinity records at the last look, seconds ago: clients with a remembered endpoint.",
     TABLE(records), WHEN(struct ruleset_stats, records_known)},
    {"kube_nftd_affinity_records_most", "gauge",
     "Capacity for session affinity records; 0 before the first look.", TABLE(most_records)},
    {"kube_nftd_service_connections_total", "counter",
     "New connections to a Service port, with --count-connections: the 1,000 ports with the most.",
     .write = metrics_connections},
    {"kube_nftd_flowtable_devices", "gauge", "Devices of the flowtable, with --flowtable-devices.",
     .write = write_flowtable_devices},
    {"kube_nftd_flowtable_flows", "gauge",
     "Connections that flowtables forward; estimated from 4,096 of conntrack's entries if it has "
     "more.",
     .write = write_flowtable_flows},
    {"kube_nftd_transactions_total", "counter", "Transactions that the kernel accepted.",
     SYNCS(transactions)},
    {"kube_nftd_transaction_bytes_total", "counter", "Size of the accepted transactions.",
     SYNCS(bytes)},
    {"kube_nftd_transaction_seconds_total", "counter",
     "Time that the accepted transactions took in the kernel.", SYNCS(seconds)},
    {"kube_nftd_last_transaction_bytes", "gauge", "Size of the last accepted transaction.",
     SYNCS(last_bytes)},
    {"kube_nftd_last_transaction_seconds", "gauge",
     "Time that the last accepted transaction took in the kernel.", SYNCS(last_seconds)},
    {"kube_nftd_elements", "gauge",
     "Elements applied to maps and sets of the table; an address range counts as two.",
     TABLE(elements)},
    {"kube_nftd_elements_added_total", "counter", "Elements added to maps and sets.",
     SYNCS(elements_added)},
    {"kube_nftd_elements_deleted_total", "counter", "Elements deleted from maps and sets.",
     SYNCS(elements_deleted)},
    {"kube_nftd_table_read_backs_total", "counter", "Read-backs of the table after failures.",
     TABLE(read_backs)},
    {"kube_nftd_frontends_recomputed_total", "counter",
     "Frontends computed from scratch because an endpoint change did not fit their applied "
     "endpoints.",
     TABLE(mistakes)},
    {"kube_nftd_tables_replaced_total", "counter",
     "Rebuilds of the table because its maps or sets differed from the desired ones.",
     TABLE(replaced)},
    {"kube_nftd_left_out", "gauge",
     "Service ports and endpoints that limits of the table leave out; sets written by packets "
     "(session affinity records, counters) that are full.",
     FAMILY(limited[LIMIT_NUMBERS]), LABEL("limit", "service-ports")},
    {FAMILY(limited[LIMIT_ENDPOINTS]), LABEL("limit", "endpoints")},
    {FAMILY(limited[LIMIT_AFFINITY_RECORDS]), LABEL("limit", "affinity-records")},
    {FAMILY(limited[LIMIT_COUNTERS]), LABEL("limit", "counters")},
    {"kube_nftd_frontends_refused", "gauge",
     "Quarantined frontends: the kernel rejected their latest rules.", TABLE(rejected)},
    {"kube_nftd_elements_refused", "gauge",
     "Rejected elements of no single frontend, such as cluster IPs and address ranges.",
     TABLE(rejected_elements)},
    {"kube_nftd_refusals_total", "counter",
     "Frontends and elements quarantined after the kernel rejected them.", TABLE(rejections)},

    {"kube_nftd_conntrack_deletion_failures_total", "counter",
     "Failed deletions of conntrack entries of stale UDP flows.", FLOWS(failed_deletions)},
    {"kube_nftd_conntrack_scans_total", "counter", "Scans of the conntrack table.", FLOWS(scans)},
    {"kube_nftd_conntrack_scan_failures_total", "counter",
     "Scans of the conntrack table that ended before its last entry.", FLOWS(failed_scans)},
    {"kube_nftd_conntrack_scan_seconds_total", "counter",
     "Total duration of scans of the conntrack table.", FLOWS(total_scan_seconds)},

    {"kube_nftd_lists_total", "counter",
     "Complete lists received from the API server, streamed or paged.", REFLECTOR(lists)},
    {"kube_nftd_watch_resumes_total", "counter",
     "Watches resumed from the last resource version, without a list.", REFLECTOR(resumes)},
    {"kube_nftd_watch_events_total", "counter", "Watch events: objects added, modified or deleted.",
     REFLECTOR(events)},
    {"kube_nftd_bad_objects_total", "counter",
     "Invalid objects, counted each time they are received.", REFLECTOR(bad_objects)},
    {"kube_nftd_bad_answers_total", "counter",
     "Responses of the API server abandoned as unreadable.", REFLECTOR(bad_answers)},
    {"kube_nftd_request_failures_total", "counter",
     "Requests to the API server that were refused, interrupted or not answered.",
     REFLECTOR(failures)},
    {"kube_nftd_received_bytes_total", "counter",
     "Uncompressed size of the API server's responses with objects.",
     REFLECTOR(received[ENCODING_JSON]), LABEL("encoding", "json")},
    {REFLECTOR(received[ENCODING_PROTOBUF]), LABEL("encoding", "protobuf")},
    {"rest_client_requests_total", "counter",
     "Requests to the API server, by status code, method and host; a watch counts when it is "
     "answered.",
     .write = write_requests},
    {"rest_client_request_duration_seconds", "histogram",
     "Duration of requests to the API server except watches.", .write = write_request_times},
    {"kube_nftd_events_total", "counter", "Kubernetes Events, by result.", ONCE(events.dropped),
     WHEN(struct snapshot, has_events), LABEL("result", "dropped")},
    {ONCE(events.failed), WHEN(struct snapshot, has_events), LABEL("result", "failed")},
    {ONCE(events.posted), WHEN(struct snapshot, has_events), LABEL("result", "posted")},
    {ONCE(events.repeated), WHEN(struct snapshot, has_events), LABEL("result", "repeated")},
    {"kubernetes_feature_enabled", "gauge",
     "Whether the behaviour of a Kubernetes feature gate is enabled.", ONCE(external_ips),
     GATE("AllowServiceExternalIPs", "DEPRECATED")},
    {ONCE(counts_localhost), GATE("KubeProxyNFTablesLocalhostNodePorts", "ALPHA")},
    {GATE("MultiCIDRServiceAllocator", "")},
    {GATE("NFTablesProxyMode", "")},
    {GATE("PreferSameTrafficDistribution", "")},

    {"process_cpu_seconds_total", "counter", "User and system CPU time.", PROCESS(cpu_seconds)},
    {"process_resident_memory_bytes", "gauge", "Resident memory.", PROCESS(resident)},
    {"process_virtual_memory_bytes", "gauge", "Virtual memory.", PROCESS(virtual)},
    {"process_start_time_seconds", "gauge", "Start time of the process.", PROCESS(started)},
    {"process_open_fds", "gauge", "Open file descriptors.", PROCESS(descriptors)},
    {"process_max_fds", "gauge", "Limit of open file descriptors.", PROCESS(descriptor_limit)},
    {"kube_nftd_log_lines_dropped_total", "counter",
     "Log lines dropped because stderr would have blocked.", .write = write_dropped_lines},
    {"kubernetes_build_info", "gauge",
     "1, labelled with the version of kube-nftd; labels that do not apply are empty.",
     .labels = {{"build_date", ""},
                {"compiler", COMPILER},
                {"git_commit", KUBE_NFTD_COMMIT},
                {"git_tree_state", KUBE_NFTD_TREE_STATE},
                {"git_version", "v" KUBE_NFTD_VERSION},
                {"go_version", ""},
                {"major", KUBE_NFTD_MAJOR},
                {"minor", KUBE_NFTD_MINOR},
                {"platform", "linux/" ARCHITECTURE}}},
    {"kube_nftd_build_info", "gauge", "1, labelled with version and compiler.",
     .labels = {{"compiler", COMPILER " " __VERSION__}, {"version", KUBE_NFTD_VERSION}}},
};

/* ---- the page ---- */

/* The struct number @i at @place; NULL if there is none. */
static const void *base_of(const struct snapshot *now, const struct process_usage *process,
                           enum place place, int i)
{
    const struct table_view *family = &now->family[i % FAMILY_COUNT];
    if (place == CONSTANT || place == ONCE)
        return now;
    if (place == OF_PROCESS)
        return process;
    if (place == OF_KIND)
        return now->watch[i].resource ? &now->watch[i] : NULL;
    if (!family->in_use)
        return NULL;
    return place == OF_SYNCS   ? (const void *)family->syncs
           : place == OF_TABLE ? (const void *)family->table
           : place == OF_FLOWS ? (const void *)now->flows[i]
                               : family;
}

static double number_at(const void *base, const struct member *member)
{
    const void *at = (const char *)base + member->offset;
    if (member->type == FLOATING)
        return *(const double *)at;
    return member->size == sizeof(uint64_t)   ? (double)*(const uint64_t *)at
           : member->size == sizeof(uint32_t) ? *(const uint32_t *)at
                                              : *(const uint8_t *)at;
}

/* Merges the labels of @metric with @own, sorted by name. Returns their number. */
static size_t collect_labels(const struct metric *metric, struct metrics_label own,
                             struct metrics_label labels[METRICS_LABELS_MOST + 1])
{
    size_t n = 0;
    for (size_t i = 0; i < METRICS_LABELS_MOST && metric->labels[i].name; i++) {
        if (own.name && strcmp(own.name, metric->labels[i].name) < 0) {
            labels[n++] = own;
            own.name = NULL;
        }
        labels[n++] = metric->labels[i];
    }
    if (own.name)
        labels[n++] = own;
    return n;
}

static void write_value(const struct metric *metric, const void *base, struct metrics_label own,
                        struct metrics_page *page)
{
    struct metrics_label labels[METRICS_LABELS_MOST + 1];
    size_t n = collect_labels(metric, own, labels);
    if (metric->value.type == HISTOGRAM) {
        const struct histogram *histogram =
            (const void *)((const char *)base + metric->value.offset);
        if (histogram_count(histogram) > 0)
            metrics_histogram(page, labels, n, histogram);
        return;
    }
    double value = metric->value.type == NONE ? 1 : number_at(base, &metric->value);
    bool desired = metric->when.type == NONE || value > 0 || number_at(base, &metric->when) > 0;
    if (desired && !isnan(value))
        metrics_sample(page, labels, n, value);
}

static void write_values(const struct metric *metric, const struct snapshot *now,
                         const struct process_usage *process, struct metrics_page *page)
{
    int n = metric->place <= OF_PROCESS ? 1 : metric->place == OF_KIND ? KIND_COUNT : FAMILY_COUNT;
    for (int i = 0; i < n; i++) {
        const void *base = base_of(now, process, metric->place, i);
        struct metrics_label own = {NULL, NULL};
        if (!base)
            continue;
        if (metric->place == OF_KIND)
            own = (struct metrics_label){"resource", now->watch[i].resource};
        else if (metric->place > OF_PROCESS)
            own = (struct metrics_label){"ip_family", family_name((enum family)i)};
        write_value(metric, base, own, page);
    }
}

void metrics_write(const struct snapshot *now, struct metrics_page *page)
{
    struct process_usage process;
    process_usage_read(&process);
    for (size_t i = 0; i < sizeof(metrics) / sizeof(*metrics); i++) {
        const struct metric *metric = &metrics[i];
        if (metric->name)
            metrics_family(page, metric->name, metric->type, metric->help);
        if (metric->write)
            metric->write(now, page);
        else
            write_values(metric, now, &process, page);
    }
}
