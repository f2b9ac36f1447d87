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

/* A page that is shorter is not worth packing. */
#define PACKED_FROM 4096

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

static void put_text(struct http_answer *answer, const char *type, char *body)
{
    http_answer_header(answer, "Content-Type", "%s; charset=utf-8", type);
    answer->body = body;
}

/* ---- gzip ---- */

/* Of deflateInit2(): the largest window, and a gzip header instead of zlib's. */
#define WINDOW_BITS (15 + 16)
#define MEMORY_LEVEL 8

static const char *skip_space(const char *text)
{
    return text + strspn(text, " \t");
}

static bool is_word(const char *text, size_t length, const char *word)
{
    return length == strlen(word) && strncasecmp(text, word, length) == 0;
}

/* What follows a name: "" or ";q=0.5". Other parameters do not exist. */
static bool has_quality(const char *text)
{
    text = skip_space(text);
    if (*text != ';')
        return true;
    text = skip_space(text + 1);
    if (strncasecmp(text, "q=", 2) != 0)
        return true;
    return strtod(text + 2, NULL) > 0;
}

/* Whether a header Accept-Encoding (NULL: none) takes gzip: it names gzip, x-gzip or *, with a
 * quality that is not 0. */
static bool is_accepted(const char *accept_encoding)
{
    bool any = false;
    for (const char *at = accept_encoding; at && *at; at += strspn(at, ",")) {
        at = skip_space(at);
        size_t length = strcspn(at, " \t;,");
        if (is_word(at, length, "gzip") || is_word(at, length, "x-gzip"))
            return has_quality(at + length);
        if (is_word(at, length, "*"))
            any = has_quality(at + length);
        at += strcspn(at, ",");
    }
    return any;
}

/* @size bytes, not 0, as a gzip file of *@packed_size bytes for the caller to free; NULL if that
 * does not go. */
static char *gzip(const char *bytes, size_t size, size_t *packed_size)
{
    z_stream stream = {0};
    if (deflateInit2(&stream, Z_BEST_SPEED, Z_DEFLATED, WINDOW_BITS, MEMORY_LEVEL,
                     Z_DEFAULT_STRATEGY) != Z_OK)
        return NULL;
    size_t room = deflateBound(&stream, size);
    char *packed = xcalloc(room, 1);
    stream.next_in = (z_const Bytef *)bytes;
    stream.avail_in = (uInt)size;
    stream.next_out = (Bytef *)packed;
    stream.avail_out = (uInt)room;
    bool done = deflate(&stream, Z_FINISH) == Z_STREAM_END;
    *packed_size = stream.total_out;
    deflateEnd(&stream);
    if (done)
        return packed;
    free(packed);
    return NULL;
}

/* ---- pages of metrics ---- */

static void pack(const struct http_request *request, struct http_answer *answer)
{
    size_t size;
    if (answer->length < PACKED_FROM ||
        !is_accepted(http_request_header(request, "Accept-Encoding")))
        return;
    char *packed = gzip(answer->body, answer->length, &size);
    if (!packed)
        return;
    free(answer->body);
    answer->body = packed;
    answer->length = size;
    http_answer_header(answer, "Content-Encoding", "gzip");
}

static void answer_page(metrics_fn write, void *ctx, const struct http_request *request,
                        struct http_answer *answer)
{
    size_t length;
    put_text(answer, "text/plain; version=0.0.4", metrics_print(write, ctx, &length));
    answer->length = length;
    http_answer_header(answer, "Vary", "Accept-Encoding");
    pack(request, answer);
}

static void answer_metrics(void *ctx, const struct http_request *request,
                           struct http_answer *answer)
{
    const struct metrics *metrics = ctx;
    answer_page(metrics->write, metrics->ctx, request, answer);
}

/* The one check that there is passes whenever it is made. */
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
    metrics_labelled(page, check, 2, 1);
    metrics_family(page, "kubernetes_healthchecks_total", "counter",
                   "Checks of /healthz, by result.");
    metrics_labelled(page, passed, 3, (double)metrics->healthy);
}

static void answer_slis(void *ctx, const struct http_request *request, struct http_answer *answer)
{
    struct metrics *metrics = ctx;
    if (strcmp(request->method, "DELETE") != 0) {
        answer_page(write_slis, metrics, request, answer);
        return;
    }
    metrics->healthy = 0;
    put_text(answer, "text/plain", xstrdup("metrics reset\n"));
}

/* ---- other answers ---- */

static void answer_healthz(void *ctx, const struct http_request *request,
                           struct http_answer *answer)
{
    struct metrics *metrics = ctx;
    bool verbose = http_request_argument(request, "verbose") != NULL;
    metrics->healthy++;
    http_answer_header(answer, "X-Content-Type-Options", "nosniff");
    put_text(answer, "text/plain", xstrdup(verbose ? "[+]ping ok\nhealthz check passed\n" : "ok"));
}

static void answer_ping(void *ctx, const struct http_request *request, struct http_answer *answer)
{
    (void)ctx;
    bool verbose = http_request_argument(request, "verbose") != NULL;
    http_answer_header(answer, "X-Content-Type-Options", "nosniff");
    put_text(answer, "text/plain", xstrdup(verbose ? "[+]ping ok\n" : "ok"));
}

static void answer_mode(void *ctx, const struct http_request *request, struct http_answer *answer)
{
    (void)ctx;
    (void)request;
    put_text(answer, "text/plain", xstrdup("nftables"));
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

struct metrics *metrics_new(struct ev_loop *loop, metrics_fn write, void *ctx)
{
    struct metrics *metrics = xcalloc(1, sizeof(*metrics));
    *metrics = (struct metrics){.write = write, .ctx = ctx, .ports = ports_new(loop, "metrics")};
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

void metrics_set_events(struct metrics *metrics, const struct event_sink *events,
                        const char *node_name)
{
    metrics->node_name = node_name;
    ports_set_events(metrics->ports, events);
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
