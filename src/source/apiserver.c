/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The client: which requests curl has, and whether the server is alive.
 *
 * Inside of curl's callbacks requests are only marked; apply_marks() adds and removes them after
 * curl has returned.
 */
#include "api_request.h"
#include "kube-nftd/base.h"
#include "request_stats.h"

#include <string.h>
#include <sys/utsname.h>
#include <utlist.h>

/* Timeout of a probe in seconds. A busy server may queue a request for 15 s before it answers. */
#define ANSWER_WITHIN 20.0
/* A missing answer to a probe is logged after this many seconds. */
#define DOUBT_AFTER 5.0

/* ---- all requests ---- */

static void request_begin(struct api_request *request)
{
    request->added = true;
    curl_loop_add(&request->apiserver->curl, request->easy);
}

/*
 * A request started while another one opens a connection waits to share it. If that connection
 * turns out to be HTTP/1.1, libcurl 8.14 keeps the request waiting until some transfer ends, which
 * a watch never does. Such a request has not even resolved the server's name.
 */
static bool is_stuck(const struct api_request *request)
{
    curl_off_t resolved = 0;
    if (!request->apiserver->http1 || request->alone || !request->added || request->connected)
        return false;
    curl_easy_getinfo(request->easy, CURLINFO_NAMELOOKUP_TIME_T, &resolved);
    return resolved == 0;
}

/* Adds and removes the requests that were marked while curl was running. */
static void apply_marks(void *ctx)
{
    struct apiserver *a = ctx;
    struct api_request *request, *next;
    DL_FOREACH_SAFE(a->requests, request, next)
    {
        if (request->cancelled) {
            api_request_free(request);
        } else if (is_stuck(request)) {
            curl_multi_remove_handle(a->curl.multi, request->easy);
            api_request_go_alone(request);
            request_begin(request);
        } else if (!request->added && !request->deferred) {
            request_begin(request);
        }
    }
}

static void on_ended(CURL *easy, CURLcode code)
{
    struct api_request *request = NULL;
    curl_easy_getinfo(easy, CURLINFO_PRIVATE, &request);
    api_request_finish(request, code);
}

/* Whether requests wait for a connection. Deferred ones may be added again. */
static bool on_nudged(void *ctx)
{
    struct apiserver *a = ctx;
    struct api_request *request;
    bool connecting = false;
    DL_FOREACH(a->requests, request)
    {
        connecting |= request->deferred || (request->added && !request->connected);
        request->deferred = false;
    }
    return connecting;
}

/* ---- liveness ---- */

/*
 * A server may be dead although TCP is alive: a load balancer keeps acknowledging, or the process
 * hangs (docs/behaviour.md 10.5). libcurl 7.88 cannot send HTTP/2 PINGs here. So if the server is
 * silent while answers are open, its version is requested over the same connection; any answer
 * counts. Without one, the error is logged soon, then all connections are cut and watches continue
 * over new ones.
 */

static void next_check(struct apiserver *a, double seconds)
{
    ev_timer_stop(a->curl.loop, &a->liveness);
    ev_timer_set(&a->liveness, seconds, 0.);
    ev_timer_start(a->curl.loop, &a->liveness);
}

/* A byte on any request proves the server alive. */
static bool is_unanswered(const struct apiserver *a)
{
    return a->heard_at < a->probed_at;
}

static void on_version(void *ctx, const struct api_status *status)
{
    struct apiserver *a = ctx;
    (void)status;
    a->probe = NULL;
    if (is_unanswered(a)) {
        log_warn("source",
                 "the server has sent nothing for %.0f s and does not answer: "
                 "reconnecting now server=%s",
                 apiserver_silence(a), a->config->server);
        curl_loop_cut(&a->curl);
    }
    next_check(a, APISERVER_SILENCE);
}

