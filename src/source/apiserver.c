/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * libcurl's multi interface on libev: curl requests descriptors and a timeout (on_socket,
 * on_timeout), libev reports when they are due, and curl_multi_socket_action() does the work. Only
 * this file and api_connection.c know curl.
 *
 * curl forbids adding and removing transfers inside its own callbacks. There (in_curl) requests are
 * only marked; apply_marks() adds and removes them after curl has returned. done is also called
 * outside of curl, after the request was freed.
 */
#include "kube-nftd/source.h"

#include "api_connection.h"
#include "api_protocol.h"
#include "kube-nftd/base.h"
#include "read_budget.h"
#include "server_backoff.h"

#include <curl/curl.h>
#include <ev.h>
#include <math.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/utsname.h>
#include <utlist.h>

/* Bytes kept of an error's body. */
#define BODY_LIMIT 8192

/* Seconds between two nudges while a connection is being made: first interval, growth, maximum. */
#define NUDGE_INTERVAL 0.02
#define NUDGE_GROWTH 1.25
#define NUDGE_MOST 1.0

/* More than so many wake-ups in a row that bring only contents are a flood. */
#define FLOOD 8
/* Seconds to wait: many events at thousands per second. */
#define GATHER 0.01
/* This many bytes at once are worth their own wake-up. Waiting would stall the server with its
 * window full. */
#define MUCH 65536

/* Maximum resends of a request that hit a dead connection. */
#define RESENDS 3

/* Timeout of a probe in seconds. A busy server may queue a request for 15 s before it answers. */
#define ANSWER_WITHIN 20.0
/* A missing answer to a probe is logged after this many seconds. */
#define DOUBT_AFTER 5.0

struct apiserver {
    struct ev_loop *loop;
    CURLM *multi;
    struct ev_timer timer;
    struct ev_timer nudge;
    struct ev_timer liveness;
    struct api_request *requests;
    struct socket_watch *watches;
    const struct client_config *config;
    struct credential token;
    struct api_connection connection;
    struct server_backoff backoff;
    struct request_stats stats;
    char *user_agent;
    struct gathering gathering;
    double heard_at;           /* the last byte of any answer; initially startup */
    struct api_request *probe; /* the open liveness probe, or NULL */
    double probed_at;
    bool http1; /* the last answer used a connection that cannot be shared */
    bool in_curl;
    bool due; /* curl requested an immediate call */
};

struct api_request {
    struct api_request *prev, *next;
    struct apiserver *apiserver;
    struct api_request_ops ops;
    void *ctx;
    CURL *easy;
    struct curl_slist *headers;
    char error[CURL_ERROR_SIZE];
    VEC(char) body;
    bool added;    /* added to curl's multi handle */
    bool deferred; /* to be added again at the next nudge */
    unsigned resends;
    bool cancelled; /* done must not be called */
    bool connected; /* it has a connection */
    bool alone;     /* it does not wait to share a connection */
    bool opened;
    bool counted; /* in stats.counts */
    bool timed;   /* not a watch */
    const char *method;
    double begun_at;
    bool stopped; /* ended before the body's end */
};

/* A descriptor that curl polls. */
struct socket_watch {
    struct ev_io io; /* first: see on_ready() */
    struct socket_watch *prev, *next;
    struct apiserver *apiserver;
};

static long status_of(const struct api_request *request)
{
    long status = 0;
    curl_easy_getinfo(request->easy, CURLINFO_RESPONSE_CODE, &status);
    return status;
}

/* ---- metrics ---- */

/* As in client-go. */
static const struct histogram_buckets request_buckets = {
    .n = 12, .bounds = {0.005, 0.025, 0.1, 0.25, 0.5, 1, 2, 4, 8, 15, 30, 60}};

