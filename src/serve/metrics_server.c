/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "kube-nftd/serve.h"

#include "kube-nftd/base.h"
#include "ports.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <zlib.h>

#define METRICS_PORT 10249

/* A shorter page is not worth compressing. */
#define COMPRESSED_FROM 4096

/* Sorted by path. */
struct page {
    const char *path;
    http_answer_fn answer;
    void *ctx;
};

struct metrics {
    metrics_fn write;
    void *ctx;
    VEC(struct page) pages;
    uint64_t healthy; /* checks of /healthz since the last DELETE of /metrics/slis */
    struct ports *ports;
    struct port *own;
    const char *node_name;
};

/* ---- gzip ---- */

/* Of deflateInit2(): the largest window, and a gzip header instead of zlib's. */
#define WINDOW_BITS (15 + 16)
#define MEMORY_LEVEL 8

/* Whether a header Accept-Encoding (NULL: none) accepts gzip: it names gzip, x-gzip or *, with a
 * quality (";q=0.5") other than 0. */
static bool takes_gzip(const char *accept_encoding)
{
    char *list = xstrdup(accept_encoding ? accept_encoding : ""), *rest = list, *item;
    bool any = false, gzip = false, named = false;
    while (!named && (item = strsep(&rest, ","))) {
        item += strspn(item, " \t");
        size_t length = strcspn(item, " \t;");
        const char *quality = item + length + strspn(item + length, " \t;");
        bool taken = strncasecmp(quality, "q=", 2) != 0 || strtod(quality + 2, NULL) > 0;
        item[length] = '\0';
        named = strcasecmp(item, "gzip") == 0 || strcasecmp(item, "x-gzip") == 0;
        if (named)
            gzip = taken;
        else if (strcmp(item, "*") == 0)
            any = taken;
    }
    free(list);
    return named ? gzip : any;
}

/* Compresses the non-empty body of @answer; leaves it unchanged on failure. */
static void compress_body(struct http_answer *answer)
{
    z_stream stream = {0};
    if (deflateInit2(&stream, Z_BEST_SPEED, Z_DEFLATED, WINDOW_BITS, MEMORY_LEVEL,
                     Z_DEFAULT_STRATEGY) != Z_OK)
        return;
    size_t room = deflateBound(&stream, answer->length);
    char *compressed = xcalloc(room, 1);
    stream.next_in = (z_const Bytef *)answer->body;
    stream.avail_in = (uInt)answer->length;
    stream.next_out = (Bytef *)compressed;
    stream.avail_out = (uInt)room;
    bool done = deflate(&stream, Z_FINISH) == Z_STREAM_END;
    deflateEnd(&stream);
    if (!done) {
        free(compressed);
        return;
    }
    free(answer->body);
    answer->body = compressed;
    answer->length = stream.total_out;
    http_answer_header(answer, "Content-Encoding", "gzip");
}

/* ---- answers ---- */

static void answer_metrics_of(metrics_fn write, void *ctx, const struct http_request *request,
                              struct http_answer *answer)
{
    http_answer_header(answer, "Content-Type", "text/plain; version=0.0.4; charset=utf-8");
    http_answer_header(answer, "Vary", "Accept-Encoding");
    answer->body = metrics_print(write, ctx, &answer->length);
    if (answer->length >= COMPRESSED_FROM &&
        takes_gzip(http_request_header(request, "Accept-Encoding")))
        compress_body(answer);
}

static void answer_metrics(void *ctx, const struct http_request *request,
                           struct http_answer *answer)
{
    const struct metrics *metrics = ctx;
    answer_metrics_of(metrics->write, metrics->ctx, request, answer);
}

/* The only check always passes. */
static void write_slis(void *ctx, struct metrics_page *page)
{
    static const struct metrics_label check[] = {{"name", "ping"}, {"type", "healthz"}},
                                      passed[] = {{"name", "ping"},
                                                  {"status", "success"},
                                                  {"type", "healthz"}};
    const struct metrics *metrics = ctx;
    if (metrics->healthy == 0)
        return;
    metrics_family(page, "kubernetes_healthcheck", "gauge", "Whether the /healthz check passes.");
    metrics_sample(page, check, 2, 1);
    metrics_family(page, "kubernetes_healthchecks_total", "counter",
                   "Checks of /healthz, by result.");
    metrics_sample(page, passed, 3, (double)metrics->healthy);
}