/* Probes the server if it was silent for too long while an answer (usually a watch) is open. */
static void on_liveness(struct ev_loop *loop, struct ev_timer *timer, int events)
{
    static const struct api_request_ops ops = {.done = on_version};
    struct apiserver *a = timer->data;
    struct api_request *request;
    struct error err = {0};
    double silent = apiserver_silence(a);
    bool open = false;
    (void)loop;
    (void)events;
    if (a->probe) {
        if (is_unanswered(a)) /* on_version() continues */
            log_warn("source",
                     "the server has sent nothing for %.0f s and does not answer; reconnecting in "
                     "%.0f s server=%s",
                     silent, ANSWER_WITHIN - DOUBT_AFTER, a->config->server);
        return;
    }
    DL_FOREACH(a->requests, request)
    {
        open |= request->opened && !request->cancelled;
    }
    if (silent >= APISERVER_SILENCE && open) {
        a->probed_at = clock_monotonic();
        a->probe = apiserver_send(a, "/version", NULL, ANSWER_WITHIN, &ops, a, &err);
        error_clear(&err); /* no credentials: other requests log that */
    }
    if (a->probe)
        next_check(a, DOUBT_AFTER);
    else
        next_check(a, silent < APISERVER_SILENCE ? APISERVER_SILENCE - silent : APISERVER_SILENCE);
}

/* ---- public ---- */

struct apiserver *apiserver_new(struct ev_loop *loop, const struct client_config *config,
                                struct error *err)
{
    struct utsname host = {0};
    uname(&host);
    struct apiserver *a = xcalloc(1, sizeof(*a));
    a->config = config;
    a->heard_at = clock_monotonic();
    a->user_agent = xasprintf("kube-nftd/" KUBE_NFTD_VERSION " (linux/%s)", host.machine);
    credential_init(&a->token, CREDENTIAL_TOKEN, "token", config->token, config->token_file);
    curl_loop_init(&a->curl, loop, &(struct curl_loop_ops){apply_marks, on_ended, on_nudged, a});
    ev_init(&a->liveness, on_liveness);
    /* Runs after pending input: a pause of the daemon is not silence of the server. */
    ev_set_priority(&a->liveness, EV_MINPRI);
    a->liveness.data = a;
    if (api_connection_init(&a->connection, config, err) < 0) {
        apiserver_free(a);
        return NULL;
    }
    a->stats.host = a->connection.authority;
    if (!a->connection.secure && (config->token || config->token_file))
        log_warn("source", "the token is not sent over plain http server=%s", config->server);
    next_check(a, APISERVER_SILENCE);
    return a;
}

void apiserver_free(struct apiserver *a)
{
    struct api_request *request, *next;
    if (!a)
        return;
    DL_FOREACH_SAFE(a->requests, request, next) api_request_free(request);
    curl_loop_clear(&a->curl);
    ev_timer_stop(a->curl.loop, &a->liveness);
    api_connection_clear(&a->connection);
    credential_clear(&a->token);
    request_stats_clear(&a->stats);
    free(a->user_agent);
    free(a);
}

struct api_request *apiserver_send(struct apiserver *a, const char *path,
                                   const struct api_write *write, double timeout,
                                   const struct api_request_ops *ops, void *ctx, struct error *err)
{
    struct api_request *request = api_request_new(a, path, write, timeout, err);
    if (!request)
        return NULL;
    request->ops = *ops;
    request->ctx = ctx;
    DL_APPEND(a->requests, request);
    log_debug(4, "source", "%s %s%s", request->method, a->connection.base, path);
    if (!a->curl.inside)
        request_begin(request);
    return request;
}

const struct request_stats *apiserver_request_stats(const struct apiserver *a)
{
    return &a->stats;
}

void apiserver_watch_peers(struct apiserver *a, const struct api_peers_ops *ops)
{
    a->connection.peers.ops = *ops;
}

void apiserver_cancel(struct api_request *request)
{
    api_request_count(request, 0);
    if (request->apiserver->curl.inside)
        request->cancelled = true;
    else
        api_request_free(request);
}

double apiserver_silence(const struct apiserver *a)
{
    return clock_monotonic() - a->heard_at;
}
