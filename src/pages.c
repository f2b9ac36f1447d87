/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The pages on the metrics address: status, Services, explanations, metrics. Requests are handled
 * in the event loop, which starts after the proxy exists. */
#include "daemon.h"

#include "kube-nftd/base.h"
#include "kube-nftd/serve.h"
#include "kube-nftd/source.h"

#include <math.h>

static bool list_sources(void *ctx, struct explain_sources *sources)
{
    proxy_explain_sources(((const struct daemon *)ctx)->proxy, sources);
    return true;
}

/* A scrape refreshes connection counts older than COUNTED_SECONDS for READ_SECONDS at most. If that
 * does not suffice, it shows the previous counts, and the next scrape gets the new ones. */
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
    const struct daemon *d = ctx;
    const struct object_source *source = &d->source;
    struct metrics_sources sources = {.health = health_counts(d->health),
                                      .log_lines_dropped = log_lines_dropped()};
    struct explain_sources services;
    process_usage_read(&sources.process);
    read_connections(d->proxy);
    proxy_stats(d->proxy, &sources.proxy);
    proxy_explain_sources(d->proxy, &services);
    sources.counted = connections_are_counted(&services);
    if (sources.counted)
        sources.omitted = connections_most(&services, METRICS_CONNECTIONS, &sources.busiest);
    for (int family = 0; d->flows && family < FAMILY_COUNT; family++)
        sources.flows[family] = flow_cleaner_stats(d->flows, (enum family)family);
    if (source->apiserver)
        sources.requests = apiserver_request_stats(source->apiserver);
    sources.has_events = source->recorder != NULL;
    if (source->recorder)
        sources.events = event_recorder_stats(source->recorder);
    for (int kind = 0; kind < KIND_COUNT; kind++)
        sources.reflectors[kind] = reflector_stats(source->reflectors[kind]);
    metrics_write(&sources, page);
    vec_free(&sources.busiest);
}

/* /configz (docs/behaviour.md 6.3). */
static void answer_configz(void *ctx, const struct http_request *request,
                           struct http_answer *answer)
{
    const struct daemon *d = ctx;
    (void)request;
    char *tree = cJSON_PrintUnformatted(d->options->configuration);
    http_answer_json(answer, 200, xasprintf("{\"kubeproxy.config.k8s.io\":%s}", tree));
    free(tree);
}

static void answer_programmed(void *ctx, const struct http_request *request,
                              struct http_answer *answer)
{
    struct explain_sources sources;
    proxy_explain_sources(((const struct daemon *)ctx)->proxy, &sources);
    programmed_answer(&sources, request, answer);
}

/* Syncs first, so that the answer does not report changes that are merely pending. */
static void answer_explain(void *ctx, const struct http_request *request,
                           struct http_answer *answer)
{
    struct daemon *d = ctx;
    struct explain_sources sources;
    if (explain_gate_is_open(&d->explain_gate))
        daemon_sync(d);
    proxy_explain_sources(d->proxy, &sources);
    for (int kind = 0; kind < KIND_COUNT; kind++)
        sources.encodings[kind] = reflector_stats(d->source.reflectors[kind]).encoding;
    explain_answer(&sources, &d->explain_gate, request, answer);
}

static bool list_counted(void *ctx, double since)
{
    return proxy_read_connections(((const struct daemon *)ctx)->proxy, since);
}

static double list_counted_at(void *ctx)
{
    return proxy_connections_read(((const struct daemon *)ctx)->proxy);
}

static void answer_flagz(void *ctx, const struct http_request *request, struct http_answer *answer)
{
    (void)request;
    diagnostics_flagz(((const struct daemon *)ctx)->options->flags, answer);
}

static struct daemon_status status_of(const struct daemon *d)
{
    struct daemon_status status = {.started = d->started,
                                   .node = d->node_name,
                                   .objects_from = d->source.apiserver ? d->source.client.server
                                                                       : d->options->manifests};
    struct process_usage usage;
    process_usage_read(&usage);
    status.resident = isnan(usage.resident) ? 0 : usage.resident;
    for (int kind = 0; kind < KIND_COUNT; kind++)
        status.watch[kind] = reflector_stats(d->source.reflectors[kind]);
    status.heard = d->source.apiserver ? apiserver_silence(d->source.apiserver) : -1;
    status.silence = status.heard > APISERVER_SILENCE ? status.heard : 0;
    proxy_stats(d->proxy, &status.proxy);
    for (int i = 0; i < FAMILY_COUNT; i++)
        status.owned[i] = d->owned[i];
    return status;
}

static void answer_statusz(void *ctx, const struct http_request *request,
                           struct http_answer *answer)
{
    const struct daemon *d = ctx;
    char *paths = metrics_paths(d->metrics);
    struct daemon_status status = status_of(d);
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

void pages_add(struct daemon *d)
{
    struct metrics *metrics = d->metrics;
    d->list = (struct list_page){
        .sources = list_sources, .counted = list_counted, .counted_at = list_counted_at, .ctx = d};
    metrics_add_page(metrics, "/configz", answer_configz, d);
    metrics_add_page(metrics, "/flagz", answer_flagz, d);
    metrics_add_page(metrics, "/statusz", answer_statusz, d);
    metrics_add_page(metrics, "/programmed", answer_programmed, d);
    metrics_add_page(metrics, "/explain", answer_explain, d);
    metrics_add_page(metrics, "/list", list_answer, &d->list);
    metrics_add_page(metrics, "/connections", list_answer_connections, &d->list);
    metrics_add_page(metrics, "/status", answer_status, d);
    if (d->options->profiling)
        metrics_add_page(metrics, "/debug/flags/v", diagnostics_verbosity, NULL);
}
