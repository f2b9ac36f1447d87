/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Whatever is asked for over HTTP gets a well-formed answer. A listener of ours takes the
 * place of the real one, so an input is what libmicrohttpd would make of a request: a line "METHOD
 * PATH?QUERY", a line with the value of each header that is looked at, and the body.
 */
#include "kube-nftd/base.h"
#include "kube-nftd/config.h"
#include "kube-nftd/source.h"
#include "proxy.h"
#include "serve/pages.h"

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

/* ---- the listener: in place of src/serve/http.c ---- */

static struct {
    http_answer_fn answer;
    void *ctx;
} listener;

static struct {
    char *query; /* "a=b&c", cut up in place */
    size_t length;
    const char *header;
} asked;

struct http_port *http_port_open(struct http_ports *ports, const struct listen_address *address,
                                 const struct http_port_kind *kind, const char *id,
                                 http_answer_fn answer, void *ctx, const char *name, ...)
{
    static struct http_port port;
    (void)ports;
    (void)address;
    (void)kind;
    (void)id;
    (void)name;
    listener.answer = answer;
    listener.ctx = ctx;
    return &port;
}

void http_port_close(struct http_port *port)
{
    (void)port;
}

void http_ports_init(struct http_ports *ports, struct ev_loop *loop,
                     const struct event_sink *events)
{
    (void)ports;
    (void)loop;
    (void)events;
}

const char *http_argument(const struct http *http, const char *name)
{
    (void)http;
    size_t n = strlen(name);
    for (const char *at = asked.query; at < asked.query + asked.length; at += strlen(at) + 1)
        if (strncmp(at, name, n) == 0 && (at[n] == '=' || at[n] == '\0'))
            return at + n + (at[n] == '=');
    return NULL;
}

const char *http_request_header(const struct http *http, const char *name)
{
    (void)http;
    (void)name;
    return asked.header;
}

bool http_argument_is_cut(const struct http *http, const char *name)
{
    (void)http;
    (void)name;
    return false;
}

/* ---- the pages ---- */

static struct proxy *proxy;
static struct manifests *manifests;
static struct server *server;

static void read_state(void *ctx, struct snapshot *now)
{
    (void)ctx;
    proxy_snapshot(proxy, now);
    now->from_manifests = true;
    server->explain_after = 0; /* each is answered */
    server->explanations = 0;
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
    static struct proxy_config config = {.families = {true, true}, .offline = true};
    char *argv[] = {(char *)"kube-nftd", (char *)"--manifests",
                    (char *)SOURCE_DIR "/tests/deploy/objects.yaml", (char *)"--profiling", NULL};
    struct error err = {0};
    log_set_sink(drop_line, NULL);
    expect(options_parse(4, argv, &options, &err) == 0);
    config.options = &options;
    config.node_name = "node-a";
    proxy = proxy_new(&config, &err);
    expect(proxy != NULL);
    manifests =
        manifests_open(options.manifests, &proxy->caches.sink, MANIFESTS_STRICT, NULL, &err);
    expect(manifests != NULL);
    policy_sync(proxy->policy);
    server = server_new(&(struct server_config){.loop = ev_default_loop(0),
                                                .options = &options,
                                                .node_name = "node-a",
                                                .read = read_state});
    expect(server_listen(server, ADDRESS_METRICS, "127.0.0.1", &err) == 0);
}

/* ---- answers ---- */

static const char *header_of(const struct http *http, const char *name)
{
    vec_each (&http->headers, header)
        if (strcmp(header->name, name) == 0)
            return header->value;
    return NULL;
}

static void check_answer(const struct http *http)
{
    static const unsigned known[] = {200, 400, 404, 405, 406, 503};
    const char *type = header_of(http, "Content-Type");
    bool found = false;
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
        found = found || known[i] == http->status;
    expect(found && type && http->text);
    vec_each (&http->headers, header)
        expect(!strpbrk(header->value, "\r\n"));
    if (strcmp(type, "application/json") == 0) {
        cJSON *json = cJSON_Parse(http->text);
        expect(json != NULL);
        cJSON_Delete(json);
    }
}

/* What is made piece by piece becomes a body. */
static void read_stream(struct http *http)
{
    size_t n = 0, more;
    do {
        http->text = xreallocarray(http->text, n + 256 + 1, 1);
        more = http->more(http->ctx, http->text + n, 256);
        n += more;
    } while (more);
    http->text[n] = '\0';
}

static void ask(const char *method, const char *path, const char *body)
{
    struct http http = {.method = method, .path = path, .status = 200};
    snprintf(http.body, sizeof(http.body), "%s", body);
    listener.answer(listener.ctx, &http);
    if (http.more)
        read_stream(&http);
    if (http.end)
        http.end(http.ctx);
    check_answer(&http);
    vec_each (&http.headers, header)
        free(header->value);
    vec_free(&http.headers);
    free(http.text);
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
    ask(method, path, at);
    free(text);
    return 0;
}