static void answer_slis(void *ctx, const struct http_request *request, struct http_answer *answer)
{
    struct metrics *metrics = ctx;
    if (strcmp(request->method, "DELETE") != 0) {
        answer_metrics_of(write_slis, metrics, request, answer);
        return;
    }
    metrics->healthy = 0;
    http_answer_text(answer, 200, "metrics reset\n");
}

static void answer_healthz(void *ctx, const struct http_request *request,
                           struct http_answer *answer)
{
    struct metrics *metrics = ctx;
    bool verbose = http_request_argument(request, "verbose") != NULL;
    metrics->healthy++;
    http_answer_text(answer, 200, verbose ? "[+]ping ok\nhealthz check passed\n" : "ok");
}

static void answer_ping(void *ctx, const struct http_request *request, struct http_answer *answer)
{
    (void)ctx;
    bool verbose = http_request_argument(request, "verbose") != NULL;
    http_answer_text(answer, 200, verbose ? "[+]ping ok\n" : "ok");
}

static void answer_mode(void *ctx, const struct http_request *request, struct http_answer *answer)
{
    (void)ctx;
    (void)request;
    http_answer_text(answer, 200, "nftables");
}

static void answer_request(void *ctx, const struct http_request *request,
                           struct http_answer *answer)
{
    const struct metrics *metrics = ctx;
    vec_each (&metrics->pages, page) {
        if (strcmp(page->path, request->path) == 0) {
            page->answer(page->ctx, request, answer);
            return;
        }
    }
    http_answer_not_found(answer);
}

/* ---- the server ---- */

static int compare_pages(const void *a, const void *b)
{
    return strcmp(((const struct page *)a)->path, ((const struct page *)b)->path);
}

void metrics_add_page(struct metrics *metrics, const char *path, http_answer_fn answer, void *ctx)
{
    vec_push(&metrics->pages, (struct page){path, answer, ctx});
    qsort(metrics->pages.v, metrics->pages.n, sizeof(*metrics->pages.v), compare_pages);
}

struct metrics *metrics_new(struct ev_loop *loop, const struct event_sink *events,
                            const char *node_name, metrics_fn write, void *ctx)
{
    struct metrics *metrics = xcalloc(1, sizeof(*metrics));
    *metrics = (struct metrics){.write = write,
                                .ctx = ctx,
                                .ports = ports_new(loop, "metrics", events),
                                .node_name = node_name};
    metrics_add_page(metrics, "/metrics", answer_metrics, metrics);
    metrics_add_page(metrics, "/metrics/slis", answer_slis, metrics);
    metrics_add_page(metrics, "/healthz", answer_healthz, metrics);
    metrics_add_page(metrics, "/healthz/ping", answer_ping, metrics);
    metrics_add_page(metrics, "/proxyMode", answer_mode, metrics);
    return metrics;
}

void metrics_free(struct metrics *metrics)
{
    if (!metrics)
        return;
    port_close(metrics->own);
    ports_free(metrics->ports);
    vec_free(&metrics->pages);
    free(metrics);
}

char *metrics_paths(const struct metrics *metrics)
{
    char *text = NULL;
    vec_each (&metrics->pages, page) {
        char *longer = xasprintf("%s%s%s", text ? text : "", text ? " " : "", page->path);
        free(text);
        text = longer;
    }
    return text;
}

int metrics_listen(struct metrics *metrics, const char *bind, struct error *err)
{
    static const struct port_event event = {KIND_NODE, "FailedToStartMetricServer",
                                            "StartKubeProxy", "starting metrics server on ",
                                            " failed"};
    struct listen_address address;
    if (listen_address_parse(bind, METRICS_PORT, &address, err) < 0)
        return -1;
    port_close(metrics->own);
    metrics->own = port_open(metrics->ports, &address, &event, metrics->node_name, answer_request,
                             metrics, "address=%s", bind);
    if (port_is_listening(metrics->own))
        log_info("metrics", "serving /metrics and /proxyMode address=%s", bind);
    return 0;
}

bool metrics_is_listening(const struct metrics *metrics)
{
    return port_is_listening(metrics->own);
}
