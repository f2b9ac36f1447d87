/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The pages with metrics: their text format, and gzip on request. */
#include "pages.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <zlib.h>

/* A shorter page is not worth compressing. */
#define COMPRESSED_FROM 4096

/* Size of a printed number. */
#define NUMBER_SIZE 32

struct metrics_page {
    FILE *out;
    /* The current family. */
    const char *name, *type, *help;
    bool headed; /* its HELP and TYPE are written */
};

/* ---- texts and numbers ---- */

/* HELP lines do not escape quotes. */
static void put_escaped(FILE *out, const char *text, bool quoted)
{
    for (; *text; text++) {
        if (*text == '\n')
            fputs("\\n", out);
        else if (*text == '\\' || (quoted && *text == '"'))
            fprintf(out, "\\%c", *text);
        else
            fputc(*text, out);
    }
}

/* The fewest digits that parse to the same number. */
static const char *format_number(double value, char text[NUMBER_SIZE])
{
    if (isnan(value))
        return "NaN";
    if (isinf(value))
        return value > 0 ? "+Inf" : "-Inf";
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(text, NUMBER_SIZE, "%.*g", digits, value);
        if (strtod(text, NULL) == value)
            break;
    }
    return text;
}

/* Writes a sample, after the family's head if it is the first; @suffix extends the name. */
static void put_line(struct metrics_page *page, const char *suffix,
                     const struct metrics_label *labels, size_t n, double value)
{
    char text[NUMBER_SIZE];
    if (!page->headed) {
        fprintf(page->out, "# HELP %s ", page->name);
        put_escaped(page->out, page->help, false);
        fprintf(page->out, "\n# TYPE %s %s\n", page->name, page->type);
        page->headed = true;
    }
    fprintf(page->out, "%s%s", page->name, suffix);
    for (size_t i = 0; i < n; i++) {
        fprintf(page->out, "%s%s=\"", i == 0 ? "{" : ",", labels[i].name);
        put_escaped(page->out, labels[i].value, true);
        fputc('"', page->out);
    }
    fprintf(page->out, "%s %s\n", n > 0 ? "}" : "", format_number(value, text));
}

/* ---- the page ---- */

char *metrics_print(void (*write)(const struct snapshot *now, struct metrics_page *page),
                    const struct snapshot *now, size_t *length)
{
    char *text = NULL;
    struct metrics_page page = {.out = open_memstream(&text, length)};
    if (!page.out)
        alloc_failed();
    write(now, &page);
    bool failed = ferror(page.out);
    if (fclose(page.out) != 0 || failed)
        alloc_failed();
    return text;
}

void metrics_family(struct metrics_page *page, const char *name, const char *type, const char *help)
{
    page->name = name;
    page->type = type;
    page->help = help;
    page->headed = false;
}

void metrics_sample(struct metrics_page *page, const struct metrics_label *labels, size_t n,
                    double value)
{
    put_line(page, "", labels, n, value);
}

void metrics_histogram(struct metrics_page *page, const struct metrics_label *labels, size_t n,
                       const struct histogram *histogram)
{
    char bound[NUMBER_SIZE];
    struct metrics_label with_bound[METRICS_LABELS_MOST + 2];
    uint64_t count = 0;
    for (size_t i = 0; i < n; i++)
        with_bound[i] = labels[i];
    with_bound[n].name = "le";
    for (size_t i = 0; i <= histogram->buckets->n; i++) {
        bool last = i == histogram->buckets->n;
        count += histogram->counts[i];
        with_bound[n].value = format_number(last ? INFINITY : histogram->buckets->bounds[i], bound);
        put_line(page, "_bucket", with_bound, n + 1, (double)count);
    }
    put_line(page, "_sum", labels, n, histogram->sum);
    put_line(page, "_count", labels, n, (double)count);
}

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

/* Compresses the body of @http, which is not empty. */
static void compress_body(struct http *http)
{
    z_stream stream = {0};
    if (deflateInit2(&stream, Z_BEST_SPEED, Z_DEFLATED, WINDOW_BITS, MEMORY_LEVEL,
                     Z_DEFAULT_STRATEGY) != Z_OK)
        alloc_failed(); /* no other error is possible */
    size_t room = deflateBound(&stream, http->length);
    char *compressed = xcalloc(room, 1);
    stream.next_in = (z_const Bytef *)http->text;
    stream.avail_in = (uInt)http->length;
    stream.next_out = (Bytef *)compressed;
    stream.avail_out = (uInt)room;
    deflate(&stream, Z_FINISH); /* cannot fail: all of it has room */
    deflateEnd(&stream);
    free(http->text);
    http->text = compressed;
    http->length = stream.total_out;
    http_header(http, "Content-Encoding", "gzip");
}

/* ---- answers ---- */

static void answer_page(void (*write)(const struct snapshot *now, struct metrics_page *page),
                        const struct snapshot *now, struct http *http)
{
    http_header(http, "Content-Type", "text/plain; version=0.0.4; charset=utf-8");
    http_header(http, "Vary", "Accept-Encoding");
    http->text = metrics_print(write, now, &http->length);
    if (http->length >= COMPRESSED_FROM && takes_gzip(http_request_header(http, "Accept-Encoding")))
        compress_body(http);
}

void answer_metrics(struct server *server, struct http *http)
{
    answer_page(metrics_write, &server->now, http);
}

/* The only check always passes. */
static void write_slis(const struct snapshot *now, struct metrics_page *page)
{
    static const struct metrics_label check[] = {{"name", "ping"}, {"type", "healthz"}},
                                      passed[] = {{"name", "ping"},
                                                  {"status", "success"},
                                                  {"type", "healthz"}};
    if (now->health_counts.checks == 0)
        return;
    metrics_family(page, "kubernetes_healthcheck", "gauge", "Whether the /healthz check passes.");
    metrics_sample(page, check, 2, 1);
    metrics_family(page, "kubernetes_healthchecks_total", "counter",
                   "Checks of /healthz, by result.");
    metrics_sample(page, passed, 3, (double)now->health_counts.checks);
}

void answer_slis(struct server *server, struct http *http)
{
    if (strcmp(http->method, "DELETE") != 0) {
        answer_page(write_slis, &server->now, http);
        return;
    }
    server->counts.checks = 0;
    http_text(http, 200, "metrics reset\n");
}
