/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * One list of metrics. Those whose names begin with kubeproxy_ are kube-proxy's, with its names,
 * labels, types and buckets. Of them kubeproxy_sync_proxy_rules_nftables_cleanup_failures_total is
 * left out, since there is nothing to count: what falls out of use goes in a transaction like any
 * other.
 */
#include "kube-nftd/figures.h"

#include "kube-nftd/netlink/flow_cleaner.h"
#include "kube-nftd/proxy.h"
#include "kube-nftd/serve/health.h"
#include "kube-nftd/serve/metrics_page.h"
#include "kube-nftd/source/collection.h"
#include "kube-nftd/source/event_recorder.h"
#include "kube-nftd/source/reflector.h"
#include "kube-nftd/source/request_figures.h"

#include <stddef.h>
#include <stdio.h>

/* All that is counted, at the time of one page. */
struct snapshot {
    const struct figures_sources *sources;
    struct proxy_figures proxy;
    struct reflector_figures reflectors[KIND_COUNT];
    struct health_figures health;
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

static const char *resource_of(int kind)
{
    const struct collection collection = {.kind = (enum object_kind)kind};
    return collection_resource(&collection);
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
#define FAMILY(member) VALUE(OF_FAMILY, struct proxy_family_figures, member)
#define SYNCS(member) VALUE(OF_SYNCS, struct sync_figures, member)
#define TABLE(member) VALUE(OF_TABLE, struct ruleset_figures, member)
#define FLOWS(member) VALUE(OF_FLOWS, struct flow_cleaner_stats, member)
#define REFLECTOR(member) VALUE(OF_KIND, struct reflector_figures, member)

static const struct metric metrics[] = {
    {"kubeproxy_sync_proxy_rules_duration_seconds", "histogram",
     "Time that tries to make the table of a family what is wanted took.", SYNCS(all)},
    {"kubeproxy_sync_full_proxy_rules_duration_seconds", "histogram",
     "The same of those that read the table back: the first, and after failures.", SYNCS(full)},
    {"kubeproxy_sync_partial_proxy_rules_duration_seconds", "histogram",
     "The same of all others, which send differences only.", SYNCS(partial)},
    {"kubeproxy_network_programming_duration_seconds", "histogram",
     "From the change that an EndpointSlice tells of until it was in force.", SYNCS(programming)},
    {"kubeproxy_sync_proxy_rules_last_timestamp_seconds", "gauge",
     "When the table was last made what is wanted.", SYNCS(last_success), .if_any = true},
    {"kubeproxy_sync_proxy_rules_last_queued_timestamp_seconds", "gauge",
     "When a change last asked for that.", SYNCS(last_queued), .if_any = true},
    {"kubeproxy_sync_proxy_rules_nftables_sync_failures_total", "counter",
     "Transactions that the kernel refused.", SYNCS(failures), .if_any = true},
    {"kubeproxy_sync_proxy_rules_no_local_endpoints_total", "gauge",
     "Service ports of traffic policy Local with endpoints, but none on this node.",
     .write = write_without_local},
    {"kubeproxy_sync_proxy_rules_endpoint_changes_pending", "gauge",
     "EndpointSlices that changed and are not in force yet.", PROXY(slices_pending)},
    {"kubeproxy_sync_proxy_rules_endpoint_changes_total", "counter",
     "EndpointSlices of Services that came, whether or not they changed, or went.",
     PROXY(slice_changes)},
    {"kubeproxy_sync_proxy_rules_service_changes_pending", "gauge",
     "Services that changed and are not in force yet.", PROXY(services_pending)},
    {"kubeproxy_sync_proxy_rules_service_changes_total", "counter",
     "Services that came, whether or not they changed, or went; once for each IP family.",
     PROXY(service_changes)},
    {"kubeproxy_conntrack_reconciler_sync_duration_seconds", "histogram",
     "Time that passes over the conntrack table took.", FLOWS(scan_seconds)},
    {"kubeproxy_conntrack_reconciler_deleted_entries_total", "counter",
     "Conntrack entries of stale UDP flows that were deleted.", .write = write_deleted_flows},
    {"kubeproxy_proxy_healthz_total", "counter", "Answers of /healthz on the health address.",
     .write = write_healthz},
    {"kubeproxy_proxy_livez_total", "counter", "Answers of /livez on the health address.",
     .write = write_livez},

    {"kube_nftd_frontends", "gauge", "Addresses and ports that are proxied or rejected.",
     FAMILY(frontends)},
    {"kube_nftd_services", "gauge", "Services that are known.", PROXY(services)},
    {"kube_nftd_endpoint_slices", "gauge", "EndpointSlices that are known.", PROXY(slices)},
    {"kube_nftd_objects_left_out_total", "counter",
     "Objects that came and could not be read; what was known of them stays in force.",
     .write = write_left_out},
    {"kube_nftd_frontends_claimed_twice", "gauge",
     "Addresses and ports that more than one service port claims; one has them.", PROXY(conflicts)},
    {"kube_nftd_frontends_reserved", "gauge",
     "Addresses and ports of the API server that Services name as external or load-balancer "
     "addresses; none has them.",
     PROXY(reserved)},
    {"kube_nftd_repairs_total", "counter",
     "Times that something was put right that another program had changed in the table.",
     FAMILY(repairs)},
    {"kube_nftd_drift_elements", "gauge",
     "Elements that audits found changed, missing or strange and put right, since the start.",
     FAMILY(drift)},
    {"kube_nftd_audits_total", "counter", "Times that all tables were looked through.",
     PROXY(audits)},
    {"kube_nftd_affinity_records", "gauge",
     "Clients that session affinity remembers an endpoint for, by the last audit.",
     .write = write_affinity_records},
    {"kube_nftd_affinity_records_most", "gauge",
     "As many of them as there is room for, 0 before the first audit.", TABLE(most_records)},
    {"kube_nftd_transactions_total", "counter", "Transactions that the kernel took.",
     SYNCS(transactions)},
    {"kube_nftd_transaction_bytes_total", "counter", "Their bytes.", SYNCS(bytes)},
    {"kube_nftd_transaction_seconds_total", "counter", "Their time inside the kernel.",
     SYNCS(seconds)},
    {"kube_nftd_last_transaction_bytes", "gauge", "Bytes of the last one.", SYNCS(last_bytes)},
    {"kube_nftd_last_transaction_seconds", "gauge", "Time of the last one inside the kernel.",
     SYNCS(last_seconds)},
    {"kube_nftd_elements", "gauge",
     "Elements of maps and sets that were put into the table, two for a range of addresses.",
     TABLE(elements)},
    {"kube_nftd_elements_added_total", "counter", "Elements added to maps and sets.",
     SYNCS(elements_added)},
    {"kube_nftd_elements_deleted_total", "counter", "Elements deleted from maps and sets.",
     SYNCS(elements_deleted)},
    {"kube_nftd_table_read_backs_total", "counter",
     "Times that the table was read back after a failure, to repair it.", TABLE(read_backs)},
    {"kube_nftd_frontends_recomputed_total", "counter",
     "Changes of endpoints that did not fit those in force, so all of a frontend was computed.",
     TABLE(mistakes)},
    {"kube_nftd_tables_replaced_total", "counter",
     "Tables with other maps or sets that were made anew.", TABLE(replaced)},
    {"kube_nftd_frontends_refused", "gauge",
     "Addresses and ports that are not as they shall be: the kernel refused that.", TABLE(refused)},
    {"kube_nftd_elements_refused", "gauge",
     "Cluster IPs, ranges and the like that the kernel refused.", TABLE(left_out)},
    {"kube_nftd_refusals_total", "counter",
     "Times that something was put aside since the kernel refused it.", TABLE(refusals)},

    {"kube_nftd_conntrack_deletion_failures_total", "counter",
     "Conntrack entries of stale UDP flows that could not be deleted.", FLOWS(failed_deletions)},
    {"kube_nftd_conntrack_scans_total", "counter", "Passes over the conntrack table.",
     FLOWS(scans)},
    {"kube_nftd_conntrack_scan_failures_total", "counter",
     "Passes over the conntrack table that did not see all of it.", FLOWS(failed_scans)},
    {"kube_nftd_conntrack_scan_seconds_total", "counter",
     "Time that passes over the conntrack table took.", FLOWS(total_scan_seconds)},

    {"kube_nftd_lists_total", "counter",
     "Whole contents taken from the API server, streamed or by pages.", REFLECTOR(lists)},
    {"kube_nftd_watch_resumes_total", "counter",
     "Watches that went on from a version remembered, without a list.", REFLECTOR(resumes)},
    {"kube_nftd_watch_events_total", "counter",
     "Objects that watches said were added, changed or deleted.", REFLECTOR(events)},
    {"kube_nftd_bad_objects_total", "counter",
     "Objects that could not be read, each time they came.", REFLECTOR(bad_objects)},
    {"kube_nftd_bad_answers_total", "counter",
     "Answers of the API server that were given up since they could not be read.",
     REFLECTOR(bad_answers)},
    {"kube_nftd_request_failures_total", "counter",
     "Requests to the API server that were refused, cut or not answered.", REFLECTOR(failures)},
    {"kube_nftd_received_bytes_total", "counter",
     "Bytes of answers of the API server with objects, uncompressed.", .write = write_received},
    {"rest_client_requests_total", "counter",
     "Requests to the API server by status, method and host; a watch counts when it is answered.",
     .write = write_requests},
    {"rest_client_request_duration_seconds", "histogram",
     "Time that requests to the API server took, but for watches.", .write = write_request_times},
    {"kube_nftd_events_total", "counter", "Events for the API server, by what became of them.",
     .write = write_events},
    {"kubernetes_feature_enabled", "gauge",
     "Whether what a feature gate of Kubernetes stands for is done here.", .write = write_gates},
};

/* ---- the page ---- */

/* The struct of @place's kind with number @i; NULL if there is none. */
static const void *base_of(const struct snapshot *snapshot, enum place place, int i)
{
    const struct proxy_family_figures *family = &snapshot->proxy.family[i % FAMILY_COUNT];
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
    for (size_t i = 0; i < sizeof(metrics) / sizeof(*metrics); i++) {
        metrics_family(page, metrics[i].name, metrics[i].type, metrics[i].help);
        if (metrics[i].write)
            metrics[i].write(&snapshot, page);
        else
            write_values(&metrics[i], &snapshot, page);
    }
    figures_write_process(page);
}