/* Counts an answer with @status, 0 for none. */
static void count_answer(struct api_request *request, long status)
{
    struct request_stats *stats = &request->apiserver->stats;
    if (request->counted)
        return;
    request->counted = true;
    vec_each (&stats->counts, it) {
        if (it->status == status && strcmp(it->method, request->method) == 0) {
            it->count++;
            return;
        }
    }
    vec_push(&stats->counts, (struct request_count){request->method, status, 1});
}

static void count_time(struct api_request *request)
{
    struct request_stats *stats = &request->apiserver->stats;
    double seconds = clock_monotonic() - request->begun_at;
    vec_each (&stats->times, it) {
        if (strcmp(it->method, request->method) == 0) {
            histogram_add(&it->seconds, seconds);
            return;
        }
    }
    struct request_times times = {.method = request->method, .seconds.buckets = &request_buckets};
    histogram_add(&times.seconds, seconds);
    vec_push(&stats->times, times);
}

/* ---- one transfer ---- */

/* Called for each header line; an empty line ends them. */
static size_t on_header(char *line, size_t size, size_t n, void *ctx)
{
    struct api_request *request = ctx;
    long status = status_of(request), version = CURL_HTTP_VERSION_NONE;
    const char *type = NULL;
    request->apiserver->heard_at = clock_monotonic();
    bool end = size * n > 0 && (line[0] == '\r' || line[0] == '\n');
    if (!end || status < 200) /* 1xx is not the answer yet */
        return size * n;
    count_answer(request, status);
    server_backoff_answered(&request->apiserver->backoff);
    curl_easy_getinfo(request->easy, CURLINFO_HTTP_VERSION, &version);
    curl_easy_getinfo(request->easy, CURLINFO_CONTENT_TYPE, &type);
    request->apiserver->http1 =
        version == CURL_HTTP_VERSION_1_0 || version == CURL_HTTP_VERSION_1_1;
    if (status == 200 && !request->opened && !request->cancelled) {
        request->opened = true;
        if (request->ops.opened)
            request->ops.opened(request->ctx, encoding_of(type));
    }
    return size * n;
}

static int on_connected(void *ctx, char *local, char *remote, int local_port, int remote_port)
{
    struct api_request *request = ctx;
    (void)local;
    (void)local_port;
    request->connected = true;
    api_peers_use(&request->apiserver->connection.peers, remote, remote_port, true,
                  clock_monotonic());
    return CURL_PREREQFUNC_OK;
}

static size_t on_body(char *bytes, size_t size, size_t n, void *ctx)
{
    struct api_request *request = ctx;
    struct gathering *gathering = &request->apiserver->gathering;
    size_t length = size * n;
    request->apiserver->heard_at = clock_monotonic();
    if (request->cancelled)
        return 0;
    if (status_of(request) == 200) {
        int more = request->ops.data ? request->ops.data(request->ctx, bytes, length) : 0;
        *(more > 0 ? &gathering->contents : &gathering->others) += length;
        request->stopped = more < 0;
        return request->stopped || request->cancelled ? 0 : length;
    }
    size_t room = BODY_LIMIT - request->body.n;
    vec_append(&request->body, bytes, room < length ? room : length);
    request->stopped = room < length; /* the rest adds nothing */
    return request->stopped ? 0 : length;
}

/* Takes @line and wipes it, as it may contain the token. */
static void add_header(struct api_request *request, char *line)
{
    struct curl_slist *list = alloc_check(curl_slist_append(request->headers, line));
    request->headers = list;
    explicit_bzero(line, strlen(line));
    free(line);
}

static int set_headers(struct api_request *request, const struct api_write *write,
                       struct error *err)
{
    struct apiserver *a = request->apiserver;
    const char *token = NULL, *accept = a->config->accept;
    if (a->connection.secure && credential_get(&a->token, &token, err) < 0)
        return -1;
    add_header(request, xasprintf("Accept: %s", accept ? accept : "application/json"));
    if (write)
        add_header(request, xasprintf("Content-Type: %s", write->content_type));
    if (a->connection.connect_to)
        add_header(request, xasprintf("Host: %s", a->connection.authority));
    if (token)
        add_header(request, xasprintf("Authorization: Bearer %s", token));
    return 0;
}

