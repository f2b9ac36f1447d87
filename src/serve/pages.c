/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The server, its addresses, and the pages that need no file of their own. */
#include "pages.h"

#include <errno.h>
#include <limits.h>
#include <string.h>

/* Precedes pages without a stable format (docs/behaviour.md 6.3). */
#define FOR_PEOPLE "For people: the format of this page may change.\n"

/* ---- short pages ---- */

/* Only shows that the process runs. */
static void answer_healthz(struct server *server, struct http *http)
{
    server->counts.checks++;
    http_text(http, 200,
              http_argument(http, "verbose") ? "[+]ping ok\nhealthz check passed\n" : "ok");
}

static void answer_ping(struct server *server, struct http *http)
{
    (void)server;
    http_text(http, 200, http_argument(http, "verbose") ? "[+]ping ok\n" : "ok");
}

static void answer_mode(struct server *server, struct http *http)
{
    (void)server;
    http_text(http, 200, "nftables");
}

static void answer_configuration(struct server *server, struct http *http)
{
    char *tree = cJSON_PrintUnformatted(server->config.options->configuration);
    http_json(http, 200, xasprintf("{\"kubeproxy.config.k8s.io\":%s}", tree));
    free(tree);
}

static void answer_flags(struct server *server, struct http *http)
{
    http_text(http, 200, "kube-nftd flagz\n" FOR_PEOPLE "\n%s", server->config.options->flags);
}

static void answer_verbosity(struct server *server, struct http *http)
{
    char *end;
    (void)server;
    if (strcmp(http->method, "PUT") != 0) {
        http_text(http, 406, "PUT sets the log level: curl -X PUT -d 4 URL\n");
        return;
    }
    errno = 0;
    long verbosity = strtol(http->body, &end, 10);
    if (errno || end == http->body || *end || verbosity < 0 || verbosity > INT_MAX) {
        http_text(http, 400, "the body is not a number from 0 to %d\n", INT_MAX);
        return;
    }
    log_set_verbosity((int)verbosity);
    log_info("serve", "verbosity=%ld set over /debug/flags/v", verbosity);
    http_text(http, 200, "verbosity=%ld from now on\n", verbosity);
}

/* ---- /explain?what=...[&all=true] ---- */

/* After an answer that took longer, pause for PAUSE times as long: explanations take a quarter of
 * the loop's time at most. */
#define CHEAP_SECONDS 0.002
#define PAUSE 3
/* Answers that clients have not read yet. Each can be some MiB. */
#define UNREAD_MOST 4

static void on_explained(void *ctx)
{
    ((struct server *)ctx)->explanations--;
}

static void explain_to(struct server *server, const struct explain_query *query, struct http *http)
{
    if (server->config.sync)
        server->config.sync(server->config.ctx);
    server_read(server);
    double before = clock_cpu();
    cJSON *facts = explain(&server->now, query);
    http_json(http, 200, facts_print(facts));
    cJSON_Delete(facts);
    http->end = on_explained;
    http->ctx = server;
    server->explanations++;
    double cost = clock_cpu() - before;
    if (cost > CHEAP_SECONDS)
        server->explain_after = clock_monotonic() + PAUSE * cost;
}

static void answer_explain(struct server *server, struct http *http)
{
    const char *what = http_argument(http, "what"), *all = http_argument(http, "all");
    struct explain_query query = {0};
    struct error err = {0};
    bool is_true = all && (!*all || strcmp(all, "true") == 0 || strcmp(all, "1") == 0);
    bool is_false = !all || strcmp(all, "false") == 0 || strcmp(all, "0") == 0;
    if (!what)
        http_text(http, 400,
                  "?what= is missing: ADDRESS:PORT[/PROTOCOL] or NAMESPACE/SERVICE[:PORT]\n");
    else if (!is_true && !is_false)
        http_text(http, 400, "all: neither true nor false\n");
    else if (http_argument_is_cut(http, "what"))
        http_text(http, 400, "what: it contains a NUL\n");
    else if (explain_query_parse(what, &query, &err))
        http_text(http, 400, "what: %s\n", err.text);
    else if (clock_monotonic() < server->explain_after || server->explanations >= UNREAD_MOST)
        http_busy(http);
    else {
        query.all = is_true;
        explain_to(server, &query, http);
    }
    explain_query_clear(&query);
    error_clear(&err);
}

/* ---- addresses and their pages ---- */

static page_fn answer_statusz;

