/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "pages.h"

#include "kube-nftd/base.h"
#include "kube-nftd/serve.h"
#include "kube-nftd/source.h"

#include <math.h>

static bool list_sources(void *ctx, struct explain_sources *sources)
{
    const struct pages *pages = ctx;
    if (pages->proxy)
        proxy_explain_sources(pages->proxy, sources);
    return pages->proxy != NULL;
}

/* Metrics have counts of connections no older than that, if these can be read in so short a time;
 * else those of the last reading, and the next ones by the next scrape. */
#define COUNTED_SECONDS 5.0
#define READ_SECONDS 0.001

static void read_connections(struct proxy *proxy)
{
    double now = clock_monotonic(), end = now + READ_SECONDS;
    while (!proxy_read_connections(proxy, now - COUNTED_SECONDS) && clock_monotonic() < end)
        continue;
}

void pages_write_metrics(void *ctx, struct metrics_page *page)
{
    const struct pages *pages = ctx;
    const struct object_source *source = pages->source;
    struct metrics_sources sources = {.log_lines_dropped = log_lines_dropped()};
    process_usage_read(&sources.process);
    if (pages->health)
        sources.health = health_counts(pages->health);
    if (pages->proxy) {
        struct explain_sources services;
        read_connections(pages->proxy);
        proxy_figures(pages->proxy, &sources.proxy);
        proxy_explain_sources(pages->proxy, &services);
        sources.counted = connections_are_counted(&services);
        if (sources.counted)
            sources.omitted = connections_most(&services, METRICS_CONNECTIONS, &sources.busiest);
    }
    for (int family = 0; pages->flows && family < FAMILY_COUNT; family++)
        sources.flows[family] = flow_cleaner_stats(pages->flows, (enum family)family);
    if (source->apiserver)
        sources.requests = apiserver_request_figures(source->apiserver);
    sources.has_events = source->recorder != NULL;
    if (source->recorder)
        sources.events = event_recorder_figures(source->recorder);
    for (int kind = 0; kind < KIND_COUNT; kind++)
        if (source->reflectors[kind])
            reflector_figures(source->reflectors[kind], &sources.reflectors[kind]);
    metrics_write(&sources, page);
    vec_free(&sources.busiest);
}

/* What /configz answers (docs/behaviour.md 6.3). */
static void answer_configz(void *ctx, const struct http_request *request,
                           struct http_answer *answer)
{
    const struct pages *pages = ctx;
    (void)request;
    char *tree = cJSON_PrintUnformatted(pages->options->configuration);
    http_answer_json(answer, 200, xasprintf("{\"kubeproxy.config.k8s.io\":%s}", tree));
    free(tree);
}

static void answer_programmed(void *ctx, const struct http_request *request,
                              struct http_answer *answer)
{
    struct programmed facts = proxy_programmed(((const struct pages *)ctx)->proxy);
    programmed_answer(&facts, request, answer);
}

/* What has come is decided and programmed first, so that the answer does not compare what is wanted
 * now with what was a moment ago. */
static void answer_explain(void *ctx, const struct http_request *request,
                           struct http_answer *answer)
{
    struct pages *pages = ctx;
    struct explain_sources sources = {.complete = false};
    if (pages->proxy) { /* which is made after the servers */
        if (explain_gate_is_open(&pages->gate))
            pages->sync(pages->sync_ctx);
        proxy_explain_sources(pages->proxy, &sources);
        object_source_encodings(pages->source, sources.encodings);
    }
    explain_answer(&sources, &pages->gate, request, answer);
}

static bool list_counted(void *ctx, double since)
{
    return proxy_read_connections(((const struct pages *)ctx)->proxy, since);
}

static double list_counted_at(void *ctx)
{
    return proxy_connections_read(((const struct pages *)ctx)->proxy);
}

static void answer_flagz(void *ctx, const struct http_request *request, struct http_answer *answer)
{
    (void)request;
    diagnostics_flagz(((const struct pages *)ctx)->options->flags, answer);
}

static struct daemon_status status_of(const struct pages *pages)
{
    struct daemon_status status = {.started = pages->started,
                                   .node = pages->node_name,
                                   .objects_from = pages->source->apiserver
                                                       ? pages->source->client.server
                                                       : pages->options->manifests};
    struct process_usage usage;
    process_usage_read(&usage);
    status.resident = isnan(usage.resident) ? 0 : usage.resident;
    object_source_status(pages->source, &status);
    if (pages->proxy) /* which is made after the servers */
        proxy_figures(pages->proxy, &status.proxy);
    for (int i = 0; i < FAMILY_COUNT; i++)
        status.owned[i] = pages->owned[i];
    return status;
}

static void answer_statusz(void *ctx, const struct http_request *request,
                           struct http_answer *answer)
{
    const struct pages *pages = ctx;
    char *paths = metrics_paths(pages->metrics);
    struct daemon_status status = status_of(pages);
    (void)request;
    status.paths = paths;
    diagnostics_statusz(&status, answer);
    free(paths);
}

static void answer_status(void *ctx, const struct http_request *request, struct http_answer *answer)
{
    struct daemon_status status = status_of(ctx);
    (void)request;
    status_answer(&status, answer);
}

void pages_add(struct pages *pages, struct metrics *metrics)
{
    pages->metrics = metrics;
    pages->list = (struct list_page){.sources = list_sources,
                                     .counted = list_counted,
                                     .counted_at = list_counted_at,
                                     .ctx = pages};
    metrics_add_page(metrics, "/configz", answer_configz, pages);
    metrics_add_page(metrics, "/flagz", answer_flagz, pages);
    metrics_add_page(metrics, "/statusz", answer_statusz, pages);
    metrics_add_page(metrics, "/programmed", answer_programmed, pages);
    metrics_add_page(metrics, "/explain", answer_explain, pages);
    metrics_add_page(metrics, "/list", list_answer, &pages->list);
    metrics_add_page(metrics, "/connections", list_answer_connections, &pages->list);
    metrics_add_page(metrics, "/status", answer_status, pages);
    if (pages->options->profiling)
        metrics_add_page(metrics, "/debug/flags/v", diagnostics_verbosity, NULL);
}