static int set_options(struct api_request *request, const char *path, const struct api_write *write,
                       double timeout, struct error *err)
{
    struct apiserver *a = request->apiserver;
    CURL *easy = request->easy;
    CURLcode code = CURLE_OK;
    char *url = xasprintf("%s%s", a->connection.base, path);
    CURL_SET(code, easy, CURLOPT_URL, url);
    free(url);
    /* An object named ".." must not lead elsewhere. */
    CURL_SET(code, easy, CURLOPT_PATH_AS_IS, 1L);
    CURL_SET(code, easy, CURLOPT_HTTPHEADER, request->headers);
    CURL_SET(code, easy, CURLOPT_USERAGENT, a->user_agent);
    /* The server compresses long lists, but never watches. */
    CURL_SET(code, easy, CURLOPT_ACCEPT_ENCODING, a->config->disable_compression ? NULL : "gzip");
    CURL_SET(code, easy, CURLOPT_TIMEOUT_MS, (long)(timeout * 1000));
    CURL_SET(code, easy, CURLOPT_PREREQFUNCTION, on_connected);
    CURL_SET(code, easy, CURLOPT_PREREQDATA, request);
    CURL_SET(code, easy, CURLOPT_HEADERFUNCTION, on_header);
    CURL_SET(code, easy, CURLOPT_HEADERDATA, request);
    CURL_SET(code, easy, CURLOPT_WRITEFUNCTION, on_body);
    CURL_SET(code, easy, CURLOPT_WRITEDATA, request);
    CURL_SET(code, easy, CURLOPT_PRIVATE, request);
    CURL_SET(code, easy, CURLOPT_ERRORBUFFER, request->error);
    if (write) {
        CURL_SET(code, easy, CURLOPT_CUSTOMREQUEST, write->method);
        CURL_SET(code, easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)strlen(write->body));
        CURL_SET(code, easy, CURLOPT_COPYPOSTFIELDS, write->body);
    }
    if (code)
        return error_set(err, "cannot prepare a request: %s", curl_easy_strerror(code));
    return api_connection_apply(&a->connection, easy, err);
}

static void request_free(struct api_request *request)
{
    if (request->added)
        curl_multi_remove_handle(request->apiserver->multi, request->easy);
    if (request->prev) /* it is linked */
        DL_DELETE(request->apiserver->requests, request);
    curl_easy_cleanup(request->easy);
    curl_slist_free_all(request->headers);
    vec_free(&request->body);
    free(request);
}

/*
 * Whether @request was put on a dying connection and never reached the server. When a connection is
 * cut, its streams end one after the other; a request sent after the first one ended gets the same
 * connection from curl, because other streams still use it. A stream reset by the server is
 * different: that is the server's answer (curl's text then has its code).
 */
static bool never_reached_server(const struct api_request *request, CURLcode code)
{
    long made = 0;
    curl_easy_getinfo(request->easy, CURLINFO_NUM_CONNECTS, &made);
    bool cut = code == CURLE_HTTP2 || code == CURLE_HTTP2_STREAM || code == CURLE_GOT_NOTHING ||
               code == CURLE_SEND_ERROR || code == CURLE_RECV_ERROR || code == CURLE_PARTIAL_FILE;
    bool reset = strstr(request->error, "was not closed cleanly: ") != NULL;
    return cut && !reset && made == 0 && status_of(request) == 0 && request->resends < RESENDS;
}

/* What all requests know of the server after this one ended with @code. */
static void note_server(const struct api_request *request, CURLcode code, struct api_status *status)
{
    struct server_backoff *backoff = &request->apiserver->backoff;
    double now = clock_monotonic();
    if (status->code == 0)
        status->wait = server_backoff_no_answer(backoff, now, retry_spread());
    else if (code != CURLE_OK && !request->stopped)
        server_backoff_interrupted(backoff, now);
    status->starting = server_backoff_is_starting(backoff, now);
}

