/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "kube-nftd/figures_parts.h"

#include "kube-nftd/netlink/flow_cleaner.h"
#include "kube-nftd/proxy.h"
#include "kube-nftd/serve/health.h"
#include "kube-nftd/serve/metrics_page.h"

/* What one family's sample is made of; nothing is written before something was observed. */
struct family_metric {
    const char *name, *type, *help;
    void (*write)(const struct sync_figures *syncs, const char *family, struct metrics_page *page);
};

static void write_histogram(const struct histogram *histogram, const char *family,
                            struct metrics_page *page)
{
    if (histogram_count(histogram) > 0)
        metrics_histogram(page, "ip_family", family, histogram);
}

static void write_if(bool observed, double value, const char *family, struct metrics_page *page)
{
    if (observed)
        metrics_sample(page, "ip_family", family, value);
}

static void write_all(const struct sync_figures *syncs, const char *family,
                      struct metrics_page *page)
{
    write_histogram(&syncs->all, family, page);
}

static void write_full(const struct sync_figures *syncs, const char *family,
                       struct metrics_page *page)
{
    write_histogram(&syncs->full, family, page);
}

static void write_partial(const struct sync_figures *syncs, const char *family,
                          struct metrics_page *page)
{
    write_histogram(&syncs->partial, family, page);
}

static void write_programming(const struct sync_figures *syncs, const char *family,
                              struct metrics_page *page)
{
    write_histogram(&syncs->programming, family, page);
}

static void write_success(const struct sync_figures *syncs, const char *family,
                          struct metrics_page *page)
{
    write_if(syncs->last_success > 0, syncs->last_success, family, page);
}

static void write_queued(const struct sync_figures *syncs, const char *family,
                         struct metrics_page *page)
{
    write_if(syncs->last_queued > 0, syncs->last_queued, family, page);
}

static void write_failures(const struct sync_figures *syncs, const char *family,
                           struct metrics_page *page)
{
    write_if(syncs->failures > 0, (double)syncs->failures, family, page);
}

static void write_without_local(const struct sync_figures *syncs, const char *family,
                                struct metrics_page *page)
{
    const struct {
        const char *policy;
        size_t ports;
    } rows[] = {{"internal", syncs->without_local.internal},
                {"external", syncs->without_local.external}};
    for (size_t i = 0; syncs->last_success > 0 && i < 2; i++) {
        const struct metrics_label labels[] = {{"ip_family", family},
                                               {"traffic_policy", rows[i].policy}};
        metrics_labelled(page, labels, 2, (double)rows[i].ports);
    }
}

static const struct family_metric family_metrics[] = {
    {"kubeproxy_sync_proxy_rules_duration_seconds", "histogram",
     "Time that tries to make the table of a family what is wanted took.", write_all},
    {"kubeproxy_sync_full_proxy_rules_duration_seconds", "histogram",
     "The same of those that read the table back: the first, and after failures.", write_full},
    {"kubeproxy_sync_partial_proxy_rules_duration_seconds", "histogram",
     "The same of all others, which send differences only.", write_partial},
    {"kubeproxy_network_programming_duration_seconds", "histogram",
     "From the change that an EndpointSlice tells of until it was in force.", write_programming},
    {"kubeproxy_sync_proxy_rules_last_timestamp_seconds", "gauge",
     "When the table was last made what is wanted.", write_success},
    {"kubeproxy_sync_proxy_rules_last_queued_timestamp_seconds", "gauge",
     "When a change last asked for that.", write_queued},
    {"kubeproxy_sync_proxy_rules_nftables_sync_failures_total", "counter",
     "Transactions that the kernel refused.", write_failures},
    {"kubeproxy_sync_proxy_rules_no_local_endpoints_total", "gauge",
     "Service ports of traffic policy Local with endpoints, but none on this node.",
     write_without_local},
};

static void write_families(const struct proxy_figures *figures, struct metrics_page *page)
{
    for (size_t i = 0; i < sizeof(family_metrics) / sizeof(*family_metrics); i++) {
        const struct family_metric *metric = &family_metrics[i];
        metrics_family(page, metric->name, metric->type, metric->help);
        for (int family = 0; family < FAMILY_COUNT; family++)
            if (figures->family[family].in_use)
                metric->write(figures->family[family].syncs, family_name((enum family)family),
                              page);
    }
}

static void write_changes(const struct proxy_figures *figures, struct metrics_page *page)
{
    const struct {
        const char *name, *type, *help;
        double value;
    } rows[] = {
        {"kubeproxy_sync_proxy_rules_endpoint_changes_pending", "gauge",
         "EndpointSlices that changed and are not in force yet.", (double)figures->slices_pending},
        {"kubeproxy_sync_proxy_rules_endpoint_changes_total", "counter",
         "EndpointSlices of Services that came, whether or not they changed, or went.",
         (double)figures->slice_changes},
        {"kubeproxy_sync_proxy_rules_service_changes_pending", "gauge",
         "Services that changed and are not in force yet.", (double)figures->services_pending},
        {"kubeproxy_sync_proxy_rules_service_changes_total", "counter",
         "Services that came, whether or not they changed, or went; once for each IP family.",
         (double)figures->service_changes},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        metrics_family(page, rows[i].name, rows[i].type, rows[i].help);
        metrics_sample(page, NULL, NULL, rows[i].value);
    }
}

static void write_flows(const struct proxy_figures *figures, const struct flow_cleaner *flows,
                        struct metrics_page *page)
{
    metrics_family(page, "kubeproxy_conntrack_reconciler_sync_duration_seconds", "histogram",
                   "Time that passes over the conntrack table took.");
    for (int family = 0; family < FAMILY_COUNT; family++)
        if (figures->family[family].in_use)
            write_histogram(&flow_cleaner_stats(flows, (enum family)family)->scan_seconds,
                            family_name((enum family)family), page);
    metrics_family(page, "kubeproxy_conntrack_reconciler_deleted_entries_total", "counter",
                   "Conntrack entries of stale UDP flows that were deleted.");
    for (int family = 0; family < FAMILY_COUNT; family++) {
        const struct flow_cleaner_stats *stats = flow_cleaner_stats(flows, (enum family)family);
        if (figures->family[family].in_use)
            write_if(stats->scans > 0 || stats->deleted > 0, (double)stats->deleted,
                     family_name((enum family)family), page);
    }
}

static void write_answers(const char *name, const char *help, const struct health_answers *answers,
                          struct metrics_page *page)
{
    metrics_family(page, name, "counter", help);
    if (answers->good > 0)
        metrics_sample(page, "code", "200", (double)answers->good);
    if (answers->bad > 0)
        metrics_sample(page, "code", "503", (double)answers->bad);
}

void figures_write_kube_proxy(const struct proxy_figures *figures, const struct flow_cleaner *flows,
                              const struct health *health, struct metrics_page *page)
{
    write_families(figures, page);
    write_changes(figures, page);
    if (flows)
        write_flows(figures, flows, page);
    if (!health)
        return;
    struct health_figures answers = health_figures(health);
    write_answers("kubeproxy_proxy_healthz_total", "Answers of /healthz on the health address.",
                  &answers.healthz, page);
    write_answers("kubeproxy_proxy_livez_total", "Answers of /livez on the health address.",
                  &answers.livez, page);
}
