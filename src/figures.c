/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * One list of metrics. Those whose names begin with kubeproxy_ are kube-proxy's, with its names,
 * labels, types and buckets. Of them kubeproxy_sync_proxy_rules_nftables_cleanup_failures_total is
 * left out, since there is nothing to count: what falls out of use goes in a transaction like any
 * other.
 */
#include "figures.h"

#include "kube-nftd/netlink.h"
#include "kube-nftd/serve.h"
#include "kube-nftd/source.h"
#include "proxy.h"

#include <stddef.h>
#include <stdio.h>

/* All that is counted, at the time of one page. */
struct snapshot {
    const struct figures_sources *sources;
    struct proxy_figures proxy;
    struct reflector_figures reflectors[KIND_COUNT];
    struct health_figures health;
    bool counted; /* connections are, */
    port_connections_vec most;
    size_t omitted; /* service ports with some that are not in it */
};

/* Where a value is; from the second on there is a sample for each IP family in use, and from
 * OF_KIND on for each kind of object. */
enum place { OF_PROXY, OF_FAMILY, OF_SYNCS, OF_TABLE, OF_FLOWS, OF_KIND };

enum number { WHOLE, SECONDS, HISTOGRAM };

struct metric {
    const char *name, *type, *help;
    /* Writes the samples of what is no plain value; the rest does not count then. */
    void (*write)(const struct snapshot *snapshot, struct metrics_page *page);
    enum place place;
    enum number number;
    size_t offset, size;
    bool if_any; /* there is no sample while it is 0; of a histogram there never is */
};

/* ---- samples of several values ---- */

static void write_without_local(const struct snapshot *snapshot, struct metrics_page *page)
{
    for (int f = 0; f < FAMILY_COUNT; f++) {
        const struct sync_figures *syncs = snapshot->proxy.family[f].syncs;
        if (!syncs || syncs->last_success <= 0)
            continue;
        struct metrics_label labels[] = {{"ip_family", family_name((enum family)f)},
                                         {"traffic_policy", "internal"}};
        metrics_labelled(page, labels, 2, (double)syncs->without_local.internal);
        labels[1].value = "external";
        metrics_labelled(page, labels, 2, (double)syncs->without_local.external);
    }
}

static void write_deleted_flows(const struct snapshot *snapshot, struct metrics_page *page)
{
    for (int f = 0; snapshot->sources->flows && f < FAMILY_COUNT; f++) {
        const struct flow_cleaner_stats *stats =
            flow_cleaner_stats(snapshot->sources->flows, (enum family)f);
        if (snapshot->proxy.family[f].in_use && (stats->scans > 0 || stats->deleted > 0))
            metrics_sample(page, "ip_family", family_name((enum family)f), (double)stats->deleted);
    }
}

static void write_answers(const struct health_answers *answers, struct metrics_page *page)
{
    if (answers->good > 0)
        metrics_sample(page, "code", "200", (double)answers->good);
    if (answers->bad > 0)
        metrics_sample(page, "code", "503", (double)answers->bad);
}

static void write_healthz(const struct snapshot *snapshot, struct metrics_page *page)
{
    write_answers(&snapshot->health.healthz, page);
}

static void write_livez(const struct snapshot *snapshot, struct metrics_page *page)
{
    write_answers(&snapshot->health.livez, page);
}

static void write_left_out(const struct snapshot *snapshot, struct metrics_page *page)
{
    for (int kind = 0; kind < KIND_COUNT; kind++)
        metrics_sample(page, "kind", object_kind_name((enum object_kind)kind),
                       (double)snapshot->proxy.left_out[kind]);
}

/* Where a kernel does not count, there is no sample until there is no room. */
static void write_affinity_records(const struct snapshot *snapshot, struct metrics_page *page)
{
    for (int f = 0; f < FAMILY_COUNT; f++) {
        const struct ruleset_figures *table = snapshot->proxy.family[f].table;
        if (table && table->records_known)
            metrics_sample(page, "ip_family", family_name((enum family)f), table->records);
    }
}

/* Service ports with samples of their own. */
#define MOST_COUNTED 1000
#define MOST_COUNTED_TEXT "1,000"