/* Starts the nudge timer for connections being made, see on_nudge(). */
static void start_nudging(struct apiserver *a)
{
    a->nudge.repeat = NUDGE_INTERVAL;
    ev_timer_again(a->loop, &a->nudge);
}

/* curl is done with @request, which was not cancelled: resend it, or free it and call done. */
static void request_finish(struct api_request *request, CURLcode code)
{
    struct apiserver *a = request->apiserver;
    if (never_reached_server(request, code)) {
        log_debug(4, "source", "a request is sent again: %s", request->error);
        curl_multi_remove_handle(a->multi, request->easy);
        request->added = request->connected = false;
        request->error[0] = '\0';
        request->deferred = true;
        request->resends++;
        start_nudging(a);
        return;
    }
    count_answer(request, 0);
    if (request->timed)
        count_time(request);
    if (code != CURLE_OK && !request->connected)
        api_peers_failed(&a->connection.peers);
    char *transport = NULL;
    if (request->stopped)
        transport = xstrdup("the response is unusable");
    else if (code != CURLE_OK)
        transport = api_connection_error(&a->connection, request->easy, code, request->error,
                                         request->connected);
    curl_off_t retry_after = 0;
    struct api_status status;
    curl_easy_getinfo(request->easy, CURLINFO_RETRY_AFTER, &retry_after);
    vec_push(&request->body, '\0');
    api_status_from_answer(status_of(request), request->body.v, request->body.n - 1,
                           retry_after > 0 ? (double)retry_after : -1, &status);
    status.transport = transport;
    note_server(request, code, &status);
    log_debug(4, "source", "answer status=%ld transport=\"%s\"", status.code,
              transport ? transport : "");
    struct api_request_ops ops = request->ops;
    void *ctx = request->ctx;
    request_free(request);
    ops.done(ctx, &status);
    api_status_clear(&status);
    free(transport);
}

/* ---- curl on the loop ---- */

static void request_begin(struct api_request *request)
{
    request->added = true;
    if (curl_multi_add_handle(request->apiserver->multi, request->easy))
        alloc_failed(); /* no other error is possible */
    start_nudging(request->apiserver);
}

static void disable_pipewait(struct api_request *request)
{
    request->alone = true;
    curl_easy_setopt(request->easy, CURLOPT_PIPEWAIT, 0L);
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
static void apply_marks(struct apiserver *a)
{
    struct api_request *request, *next;
    DL_FOREACH_SAFE(a->requests, request, next)
    {
        if (request->cancelled) {
            request_free(request);
        } else if (is_stuck(request)) {
            curl_multi_remove_handle(a->multi, request->easy);
            disable_pipewait(request);
            request_begin(request);
        } else if (!request->added && !request->deferred) {
            request_begin(request);
        }
    }
}

/* Completes a call of curl that returned @code. */
static void act_on_results(struct apiserver *a, CURLMcode code)
{
    int left;
    read_budget_end();
    a->in_curl = false;
    if (code)
        log_error("source", "libcurl: %s", curl_multi_strerror(code));
    apply_marks(a);
    CURLMsg *message;
    while ((message = curl_multi_info_read(a->multi, &left)) != NULL) {
        struct api_request *request = NULL;
        if (message->msg != CURLMSG_DONE)
            continue;
        curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &request);
        request_finish(request, message->data.result);
    }
}

/* Before libcurl is called; act_on_results() is called after it. */
static void enter_libcurl(struct apiserver *a)
{
    a->in_curl = true;
    read_budget_begin();
}

static void act(struct apiserver *a, curl_socket_t fd, int events)
{
    int left;
    a->due = false;
    enter_libcurl(a);
    act_on_results(a, curl_multi_socket_action(a->multi, fd, events, &left));
}

