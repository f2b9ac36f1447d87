/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "kube-nftd/figures.h"

#include "kube-nftd/figures_parts.h"
#include "kube-nftd/netlink/flow_cleaner.h"
#include "kube-nftd/proxy.h"
#include "kube-nftd/serve/metrics_page.h"
#include "kube-nftd/source/collection.h"
#include "kube-nftd/source/event_recorder.h"
#include "kube-nftd/source/reflector.h"

#include <stddef.h>

/* The values of a member of an array of one struct a family. */
#define VALUES(array, member)                                                                      \
    (const double[FAMILY_COUNT])                                                                   \
    {                                                                                              \
        (double)(array)[FAMILY_IPV4].member, (double)(array)[FAMILY_IPV6].member                   \
    }

static void write_flows(const struct proxy_figures *figures, const struct flow_cleaner *flows,
                        struct metrics_page *page)
{
    const struct flow_cleaner_stats stats[FAMILY_COUNT] = {*flow_cleaner_stats(flows, FAMILY_IPV4),
                                                           *flow_cleaner_stats(flows, FAMILY_IPV6)};
    figures_by_family(page, figures, "kube_nftd_conntrack_deletion_failures_total", "counter",
                      "Conntrack entries of stale UDP flows that could not be deleted.",
                      VALUES(stats, failed_deletions));
    figures_by_family(page, figures, "kube_nftd_conntrack_scans_total", "counter",
                      "Passes over the conntrack table.", VALUES(stats, scans));
    figures_by_family(page, figures, "kube_nftd_conntrack_scan_failures_total", "counter",
                      "Passes over the conntrack table that did not see all of it.",
                      VALUES(stats, failed_scans));
    figures_by_family(page, figures, "kube_nftd_conntrack_scan_seconds_total", "counter",
                      "Time that passes over the conntrack table took.",
                      VALUES(stats, total_scan_seconds));
}

/* What reflectors count, with one sample for each kind of object. */
static const struct {
    const char *name;
    const char *help;
    size_t offset; /* in struct reflector_figures */
} reflector_counters[] = {
    {"kube_nftd_lists_total", "Whole contents taken from the API server, streamed or by pages.",
     offsetof(struct reflector_figures, lists)},
    {"kube_nftd_watch_resumes_total",
     "Watches that went on from a version remembered, without a list.",
     offsetof(struct reflector_figures, resumes)},
    {"kube_nftd_watch_events_total", "Objects that watches said were added, changed or deleted.",
     offsetof(struct reflector_figures, events)},
    {"kube_nftd_bad_objects_total", "Objects that could not be read, each time they came.",
     offsetof(struct reflector_figures, bad_objects)},
    {"kube_nftd_bad_answers_total",
     "Answers of the API server that were given up since they could not be read.",
     offsetof(struct reflector_figures, bad_answers)},
    {"kube_nftd_request_failures_total",
     "Requests to the API server that were refused, cut or not answered.",
     offsetof(struct reflector_figures, failures)},
};

static void write_reflectors(const struct reflector *const reflectors[KIND_COUNT],
                             struct metrics_page *page)
{
    for (size_t i = 0; i < sizeof(reflector_counters) / sizeof(*reflector_counters); i++) {
        metrics_family(page, reflector_counters[i].name, "counter", reflector_counters[i].help);
        for (int kind = 0; kind < KIND_COUNT; kind++) {
            const struct collection collection = {.kind = (enum object_kind)kind};
            struct reflector_figures figures;
            reflector_figures(reflectors[kind], &figures);
            const char *at = (const char *)&figures + reflector_counters[i].offset;
            metrics_sample(page, "resource", collection_resource(&collection),
                           (double)*(const uint64_t *)(const void *)at);
        }
    }
}

/* Bytes by encoding too, of which one that never came is left out. */
static void write_received(const struct reflector *const reflectors[KIND_COUNT],
                           struct metrics_page *page)
{
    metrics_family(page, "kube_nftd_received_bytes_total", "counter",
                   "Bytes of answers of the API server with objects, uncompressed.");
    for (int kind = 0; kind < KIND_COUNT; kind++) {
        const struct collection collection = {.kind = (enum object_kind)kind};
        struct reflector_figures figures;
        reflector_figures(reflectors[kind], &figures);
        for (int i = 0; i < ENCODING_COUNT; i++) {
            const struct metrics_label labels[] = {
                {"encoding", encoding_name((enum encoding)i)},
                {"resource", collection_resource(&collection)},
            };
            if (figures.received[i] > 0)
                metrics_labelled(page, labels, 2, (double)figures.received[i]);
        }
    }
}

void figures_write_events(const struct event_recorder *recorder, struct metrics_page *page)
{
    const struct event_figures figures = event_recorder_figures(recorder);
    metrics_family(page, "kube_nftd_events_total", "counter",
                   "Events for the API server, by what became of them.");
    metrics_sample(page, "result", "dropped", (double)figures.dropped);
    metrics_sample(page, "result", "failed", (double)figures.failed);
    metrics_sample(page, "result", "posted", (double)figures.posted);
    metrics_sample(page, "result", "repeated", (double)figures.repeated);
}

void figures_write(const struct proxy *proxy, const struct flow_cleaner *flows,
                   const struct health *health,
                   const struct reflector *const reflectors[KIND_COUNT],
                   const struct request_figures *requests, struct metrics_page *page)
{
    struct proxy_figures figures;
    proxy_figures(proxy, &figures);
    figures_write_kube_proxy(&figures, flows, health, page);
    figures_write_tables(&figures, page);
    if (flows)
        write_flows(&figures, flows, page);
    if (reflectors[0]) {
        write_reflectors(reflectors, page);
        write_received(reflectors, page);
    }
    if (requests)
        figures_write_requests(requests, page);
    figures_write_process(page);
    figures_write_gates(&figures, page);
}