static void take_connections(struct snapshot *snapshot)
{
    const struct explain_sources *services = snapshot->sources->services;
    snapshot->counted = services && connections_are_counted(services);
    if (snapshot->counted)
        snapshot->omitted = connections_most(services, MOST_COUNTED, &snapshot->most);
}

static void write_connections(const struct snapshot *snapshot, struct metrics_page *page)
{
    vec_each (&snapshot->most, it) {
        size_t length = strcspn(it->service_id, "/");
        char *namespace = xstrndup(it->service_id, length), number[8];
        snprintf(number, sizeof(number), "%u", it->port->port);
        const struct metrics_label labels[] = {{"namespace", namespace},
                                               {"service", it->service_id + length + 1},
                                               {"port", *it->port->name ? it->port->name : number}};
        metrics_labelled(page, labels, 3, (double)it->total);
        free(namespace);
    }
}

static void write_omitted(const struct snapshot *snapshot, struct metrics_page *page)
{
    if (snapshot->counted)
        metrics_sample(page, NULL, NULL, (double)snapshot->omitted);
}

static const char *resource_of(int kind)
{
    return collection_resource((enum object_kind)kind)->name;
}

/* Of an encoding that never came there is none. */
static void write_received(const struct snapshot *snapshot, struct metrics_page *page)
{
    for (int kind = 0; kind < KIND_COUNT; kind++) {
        for (int i = 0; i < ENCODING_COUNT; i++) {
            const struct metrics_label labels[] = {{"encoding", encoding_name((enum encoding)i)},
                                                   {"resource", resource_of(kind)}};
            if (snapshot->reflectors[kind].received[i] > 0)
                metrics_labelled(page, labels, 2, (double)snapshot->reflectors[kind].received[i]);
        }
    }
}

static void write_requests(const struct snapshot *snapshot, struct metrics_page *page)
{
    const struct request_figures *requests = snapshot->sources->requests;
    if (!requests)
        return;
    vec_each (&requests->counts, it) {
        char code[24];
        snprintf(code, sizeof(code), "%ld", it->status);
        const struct metrics_label labels[] = {{"code", it->status ? code : "<error>"},
                                               {"host", requests->host},
                                               {"method", it->method}};
        metrics_labelled(page, labels, 3, (double)it->count);
    }
}

static void write_request_times(const struct snapshot *snapshot, struct metrics_page *page)
{
    const struct request_figures *requests = snapshot->sources->requests;
    if (!requests)
        return;
    vec_each (&requests->times, it) {
        const struct metrics_label labels[] = {{"host", requests->host}, {"verb", it->method}};
        metrics_histogram_labelled(page, labels, 2, &it->seconds);
    }
}

static void write_events(const struct snapshot *snapshot, struct metrics_page *page)
{
    if (!snapshot->sources->recorder)
        return;
    const struct event_figures figures = event_recorder_figures(snapshot->sources->recorder);
    metrics_sample(page, "result", "dropped", (double)figures.dropped);
    metrics_sample(page, "result", "failed", (double)figures.failed);
    metrics_sample(page, "result", "posted", (double)figures.posted);
    metrics_sample(page, "result", "repeated", (double)figures.repeated);
}

/* The feature gates of kube-proxy that say what is done here. */
static void write_gates(const struct snapshot *snapshot, struct metrics_page *page)
{
    const struct {
        const char *name, *stage;
        bool enabled;
    } gates[] = {
        {"AllowServiceExternalIPs", "DEPRECATED", snapshot->proxy.external_ips},
        {"MultiCIDRServiceAllocator", "", true},
        {"NFTablesProxyMode", "", true},
        {"PreferSameTrafficDistribution", "", true},
    };
    for (size_t i = 0; i < sizeof(gates) / sizeof(*gates); i++) {
        const struct metrics_label labels[] = {{"name", gates[i].name}, {"stage", gates[i].stage}};
        metrics_labelled(page, labels, 2, gates[i].enabled);
    }
}

/* ---- the list ---- */

#define VALUE(where, type, member)                                                                 \
    .place = (where),                                                                              \
    .number = _Generic(((const type *)NULL)->member, double                                        \
                       : SECONDS, struct histogram                                                 \
                       : HISTOGRAM, default                                                        \
                       : WHOLE),                                                                   \
    .offset = offsetof(type, member), .size = sizeof(((const type *)NULL)->member)