/*
 * When an address refuses the connection, curl 7.88.1 decides to try the next one but waits for
 * another event on the transfer: it sets no timer, and no descriptor is left to poll. That would
 * cost half of the connect timeout. curl_multi_socket_all() checks every transfer; its replacement,
 * curl_multi_socket_action(), checks only those that are due.
 */
static void on_nudge(struct ev_loop *loop, struct ev_timer *timer, int events)
{
    struct apiserver *a = timer->data;
    struct api_request *request;
    bool connecting = false;
    int left;
    (void)events;
    DL_FOREACH(a->requests, request)
    {
        connecting |= request->deferred || (request->added && !request->connected);
        request->deferred = false;
    }
    if (!connecting) {
        ev_timer_stop(loop, timer);
        return;
    }
    timer->repeat = fmin(timer->repeat * NUDGE_GROWTH, NUDGE_MOST);
    ev_timer_again(loop, timer);
    enter_libcurl(a);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
    act_on_results(a, curl_multi_socket_all(a->multi, &left));
#pragma GCC diagnostic pop
}

double gathering_woken(struct gathering *g)
{
    bool wait = g->others == 0 && g->contents > 0 && g->contents < MUCH && g->wakes >= FLOOD;
    g->wakes = g->others > 0 ? 0 : g->wakes + (g->contents > 0);
    g->contents = g->others = 0;
    return wait ? GATHER : 0;
}

static void on_ready(struct ev_loop *loop, struct ev_io *io, int events)
{
    struct socket_watch *watch = (struct socket_watch *)(void *)io;
    struct apiserver *a = watch->apiserver;
    (void)loop;
    int mask =
        (events & EV_READ ? CURL_CSELECT_IN : 0) | (events & EV_WRITE ? CURL_CSELECT_OUT : 0);
    act(a, io->fd, mask); /* may free the watch */
    /* Data read by one request for another waits in curl for the loop's next iteration. Run curl
     * again, but only once so that others are served too; the timer is still set. */
    if (a->due)
        act(a, CURL_SOCKET_TIMEOUT, 0);
    /* Delays the whole loop, not only the socket: timers keep running, and curl needs no notice. */
    ev_set_io_collect_interval(a->loop, gathering_woken(&a->gathering));
}

static void on_due(struct ev_loop *loop, struct ev_timer *timer, int events)
{
    (void)loop;
    (void)events;
    act(timer->data, CURL_SOCKET_TIMEOUT, 0);
}

static int on_socket(CURL *easy, curl_socket_t fd, int what, void *ctx, void *socket_ctx)
{
    struct apiserver *a = ctx;
    struct socket_watch *watch = socket_ctx;
    (void)easy;
    if (watch)
        ev_io_stop(a->loop, &watch->io);
    if (what == CURL_POLL_REMOVE) {
        if (watch)
            DL_DELETE(a->watches, watch);
        free(watch);
        curl_multi_assign(a->multi, fd, NULL);
        return 0;
    }
    if (!watch) {
        watch = xcalloc(1, sizeof(*watch));
        watch->apiserver = a;
        DL_APPEND(a->watches, watch);
        curl_multi_assign(a->multi, fd, watch);
    }
    int events = (what & CURL_POLL_IN ? EV_READ : 0) | (what & CURL_POLL_OUT ? EV_WRITE : 0);
    ev_io_init(&watch->io, on_ready, fd, events);
    ev_io_start(a->loop, &watch->io);
    return 0;
}

static int on_timeout(CURLM *multi, long milliseconds, void *ctx)
{
    struct apiserver *a = ctx;
    (void)multi;
    a->due = milliseconds == 0;
    ev_timer_stop(a->loop, &a->timer);
    if (milliseconds >= 0) {
        ev_timer_set(&a->timer, (double)milliseconds / 1000, 0.);
        ev_timer_start(a->loop, &a->timer);
    }
    return 0;
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
    ev_timer_stop(a->loop, &a->liveness);
    ev_timer_set(&a->liveness, seconds, 0.);
    ev_timer_start(a->loop, &a->liveness);
}

