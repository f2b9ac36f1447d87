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
static void answer_healthz(struct server *server, const struct snapshot *now,
                           const struct http_request *request, struct http_answer *answer)
{
    bool verbose = http_request_argument(request, "verbose") != NULL;
    (void)now;
    server->counts.checks++;
    http_answer_text(answer, 200, verbose ? "[+]ping ok\nhealthz check passed\n" : "ok");
}

static void answer_ping(struct server *server, const struct snapshot *now,
                        const struct http_request *request, struct http_answer *answer)
{
    bool verbose = http_request_argument(request, "verbose") != NULL;
    (void)server;
    (void)now;
    http_answer_text(answer, 200, verbose ? "[+]ping ok\n" : "ok");
}

static void answer_mode(struct server *server, const struct snapshot *now,
                        const struct http_request *request, struct http_answer *answer)
{
    (void)server;
    (void)now;
    (void)request;
    http_answer_text(answer, 200, "nftables");
}

static void answer_configuration(struct server *server, const struct snapshot *now,
                                 const struct http_request *request, struct http_answer *answer)
{
    char *tree = cJSON_PrintUnformatted(server->config.options->configuration);
    (void)now;
    (void)request;
    http_answer_json(answer, 200, xasprintf("{\"kubeproxy.config.k8s.io\":%s}", tree));
    free(tree);
}

static void answer_flags(struct server *server, const struct snapshot *now,
                         const struct http_request *request, struct http_answer *answer)
{
    (void)now;
    (void)request;
    http_answer_text(answer, 200, "kube-nftd flagz\n" FOR_PEOPLE "\n%s",
                     server->config.options->flags);
}

static void answer_verbosity(struct server *server, const struct snapshot *now,
                             const struct http_request *request, struct http_answer *answer)
{
    char *end;
    (void)server;
    (void)now;
    if (strcmp(request->method, "PUT") != 0) {
        http_answer_text(answer, 406, "PUT sets the log level: curl -X PUT -d 4 URL\n");
        return;
    }
    errno = 0;
    long verbosity = strtol(request->body, &end, 10);
    if (errno || end == request->body || *end || verbosity < 0 || verbosity > INT_MAX) {
        http_answer_text(answer, 400, "the body is not a number from 0 to %d\n", INT_MAX);
        return;
    }
    log_set_verbosity((int)verbosity);
    log_info("daemon", "verbosity=%ld set over /debug/flags/v", verbosity);
    http_answer_text(answer, 200, "verbosity=%ld from now on\n", verbosity);
}

/* ---- GET /explain?what=...[&all=true] ---- */

/* After an answer that took longer, pause for PAUSE times as long: explanations take a quarter of
 * the loop's time at most. */
#define CHEAP_SECONDS 0.002
#define PAUSE 3
/* Answers that clients have not read yet. Each can be some MiB. */
#define UNREAD_MOST 4

/* Parses the argument "all" in its various forms. False if it is malformed. */
static bool read_all(const struct http_request *request, bool *all)
{
    const char *text = http_request_argument(request, "all");
    *all = text && (!*text || strcmp(text, "true") == 0 || strcmp(text, "1") == 0);
    return *all || !text || strcmp(text, "false") == 0 || strcmp(text, "0") == 0;
}

static void on_sent(void *ctx)
{
    ((struct server *)ctx)->explanations--;
}

static void answer_query(struct server *server, const struct explain_query *query,
                         struct http_answer *answer)
{
    struct snapshot now;
    if (server->config.sync)
        server->config.sync(server->config.ctx);
    server_read(server, &now);
    double before = clock_cpu();
    cJSON *facts = explain(&now, query);
    http_answer_json(answer, 200, facts_print(facts));
    cJSON_Delete(facts);
    answer->end = on_sent;
    answer->ctx = server;
    server->explanations++;
    double cost = clock_cpu() - before;
    if (cost > CHEAP_SECONDS)
        server->explain_after = clock_monotonic() + PAUSE * cost;
}

static void answer_explain(struct server *server, const struct snapshot *now,
                           const struct http_request *request, struct http_answer *answer)
{
    const char *what = http_request_argument(request, "what");
    struct explain_query query;
    struct error err = {0};
    bool all;
    if (!http_answer_reads(request, answer))
        return;
    if (!what) {
        http_answer_text(answer, 400,
                         "?what= is missing: ADDRESS:PORT[/PROTOCOL] or "
                         "NAMESPACE/SERVICE[:PORT]\n");
    } else if (!read_all(request, &all)) {
        http_answer_text(answer, 400, "all: neither true nor false\n");
    } else if (http_request_argument_is_cut(request, "what")) {
        http_answer_text(answer, 400, "what: it contains a NUL\n");
    } else if (explain_query_parse(what, &query, &err)) {
        http_answer_text(answer, 400, "what: %s\n", err.text);
        error_clear(&err);
    } else {
        query.all = all;
        if (!now->complete)
            http_answer_text(answer, 503,
                             "not all Services and EndpointSlices are known yet: nothing is "
                             "decided, and the previous rules stay active\n");
        else if (clock_monotonic() < server->explain_after || server->explanations >= UNREAD_MOST)
            http_answer_busy(answer);
        else
            answer_query(server, &query, answer);
        explain_query_clear(&query);
    }
}

/* ---- addresses and their pages ---- */

static page_fn answer_statusz;

