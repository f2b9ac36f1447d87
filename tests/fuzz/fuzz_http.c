/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Whatever is asked for over HTTP gets a well-formed answer. The linker puts a listener of ours
 * before the real one, so an input is what libmicrohttpd would make of a request: a line "METHOD
 * PATH?QUERY", a line with the value of each header that is looked at, and the body.
 */
#include "kube-nftd/base.h"
#include "kube-nftd/config.h"
#include "kube-nftd/serve.h"
#include "kube-nftd/source.h"
#include "proxy.h"
#include "proxy_options.h"

#include <cjson/cJSON.h>
#include <ev.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void expect(bool holds)
{
    if (!holds)
        abort();
}

/* ---- the listener ---- */

static struct {
    http_answer_fn answer;
    void *ctx;
} listener;

static struct {
    char *query; /* "a=b&c", cut up in place */
    size_t length;
    const char *header;
} asked;

struct http_listener *__wrap_http_listener_open(struct ev_loop *loop,
                                                const struct listen_address *address,
                                                http_answer_fn answer, void *ctx,
                                                struct error *err);
void __wrap_http_listener_close(struct http_listener *open);
const char *__wrap_http_request_argument(const struct http_request *request, const char *name);
const char *__wrap_http_request_header(const struct http_request *request, const char *name);
bool __wrap_http_request_argument_is_cut(const struct http_request *request, const char *name);

struct http_listener *__wrap_http_listener_open(struct ev_loop *loop,
                                                const struct listen_address *address,
                                                http_answer_fn answer, void *ctx, struct error *err)
{
    (void)loop;
    (void)address;
    (void)err;
    listener.answer = answer;
    listener.ctx = ctx;
    return (void *)&listener;
}

void __wrap_http_listener_close(struct http_listener *open)
{
    (void)open;
}

const char *__wrap_http_request_argument(const struct http_request *request, const char *name)
{
    (void)request;
    size_t n = strlen(name);
    for (const char *at = asked.query; at < asked.query + asked.length; at += strlen(at) + 1)
        if (strncmp(at, name, n) == 0 && (at[n] == '=' || at[n] == '\0'))
            return at + n + (at[n] == '=');
    return NULL;
}

const char *__wrap_http_request_header(const struct http_request *request, const char *name)
{
    (void)request;
    (void)name;
    return asked.header;
}

bool __wrap_http_request_argument_is_cut(const struct http_request *request, const char *name)
{
    (void)request;
    (void)name;
    return false;
}

/* ---- the pages ---- */

static struct proxy *proxy;
static struct manifests *manifests;
static struct metrics *metrics;

static void write_metrics(void *ctx, struct metrics_page *page)
{
    (void)ctx;
    metrics_family(page, "a", "gauge", "A figure.");
}

static bool list_sources(void *ctx, struct explain_sources *sources)
{
    (void)ctx;
    proxy_explain_sources(proxy, sources);
    return true;
}

static bool counted(void *ctx, double since)
{
    (void)ctx;
    (void)since;
    return true;
}

static double counted_at(void *ctx)
{
    (void)ctx;
    return 1;
}

static struct list_page page = {
    .sources = list_sources, .counted = counted, .counted_at = counted_at};

static void answer_explain(void *ctx, const struct http_request *request,
                           struct http_answer *answer)
{
    struct explain_sources sources;
    (void)ctx;
    proxy_explain_sources(proxy, &sources);
    sources.from_manifests = true;
    static struct explain_gate gate;
    gate = (struct explain_gate){0}; /* each is answered */
    explain_answer(&sources, &gate, request, answer);
}

static void answer_programmed(void *ctx, const struct http_request *request,
                              struct http_answer *answer)
{
    struct explain_sources sources;
    (void)ctx;
    proxy_explain_sources(proxy, &sources);
    programmed_answer(&sources, request, answer);
}

static void drop_line(void *ctx, enum log_level level, const char *line)
{
    (void)ctx;
    (void)level;
    (void)line;
}