#define PROXY(member) VALUE(OF_PROXY, struct proxy_figures, member)
#define FAMILY(member) VALUE(OF_FAMILY, struct table_view, member)
#define SYNCS(member) VALUE(OF_SYNCS, struct sync_figures, member)
#define TABLE(member) VALUE(OF_TABLE, struct ruleset_figures, member)
#define FLOWS(member) VALUE(OF_FLOWS, struct flow_cleaner_stats, member)
#define REFLECTOR(member) VALUE(OF_KIND, struct reflector_figures, member)

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
     "Time of the last successful sync.", SYNCS(last_success), .if_any = true},
    {"kubeproxy_sync_proxy_rules_last_queued_timestamp_seconds", "gauge",
     "Time when a change last requested a sync.", SYNCS(last_queued), .if_any = true},
    {"kubeproxy_sync_proxy_rules_nftables_sync_failures_total", "counter",
     "Transactions that the kernel rejected.", SYNCS(failures), .if_any = true},
    {"kubeproxy_sync_proxy_rules_no_local_endpoints_total", "gauge",
     "Service ports with traffic policy Local that have endpoints, but none on this node.",
     .write = write_without_local},
    {"kubeproxy_sync_proxy_rules_endpoint_changes_pending", "gauge",
     "Changed EndpointSlices that are not applied yet.", PROXY(slices_pending)},
    {"kubeproxy_sync_proxy_rules_endpoint_changes_total", "counter",
     "EndpointSlices of Services that were received or deleted; counts unchanged ones too.",
     PROXY(slice_changes)},
    {"kubeproxy_sync_proxy_rules_service_changes_pending", "gauge",
     "Changed Services that are not applied yet.", PROXY(services_pending)},
    {"kubeproxy_sync_proxy_rules_service_changes_total", "counter",
     "Services that were received or deleted; counts unchanged ones too, once per IP family.",
     PROXY(service_changes)},
    {"kubeproxy_conntrack_reconciler_sync_duration_seconds", "histogram",
     "Duration of scans of the conntrack table.", FLOWS(scan_seconds)},
    {"kubeproxy_conntrack_reconciler_deleted_entries_total", "counter",
     "Deleted conntrack entries of stale UDP flows.", .write = write_deleted_flows},
    {"kubeproxy_proxy_healthz_total", "counter",
     "Responses of /healthz on the health address, by status code.", .write = write_healthz},
    {"kubeproxy_proxy_livez_total", "counter",
     "Responses of /livez on the health address, by status code.", .write = write_livez},

    {"kube_nftd_frontends", "gauge",
     "Frontends: addresses and ports that are proxied, rejected or dropped.", FAMILY(frontends)},
    {"kube_nftd_services", "gauge", "Services in the cache.", PROXY(services)},
    {"kube_nftd_endpoint_slices", "gauge", "EndpointSlices in the cache.", PROXY(slices)},
    {"kube_nftd_objects_left_out_total", "counter",
     "Received objects that are invalid; the last good version of each stays active.",
     .write = write_left_out},
    {"kube_nftd_frontends_claimed_twice", "gauge",
     "Frontends that several service ports claim; one of these gets each.", PROXY(conflicts)},
    {"kube_nftd_frontends_reserved", "gauge",
     "Addresses and ports of the API server that Services claim as external or load-balancer "
     "addresses; no Service gets them.",
     PROXY(reserved)},
    {"kube_nftd_repairs_total", "counter", "Repairs of the table after changes by other programs.",
     FAMILY(repairs)},
    {"kube_nftd_drift_elements", "gauge",
     "Elements that audits found changed, missing or unexpected since startup, and repaired.",
     FAMILY(drift)},
    {"kube_nftd_audits_total", "counter", "Completed audits of all tables.", PROXY(audits)},
    {"kube_nftd_affinity_records", "gauge",
     "Session affinity records at the last audit: clients with a remembered endpoint.",
     .write = write_affinity_records},
    {"kube_nftd_affinity_records_most", "gauge",
     "Capacity for session affinity records; 0 before the first audit.", TABLE(most_records)},
    {"kube_nftd_service_connections_total", "counter",
     "New connections to a Service port, with --count-connections: the " MOST_COUNTED_TEXT
     " ports with the most.",
     .write = write_connections},
    {"kube_nftd_service_connections_omitted", "gauge",
     "Service ports with connections that are not among those.", .write = write_omitted},
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
    {"kube_nftd_frontends_refused", "gauge",
     "Quarantined frontends: the kernel rejected their latest rules.", TABLE(refused)},
    {"kube_nftd_elements_refused", "gauge",
     "Rejected elements of no single frontend, such as cluster IPs and address ranges.",
     TABLE(left_out)},
    {"kube_nftd_refusals_total", "counter",
     "Frontends and elements quarantined after the kernel rejected them.", TABLE(refusals)},

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
     "Uncompressed size of the API server's responses with objects.", .write = write_received},
    {"rest_client_requests_total", "counter",
     "Requests to the API server, by status code, method and host; a watch counts when it is "
     "answered.",
     .write = write_requests},
    {"rest_client_request_duration_seconds", "histogram",
     "Duration of requests to the API server except watches.", .write = write_request_times},
    {"kube_nftd_events_total", "counter", "Kubernetes Events, by result.", .write = write_events},
    {"kubernetes_feature_enabled", "gauge",
     "Whether the behaviour of a Kubernetes feature gate is enabled.", .write = write_gates},
};