static const struct page {
    enum server_address address;
    const char *path;
    page_fn *answer;
    bool profiling; /* served only with --profiling */
} pages[] = {{ADDRESS_HEALTH, "/healthz", answer_health, false},
             {ADDRESS_HEALTH, "/livez", answer_liveness, false},
             {ADDRESS_HEALTH, "/readyz", answer_readiness, false},
             {ADDRESS_METRICS, "/configz", answer_configuration, false},
             {ADDRESS_METRICS, "/connections", answer_connections, false},
             {ADDRESS_METRICS, "/debug/flags/v", answer_verbosity, true},
             {ADDRESS_METRICS, "/explain", answer_explain, false},
             {ADDRESS_METRICS, "/flagz", answer_flags, false},
             {ADDRESS_METRICS, "/healthz", answer_healthz, false},
             {ADDRESS_METRICS, "/healthz/ping", answer_ping, false},
             {ADDRESS_METRICS, "/list", answer_list, false},
             {ADDRESS_METRICS, "/metrics", answer_metrics, false},
             {ADDRESS_METRICS, "/metrics/slis", answer_slis, false},
             {ADDRESS_METRICS, "/programmed", answer_programmed, false},
             {ADDRESS_METRICS, "/proxyMode", answer_mode, false},
             {ADDRESS_METRICS, "/status", answer_status, false},
             {ADDRESS_METRICS, "/statusz", answer_statusz, false}};

static const struct {
    uint16_t port; /* kube-proxy's */
    const char *serving;
    struct port_kind kind;
} addresses[] = {
    [ADDRESS_HEALTH] = {10256,
                        "/healthz and /livez",
                        {"health", KIND_NODE, "FailedToStartProxierHealthcheck", "StartKubeProxy",
                         "failed to start proxy healthz on ", ""}},
    [ADDRESS_METRICS] = {10249,
                         "/metrics and /proxyMode",
                         {"metrics", KIND_NODE, "FailedToStartMetricServer", "StartKubeProxy",
                          "starting metrics server on ", " failed"}}};

/* Returns the page that follows @page at @address; NULL: the first. */
static const struct page *next_page(const struct server *server, enum server_address address,
                                    const struct page *page)
{
    const struct page *end = pages + sizeof(pages) / sizeof(pages[0]);
    for (page = page ? page + 1 : pages; page < end; page++)
        if (page->address == address && (!page->profiling || server->config.options->profiling))
            return page;
    return NULL;
}

static void answer_statusz(struct server *server, const struct snapshot *now,
                           const struct http_request *request, struct http_answer *answer)
{
    char *status = status_text(now), *paths = xstrdup("");
    (void)request;
    for (const struct page *it = NULL; (it = next_page(server, ADDRESS_METRICS, it));) {
        char *before = paths;
        paths = xasprintf("%s %s", before, it->path);
        free(before);
    }
    http_answer_text(answer, 200, "kube-nftd statusz\n" FOR_PEOPLE "\n%s\nPaths:%s\n", status,
                     paths);
    free(status);
    free(paths);
}

static void answer_page(struct server *server, enum server_address address,
                        const struct http_request *request, struct http_answer *answer)
{
    struct snapshot now;
    for (const struct page *it = NULL; (it = next_page(server, address, it));) {
        if (strcmp(it->path, request->path) != 0)
            continue;
        server_read(server, &now);
        it->answer(server, &now, request, answer);
        return;
    }
    http_answer_text(answer, 404, "404 page not found\n");
}

static void answer_at_health(void *ctx, const struct http_request *request,
                             struct http_answer *answer)
{
    answer_page(ctx, ADDRESS_HEALTH, request, answer);
}

static void answer_at_metrics(void *ctx, const struct http_request *request,
                              struct http_answer *answer)
{
    answer_page(ctx, ADDRESS_METRICS, request, answer);
}

/* ---- the server ---- */

struct server *server_new(const struct server_config *config)
{
    struct server *server = xcalloc(1, sizeof(*server));
    server->config = *config;
    server->ports = ports_new(config->loop, config->events);
    server->health = health_new(server);
    return server;
}

void server_free(struct server *server)
{
    if (!server)
        return;
    for (int i = 0; i < ADDRESS_COUNT; i++)
        port_close(server->own[i]);
    health_free(server->health);
    ports_free(server->ports);
    free(server);
}

void server_read(const struct server *server, struct snapshot *now)
{
    *now = (struct snapshot){0};
    server->config.read(server->config.ctx, now);
    now->health_counts = server->counts;
}

int server_listen(struct server *server, enum server_address address, const char *bind,
                  struct error *err)
{
    const struct port_kind *kind = &addresses[address].kind;
    struct port **own = &server->own[address];
    struct listen_address where;
    if (listen_address_parse(bind, addresses[address].port, &where, err) < 0)
        return -1;
    port_close(*own);
    *own = port_open(server->ports, &where, kind, server->config.node_name,
                     address == ADDRESS_HEALTH ? answer_at_health : answer_at_metrics, server,
                     "address=%s", bind);
    if ((*own)->listener)
        log_info(kind->subsystem, "serving %s address=%s", addresses[address].serving, bind);
    return 0;
}

bool server_is_listening(const struct server *server, enum server_address address)
{
    return server->own[address]->listener != NULL;
}

struct health *server_health(struct server *server)
{
    return server->health;
}
