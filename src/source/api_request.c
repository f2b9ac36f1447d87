/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "api_request.h"

#include "api_protocol.h"
#include "kube-nftd/base.h"
#include "request_stats.h"

#include <string.h>
#include <utlist.h>

/* Bytes kept of an error's body. */
#define BODY_LIMIT 8192

/* Maximum resends of a request that hit a dead connection. */
#define RESENDS 3

static long status_of(const struct api_request *request)
{
    long status = 0;
    curl_easy_getinfo(request->easy, CURLINFO_RESPONSE_CODE, &status);
    return status;
}

void api_request_count(struct api_request *request, long status)
{
    if (!request->counted)
        request_stats_count(&request->apiserver->stats, request->method, status);
    request->counted = true;
}

/* ---- what curl reports ---- */

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
    api_request_count(request, status);
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
    struct gathering *gathering = &request->apiserver->curl.gathering;
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

/* ---- options ---- */

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

void api_request_go_alone(struct api_request *request)
{
    request->alone = true;
    curl_easy_setopt(request->easy, CURLOPT_PIPEWAIT, 0L);
}

struct api_request *api_request_new(struct apiserver *a, const char *path,
                                    const struct api_write *write, double timeout,
                                    struct error *err)
{
    struct api_request *request = xcalloc(1, sizeof(*request));
    request->apiserver = a;
    request->method = write ? write->method : "GET";
    request->timed = !strstr(path, "watch=true");
    request->begun_at = clock_monotonic();
    request->easy = alloc_check(curl_easy_init());
    if (set_headers(request, write, err) < 0 ||
        set_options(request, path, write, timeout, err) < 0) {
        api_request_free(request);
        return NULL;
    }
    if (a->http1)
        api_request_go_alone(request);
    return request;
}

void api_request_free(struct api_request *request)
{
    if (request->added)
        curl_multi_remove_handle(request->apiserver->curl.multi, request->easy);
    if (request->prev) /* it is linked */
        DL_DELETE(request->apiserver->requests, request);
    curl_easy_cleanup(request->easy);
    curl_slist_free_all(request->headers);
    vec_free(&request->body);
    free(request);
}

/* ---- the end ---- */

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

void api_request_finish(struct api_request *request, CURLcode code)
{
    struct apiserver *a = request->apiserver;
    if (never_reached_server(request, code)) {
        log_debug(4, "source", "a request is sent again: %s", request->error);
        curl_multi_remove_handle(a->curl.multi, request->easy);
        request->added = request->connected = false;
        request->error[0] = '\0';
        request->deferred = true;
        request->resends++;
        curl_loop_nudge(&a->curl);
        return;
    }
    api_request_count(request, 0);
    if (request->timed)
        request_stats_time(&a->stats, request->method, clock_monotonic() - request->begun_at);
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
    api_request_free(request);
    ops.done(ctx, &status);
    api_status_clear(&status);
    free(transport);
}