/* ---- the page ---- */

/* The struct of @place's kind with number @i; NULL if there is none. */
static const void *base_of(const struct snapshot *snapshot, enum place place, int i)
{
    const struct table_view *family = &snapshot->proxy.family[i % FAMILY_COUNT];
    const struct flow_cleaner *flows = snapshot->sources->flows;
    if (place == OF_PROXY)
        return &snapshot->proxy;
    if (place == OF_KIND)
        return snapshot->sources->reflectors[i] ? &snapshot->reflectors[i] : NULL;
    if (!family->in_use)
        return NULL;
    if (place == OF_FLOWS)
        return flows ? flow_cleaner_stats(flows, (enum family)i) : NULL;
    return place == OF_SYNCS   ? (const void *)family->syncs
           : place == OF_TABLE ? (const void *)family->table
                               : family;
}

static double whole_number(const void *at, size_t size)
{
    return size == sizeof(uint32_t) ? *(const uint32_t *)at : (double)*(const uint64_t *)at;
}

static void write_value(const struct metric *metric, const void *base, const char *label,
                        const char *value_of_label, struct metrics_page *page)
{
    const void *at = (const char *)base + metric->offset;
    if (metric->number == HISTOGRAM) {
        if (histogram_count(at) > 0)
            metrics_histogram(page, label, value_of_label, at);
        return;
    }
    double value = metric->number == SECONDS ? *(const double *)at : whole_number(at, metric->size);
    if (value > 0 || !metric->if_any)
        metrics_sample(page, label, value_of_label, value);
}

static void write_values(const struct metric *metric, const struct snapshot *snapshot,
                         struct metrics_page *page)
{
    int n = metric->place == OF_PROXY ? 1 : metric->place == OF_KIND ? KIND_COUNT : FAMILY_COUNT;
    for (int i = 0; i < n; i++) {
        const void *base = base_of(snapshot, metric->place, i);
        if (!base)
            continue;
        if (metric->place == OF_PROXY)
            write_value(metric, base, NULL, NULL, page);
        else if (metric->place == OF_KIND)
            write_value(metric, base, "resource", resource_of(i), page);
        else
            write_value(metric, base, "ip_family", family_name((enum family)i), page);
    }
}

void figures_write(const struct figures_sources *sources, struct metrics_page *page)
{
    struct snapshot snapshot = {.sources = sources};
    proxy_figures(sources->proxy, &snapshot.proxy);
    if (sources->health)
        snapshot.health = health_figures(sources->health);
    for (int kind = 0; kind < KIND_COUNT; kind++)
        if (sources->reflectors[kind])
            reflector_figures(sources->reflectors[kind], &snapshot.reflectors[kind]);
    take_connections(&snapshot);
    for (size_t i = 0; i < sizeof(metrics) / sizeof(*metrics); i++) {
        metrics_family(page, metrics[i].name, metrics[i].type, metrics[i].help);
        if (metrics[i].write)
            metrics[i].write(&snapshot, page);
        else
            write_values(&metrics[i], &snapshot, page);
    }
    vec_free(&snapshot.most);
    figures_write_process(page);
}