static const struct page {
    enum server_address address;
    const char *path;
    page_fn *answer;
    enum {
        ALWAYS_SERVED,
        COMPLETE,  /* only once all objects have come, and only to GET and HEAD */
        PROFILING, /* only with --profiling */
    } when;
} pages[] = {{ADDRESS_HEALTH, "/healthz", answer_health, ALWAYS_SERVED},
             {ADDRESS_HEALTH, "/livez", answer_liveness, ALWAYS_SERVED},
             {ADDRESS_HEALTH, "/readyz", answer_readiness, ALWAYS_SERVED},
             {ADDRESS_METRICS, "/configz", answer_configuration, ALWAYS_SERVED},
             {ADDRESS_METRICS, "/connections", answer_connections, COMPLETE},
             {ADDRESS_METRICS, "/debug/flags/v", answer_verbosity, PROFILING},
             {ADDRESS_METRICS, "/explain", answer_explain, COMPLETE},
             {ADDRESS_METRICS, "/flagz", answer_flags, ALWAYS_SERVED},
             {ADDRESS_METRICS, "/frontends", answer_frontends, COMPLETE},
             {ADDRESS_METRICS, "/healthz", answer_healthz, ALWAYS_SERVED},
             {ADDRESS_METRICS, "/healthz/ping", answer_ping, ALWAYS_SERVED},
             {ADDRESS_METRICS, "/list", answer_list, COMPLETE},
             {ADDRESS_METRICS, "/metrics", answer_metrics, ALWAYS_SERVED},
             {ADDRESS_METRICS, "/metrics/slis", answer_slis, ALWAYS_SERVED},
             {ADDRESS_METRICS, "/programmed", answer_programmed, ALWAYS_SERVED},
             {ADDRESS_METRICS, "/proxyMode", answer_mode, ALWAYS_SERVED},
             {ADDRESS_METRICS, "/status", answer_status, ALWAYS_SERVED},
             {ADDRESS_METRICS, "/statusz", answer_statusz, ALWAYS_SERVED}};

#define N_PAGES (sizeof(pages) / sizeof(pages[0]))

static bool is_served(const struct server *server, enum server_address address,
                      const struct page *page)
{
    return page->address == address &&
           (page->when != PROFILING || server->config.options->profiling);
}

/* /status for people. */
static void answer_statusz(struct server *server, struct http *http)
{
    char *status = status_text(&server->now), *paths = xstrdup("");
    for (size_t i = 0; i < N_PAGES; i++) {
        char *before = paths;
        if (!is_served(server, ADDRESS_METRICS, &pages[i]))
            continue;
        paths = xasprintf("%s %s", before, pages[i].path);
        free(before);
    }
    http_text(http, 200, "kube-nftd statusz\n" FOR_PEOPLE "\n%s\nPaths:%s\n", status, paths);
    free(status);
    free(paths);
}

static void answer_at(struct server *server, enum server_address address, struct http *http)
{
    const struct page *page = NULL;
    for (size_t i = 0; i < N_PAGES; i++)
        if (is_served(server, address, &pages[i]) && strcmp(pages[i].path, http->path) == 0)
            page = &pages[i];
    if (!page) {
        http_text(http, 404, "404 page not found\n");
        return;
    }
    server_read(server);
    if (page->when == COMPLETE && strcmp(http->method, "GET") != 0 &&
        strcmp(http->method, "HEAD") != 0) {
        http_header(http, "Allow", "GET, HEAD");
        http_text(http, 405, "only GET is answered\n");
    } else if (page->when == COMPLETE && !server->now.complete) {
        http_text(http, 503, "not all Services and EndpointSlices are known yet\n");
    } else {
        page->answer(server, http);
    }
}

static void answer_health_address(void *ctx, struct http *http)
{
    answer_at(ctx, ADDRESS_HEALTH, http);
}

static void answer_metrics_address(void *ctx, struct http *http)
{
    answer_at(ctx, ADDRESS_METRICS, http);
}

static const struct {
    uint16_t port; /* kube-proxy's */
    http_answer_fn answer;
    struct http_port_kind kind;
} addresses[] = {
    [ADDRESS_HEALTH] = {10256,
                        answer_health_address,
                        {"/healthz and /livez", KIND_NODE, "FailedToStartProxierHealthcheck",
                         "StartKubeProxy", "failed to start proxy healthz on ", ""}},
    [ADDRESS_METRICS] = {10249,
                         answer_metrics_address,
                         {"/metrics and /proxyMode", KIND_NODE, "FailedToStartMetricServer",
                          "StartKubeProxy", "starting metrics server on ", " failed"}}};

/* ---- the server ---- */

struct server *server_new(const struct server_config *config)
{
    struct server *server = xcalloc(1, sizeof(*server));
    server->config = *config;
    http_ports_init(&server->ports, config->loop, config->events);
    server->health = health_new(server);
    return server;
}

void server_free(struct server *server)
{
    if (!server)
        return;
    for (int i = 0; i < ADDRESS_COUNT; i++)
        http_port_close(server->own[i]);
    health_free(server->health);
    free(server);
}

void server_read(struct server *server)
{
    server->now = (struct snapshot){.started = 0};
    server->config.read(server->config.ctx, &server->now);
    server->now.health_counts = server->counts;
    server->now.health_closed =
        server->own[ADDRESS_HEALTH] && !server_is_listening(server, ADDRESS_HEALTH);
}

int server_listen(struct server *server, enum server_address address, const char *bind,
                  struct error *err)
{
    const struct http_port_kind *kind = &addresses[address].kind;
    struct http_port **own = &server->own[address];
    struct listen_address where;
    if (listen_address_parse(bind, addresses[address].port, &where, err) < 0)
        return -1;
    http_port_close(*own);
    *own = http_port_open(&server->ports, &where, kind, server->config.node_name,
                          addresses[address].answer, server, "address=%s", bind);
    if ((*own)->daemon)
        log_info("serve", "serving %s address=%s", kind->what, bind);
    return 0;
}

bool server_is_listening(const struct server *server, enum server_address address)
{
    return server->own[address]->daemon != NULL;
}

struct health *server_health(struct server *server)
{
    return server->health;
}
