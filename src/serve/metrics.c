/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "kube-nftd/serve/metrics.h"

#include "kube-nftd/base/log.h"
#include "kube-nftd/serve/ports.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define METRICS_PORT 10249

/* What a scrape gets, while it is written. */
struct metrics_page {
    FILE *out;
    char *family; /* name of the family that was begun last */
};

struct metrics {
    metrics_fn write;
    void *ctx;
    struct ports *ports;
    struct port *own;
};

/* ---- the page ---- */

/* In HELP lines quotes stand as they are. */
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

/* With as few digits as give the same number again. */
static void put_number(FILE *out, double value)
{
    char text[32];
    if (isnan(value)) {
        fputs("NaN", out);
        return;
    }
    if (isinf(value)) {
        fputs(value > 0 ? "+Inf" : "-Inf", out);
        return;
    }
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(text, sizeof(text), "%.*g", digits, value);
        if (strtod(text, NULL) == value)
            break;
    }
    fputs(text, out);
}

void metrics_family(struct metrics_page *page, const char *name, const char *type, const char *help)
{
    free(page->family);
    page->family = xstrdup(name);
    fprintf(page->out, "# HELP %s ", name);
    put_escaped(page->out, help, false);
    fprintf(page->out, "\n# TYPE %s %s\n", name, type);
}

void metrics_sample(struct metrics_page *page, const char *label, const char *value_of_label,
                    double value)
{
    fputs(page->family, page->out);
    if (label) {
        fprintf(page->out, "{%s=\"", label);
        put_escaped(page->out, value_of_label, true);
        fputs("\"}", page->out);
    }
    fputc(' ', page->out);
    put_number(page->out, value);
    fputc('\n', page->out);
}

/* ---- answers ---- */

static void put_text(struct http_answer *answer, const char *type, char *body)
{
    http_answer_header(answer, "Content-Type", "%s; charset=utf-8", type);
    answer->body = body;
}

static void answer_metrics(const struct metrics *metrics, struct http_answer *answer)
{
    char *text = NULL;
    size_t length = 0;
    struct metrics_page page = {.out = open_memstream(&text, &length)};
    if (!page.out)
        alloc_failed();
    metrics->write(metrics->ctx, &page);
    bool failed = ferror(page.out);
    if (fclose(page.out) != 0 || failed)
        alloc_failed();
    free(page.family);
    put_text(answer, "text/plain; version=0.0.4", text);
}

static void answer_request(void *ctx, const struct http_request *request,
                           struct http_answer *answer)
{
    const char *path = request->path;
    if (strcmp(path, "/metrics") == 0)
        answer_metrics(ctx, answer);
    else if (strcmp(path, "/healthz") == 0 || strcmp(path, "/healthz/ping") == 0)
        put_text(answer, "text/plain", xstrdup("ok"));
    else if (strcmp(path, "/proxyMode") == 0)
        put_text(answer, "text/plain", xstrdup("nftables"));
    else
        http_answer_not_found(answer);
}

/* ---- the server ---- */

struct metrics *metrics_new(struct ev_loop *loop, metrics_fn write, void *ctx)
{
    struct metrics *metrics = xcalloc(1, sizeof(*metrics));
    *metrics = (struct metrics){.write = write, .ctx = ctx, .ports = ports_new(loop, "metrics")};
    return metrics;
}

void metrics_free(struct metrics *metrics)
{
    if (!metrics)
        return;
    port_close(metrics->own);
    ports_free(metrics->ports);
    free(metrics);
}

int metrics_listen(struct metrics *metrics, const char *bind, struct error *err)
{
    struct http_address address;
    if (http_address_parse(bind, METRICS_PORT, &address, err) < 0)
        return -1;
    port_close(metrics->own);
    metrics->own = port_open(metrics->ports, &address, answer_request, metrics, "address=%s", bind);
    if (port_is_listening(metrics->own))
        log_info("metrics", "/metrics and /proxyMode answer address=%s", bind);
    return 0;
}