/* A byte on any request proves the server alive. */
static bool is_unanswered(const struct apiserver *a)
{
    return a->heard_at < a->probed_at;
}

/* Ends all open requests with a network error. */
static void cut_connections(struct apiserver *a)
{
    struct socket_watch *watch;
    DL_FOREACH(a->watches, watch)
    {
        /* Spare the socket pair of curl's resolver thread. */
        int domain = AF_UNIX;
        socklen_t size = sizeof(domain);
        getsockopt(watch->io.fd, SOL_SOCKET, SO_DOMAIN, &domain, &size);
        if (domain != AF_UNIX)
            shutdown(watch->io.fd, SHUT_RDWR);
    }
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
        cut_connections(a);
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
    if (curl_global_init(CURL_GLOBAL_DEFAULT))
        alloc_failed();
    struct apiserver *a = xcalloc(1, sizeof(*a));
    a->loop = loop;
    a->config = config;
    a->heard_at = clock_monotonic();
    a->user_agent = xasprintf("kube-nftd/" KUBE_NFTD_VERSION " (linux/%s)", host.machine);
    credential_init(&a->token, CREDENTIAL_TOKEN, "token", config->token, config->token_file);
    ev_init(&a->timer, on_due);
    a->timer.data = a;
    ev_timer_init(&a->nudge, on_nudge, 0., NUDGE_INTERVAL);
    ev_init(&a->liveness, on_liveness);
    /* Runs after pending input: a pause of the daemon is not silence of the server. */
    ev_set_priority(&a->liveness, EV_MINPRI);
    a->nudge.data = a->liveness.data = a;
    a->multi = alloc_check(curl_multi_init());
    curl_multi_setopt(a->multi, CURLMOPT_SOCKETFUNCTION, on_socket);
    curl_multi_setopt(a->multi, CURLMOPT_SOCKETDATA, a);
    curl_multi_setopt(a->multi, CURLMOPT_TIMERFUNCTION, on_timeout);
    curl_multi_setopt(a->multi, CURLMOPT_TIMERDATA, a);
    curl_multi_setopt(a->multi, CURLMOPT_PIPELINING, CURLPIPE_MULTIPLEX);
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
    DL_FOREACH_SAFE(a->requests, request, next) request_free(request);
    curl_multi_cleanup(a->multi);
    ev_timer_stop(a->loop, &a->timer);
    ev_timer_stop(a->loop, &a->nudge);
    ev_timer_stop(a->loop, &a->liveness);
    ev_set_io_collect_interval(a->loop, 0.);
    api_connection_clear(&a->connection);
    credential_clear(&a->token);
    vec_free(&a->stats.counts);
    vec_free(&a->stats.times);
    free(a->user_agent);
    free(a);
    curl_global_cleanup();
}

struct api_request *apiserver_send(struct apiserver *a, const char *path,
                                   const struct api_write *write, double timeout,
                                   const struct api_request_ops *ops, void *ctx, struct error *err)
{
    struct api_request *request = xcalloc(1, sizeof(*request));
    request->apiserver = a;
    request->ops = *ops;
    request->ctx = ctx;
    request->method = write ? write->method : "GET";
    request->timed = !strstr(path, "watch=true");
    request->begun_at = clock_monotonic();
    request->easy = alloc_check(curl_easy_init());
    if (set_headers(request, write, err) < 0 ||
        set_options(request, path, write, timeout, err) < 0) {
        request_free(request);
        return NULL;
    }
    if (a->http1)
        disable_pipewait(request);
    DL_APPEND(a->requests, request);
    log_debug(4, "source", "%s %s%s", request->method, a->connection.base, path);
    if (!a->in_curl)
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
    count_answer(request, 0);
    if (request->apiserver->in_curl)
        request->cancelled = true;
    else
        request_free(request);
}

double apiserver_silence(const struct apiserver *a)
{
    return clock_monotonic() - a->heard_at;
}