/* A proxy with the objects of a manifest, and the daemon's pages. All of it stays. */
static void set_up(void)
{
    static struct options options;
    static struct proxy_config config = {.families = {true, true}, .node = {.assume_held = true}};
    char *argv[] = {(char *)"kube-nftd", (char *)"--manifests",
                    (char *)SOURCE_DIR "/tests/deploy/objects.yaml", NULL};
    struct error err = {0};
    log_set_sink(drop_line, NULL);
    expect(options_parse(3, argv, &options, &err) == 0);
    proxy_options_apply(&options, "node-a", &config);
    proxy = proxy_new(&config, &err);
    expect(proxy != NULL);
    manifests = manifests_open(options.manifests, proxy_sink(proxy), true, &err);
    expect(manifests != NULL);
    proxy_decide(proxy);
    metrics = metrics_new(ev_default_loop(0), NULL, "node-a", write_metrics, NULL);
    metrics_add_page(metrics, "/explain", answer_explain, NULL);
    metrics_add_page(metrics, "/list", list_answer, &page);
    metrics_add_page(metrics, "/connections", list_answer_connections, &page);
    metrics_add_page(metrics, "/programmed", answer_programmed, NULL);
    metrics_add_page(metrics, "/debug/flags/v", diagnostics_verbosity, NULL);
    expect(metrics_listen(metrics, "127.0.0.1", &err) == 0);
}

/* ---- answers ---- */

static const char *header_of(const struct http_answer *answer, const char *name)
{
    vec_each (&answer->headers, header)
        if (strcmp(header->name, name) == 0)
            return header->value;
    return NULL;
}

static void check_answer(const struct http_answer *answer)
{
    static const unsigned known[] = {200, 400, 404, 405, 406, 503};
    const char *type = header_of(answer, "Content-Type");
    bool found = false;
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
        found = found || known[i] == answer->status;
    expect(found && type && answer->body);
    vec_each (&answer->headers, header)
        expect(!strpbrk(header->value, "\r\n"));
    if (strcmp(type, "application/json") == 0) {
        cJSON *json = cJSON_Parse(answer->body);
        expect(json != NULL);
        cJSON_Delete(json);
    }
}

/* What is made piece by piece becomes a body. */
static void read_stream(struct http_answer *answer)
{
    size_t n = 0, more;
    do {
        answer->body = xreallocarray(answer->body, n + 256 + 1, 1);
        more = answer->more(answer->stream, answer->body + n, 256);
        n += more;
    } while (more);
    answer->body[n] = '\0';
    answer->end(answer->stream);
}

static void ask(const char *method, const char *path, const char *body)
{
    const struct http_request request = {.method = method, .path = path, .body = body};
    struct http_answer answer = {.status = 200};
    listener.answer(listener.ctx, &request, &answer);
    if (answer.more)
        read_stream(&answer);
    check_answer(&answer);
    vec_each (&answer.headers, header)
        free(header->value);
    vec_free(&answer.headers);
    free(answer.body);
}

/* ---- inputs ---- */

/* Ends the line at *@at and goes behind it. */
static char *take_line(char **at)
{
    char *line = *at, *end = strchr(line, '\n');
    *at = end ? end + 1 : line + strlen(line);
    if (end)
        *end = '\0';
    return line;
}

/* Where @text goes on behind the first @mark, which is taken out. */
static char *cut(char *text, char mark)
{
    char *at = strchr(text, mark);
    if (!at)
        return text + strlen(text);
    *at = '\0';
    return at + 1;
}

static void take_query(char *query)
{
    asked.query = query;
    asked.length = strlen(query);
    for (size_t i = 0; i < asked.length; i++)
        if (query[i] == '&')
            query[i] = '\0';
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (!proxy)
        set_up();
    char *text = xstrndup((const char *)data, size), *at = text;
    char *method = take_line(&at), *path = cut(method, ' ');
    take_query(cut(path, '?'));
    asked.header = take_line(&at);
    char *body = xstrndup(at, strnlen(at, HTTP_BODY_KEPT));
    ask(method, path, body);
    free(body);
    free(text);
    return 0;
}
