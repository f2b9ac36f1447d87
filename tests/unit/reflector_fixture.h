/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The reflector against a scripted server: this file defines the functions of apiserver.h itself,
 * and the clock and the loop are fake_clock.h's, so that the test plays server and time. What the
 * server sends is written in JSON and comes in both encodings.
 */
#ifndef KUBE_NFTD_TESTS_REFLECTOR_FIXTURE_H
#define KUBE_NFTD_TESTS_REFLECTOR_FIXTURE_H

#include "fake_clock.h"
#include "kube-nftd/base/vec.h"
#include "kube-nftd/source/reflector.h"
#include "proto_writer.h"
#include "unit.h"

#include <ev.h>
#include <stdio.h>
#include <string.h>

/* ---------------------------------------------------------- fake server */

struct apiserver {
    const char *fault; /* why no request can be started, or NULL */
};

struct api_request {
    char *path;
    double timeout;
    struct api_request_ops ops;
    void *ctx;
};

static struct apiserver server;
static struct api_request *request; /* the one that is open */

struct apiserver *apiserver_new(struct ev_loop *loop, const struct client_config *config,
                                struct error *err)
{
    return &server;
}

void apiserver_free(struct apiserver *apiserver)
{
}

struct api_request *apiserver_send(struct apiserver *apiserver, const char *path,
                                   const struct api_write *write, double timeout,
                                   const struct api_request_ops *ops, void *ctx, struct error *err)
{
    ck_assert_ptr_eq(apiserver, &server);
    ck_assert_ptr_null(request);
    if (server.fault) {
        error_set(err, "%s", server.fault);
        return NULL;
    }
    request = xcalloc(1, sizeof(*request));
    *request = (struct api_request){xstrdup(path), timeout, *ops, ctx};
    return request;
}

void apiserver_cancel(struct api_request *open)
{
    ck_assert_ptr_eq(open, request);
    free(open->path);
    free(open);
    request = NULL;
}

/* ------------------------------------------------------------- encodings */

static enum encoding encoding; /* of what the server sends */

/* The object of an event; what does not say its kind is a Service. */
static inline void put_object(bytes *out, cJSON *object)
{
    if (!cJSON_GetObjectItem(object, "kind")) {
        cJSON_AddStringToObject(object, "kind", "Service");
        cJSON_AddStringToObject(object, "apiVersion", "v1");
    }
    put_body(out, object);
}

static inline void put_encoded(bytes *out, cJSON *json)
{
    cJSON *object = cJSON_GetObjectItem(json, "object");
    bytes body = {0};
    if (object) {
        put_object(&body, object);
        put_frame(out, text_of(json, "type"), &body);
    } else {
        put_body(out, json);
    }
    cJSON_Delete(json);
}

/* Events, a list or a Status in the present encoding; what is no such JSON comes as it is. */
static inline bytes encoded(const char *text)
{
    bytes out = {0};
    while (encoding == ENCODING_PROTOBUF && *text == '{') {
        const char *end;
        cJSON *json = cJSON_ParseWithOpts(text, &end, false);
        if (!json)
            break;
        put_encoded(&out, json);
        text = end + strspn(end, "\n");
    }
    put(&out, text, strlen(text));
    return out;
}

/* ---------------------------------------------------------- the server's part */

/* Ends the open request the way apiserver.c does: it is gone when done is called. */
static inline void answer_after(long status, double retry_after, const char *transport,
                                const char *body)
{
    ck_assert_ptr_nonnull(request);
    struct api_request_ops ops = request->ops;
    void *ctx = request->ctx;
    bytes sent = encoded(body);
    sent.v[sent.n] = '\0';
    struct api_result result = {status, retry_after, transport, sent.n};
    apiserver_cancel(request);
    ops.done(ctx, &result, sent.v);
    vec_free(&sent);
}

static inline void answer(long status, const char *transport, const char *body)
{
    answer_after(status, -1, transport, body);
}

static inline void open_answer(void)
{
    ck_assert_ptr_nonnull(request);
    request->ops.opened(request->ctx, encoding);
}

/* Hands over bytes of a 200 answer; a reader that wants no more has its request ended. */
static inline void send_bytes(const char *data, size_t length)
{
    ck_assert_ptr_nonnull(request);
    if (request->ops.data(request->ctx, data, length) < 0)
        answer(200, "stopped", "");
}

/* The bytes of @text are cut into so many @pieces; sends those from @begin to before @end. */
static inline void send_pieces(const char *text, size_t begin, size_t end, size_t pieces)
{
    bytes all = encoded(text);
    begin = all.n * begin / pieces;
    send_bytes(all.v + begin, all.n * end / pieces - begin);
    vec_free(&all);
}

static inline void send_text(const char *text)
{
    send_pieces(text, 0, 1, 1);
}

/* A whole answer with a list, to its clean end. */
static inline void answer_list(const char *text)
{
    open_answer();
    send_text(text);
    if (request)
        answer(200, NULL, "");
}

/* ----------------------------------------------------------- fake clock */

/* Lets the time come that is waited for; it must be from @low to @high seconds away. */
static inline void pass_time(double low, double high)
{
    ck_assert_ptr_nonnull(timer);
    ck_assert_msg(timer->at >= low && timer->at <= high, "waits for %g s, not %g to %g", timer->at,
                  low, high);
    struct ev_timer *due = timer;
    timer = NULL;
    due->cb(NULL, due, EV_TIMER);
}

/* The same, between two requests. */
static inline void back_off(double low, double high)
{
    ck_assert_ptr_null(request);
    pass_time(low, high);
}

/* --------------------------------------------------- what the test sees */

static char *seen; /* what the sink was told */
static char *said; /* warnings and infos; with log_set_verbosity() debug lines too */

static inline void append(char **text, const char *format, const char *a, const char *b)
{
    char *more = xasprintf(format, a, b);
    char *all = xasprintf("%s%s", *text, more);
    free(more);
    free(*text);
    *text = all;
}

static void on_replace(void *ctx, enum object_kind kind, object_vec *objects)
{
    append(&seen, "%s %s:", "replace", object_kind_name(kind));
    vec_each (objects, object)
        append(&seen, " %s%s", object->id, object->payload ? "" : "?");
    append(&seen, "%s%s", "\n", "");
    object_vec_clear(objects);
}

static void on_put(void *ctx, struct object *object)
{
    append(&seen, "put %s%s\n", object->id, object->payload ? "" : "?");
    object_clear(object);
}

static void on_remove(void *ctx, enum object_kind kind, const char *id)
{
    append(&seen, "remove %s %s\n", object_kind_name(kind), id);
}

static const struct object_sink sink = {.replace = on_replace, .put = on_put, .remove = on_remove};

static void on_log(void *ctx, enum log_level level, const char *line)
{
    static const char *const names[] = {"error", "warn", "info", "debug"};
    const char *text = strstr(line, "reflector: ");
    ck_assert_ptr_nonnull(text);
    append(&said, "%s: %s\n", names[level], strchr(text, ' ') + 1);
}

static inline void forget(char **text)
{
    free(*text);
    *text = xstrdup("");
}

/* Compares @text with @expected and empties it. */
static inline void expect(char **text, const char *expected)
{
    ck_assert_str_eq(*text, expected);
    forget(text);
}

#define expect_seen(expected) expect(&seen, expected)
#define expect_logged(expected) expect(&said, expected)

/* The line of the first contents, of @objects, and @more behind it. */
static inline void expect_listed(int objects, const char *more)
{
    char *expected = xasprintf("info: listed resource=services objects=%d encoding=%s\n%s", objects,
                               encoding_name(encoding), more);
    expect_logged(expected);
    free(expected);
}

/* The value of a query parameter of the open request, for the caller to free; NULL if it has none.
 */
static inline char *parameter(const char *name)
{
    size_t length = strlen(name);
    const char *at = strchr(request->path, '?');
    while (at && (strncmp(at + 1, name, length) != 0 || at[1 + length] != '='))
        at = strchr(at + 1, '&');
    return at ? xstrndup(at + length + 2, strcspn(at + length + 2, "&")) : NULL;
}

static inline void add_parameter(char **text, const char *name, const char *label)
{
    char *value = parameter(name);
    if (value)
        append(text, label, value, "");
    free(value);
}

/* The open request in short: "stream", "stream 10", "list 0 limit=500", "watch 10". */
static inline void expect_request(const char *expected)
{
    ck_assert_ptr_nonnull(request);
    char *watch = parameter("watch"), *initial = parameter("sendInitialEvents");
    char *text = xstrdup(initial ? "stream" : watch ? "watch" : "list");
    add_parameter(&text, "resourceVersion", " %s%s");
    add_parameter(&text, "limit", " limit=%s%s");
    add_parameter(&text, "continue", " continue=%s%s");
    ck_assert_str_eq(text, expected);
    free(text);
    free(initial);
    free(watch);
}

static inline void expect_figures(struct reflector_figures expected, const struct reflector *of)
{
    struct reflector_figures got;
    reflector_figures(of, &got);
    ck_assert_uint_eq(got.lists, expected.lists);
    ck_assert_uint_eq(got.resumes, expected.resumes);
    ck_assert_uint_eq(got.events, expected.events);
    ck_assert_uint_eq(got.bad_objects, expected.bad_objects);
    ck_assert_uint_eq(got.bad_answers, expected.bad_answers);
    ck_assert_uint_eq(got.failures, expected.failures);
}

/* --------------------------------------------------------- what is sent */

#define META(name, version)                                                                        \
    "\"metadata\":{\"name\":\"" name "\",\"namespace\":\"shop\",\"resourceVersion\":\"" version    \
    "\"}"
#define SPEC(ip, port)                                                                             \
    "\"spec\":{\"clusterIP\":\"" ip "\",\"clusterIPs\":[\"" ip "\"],\"type\":\"ClusterIP\","       \
    "\"ports\":[{\"protocol\":\"TCP\",\"port\":" port ",\"targetPort\":8080}]}"
#define ITEM(name) "{" META(name, "5") "," SPEC("10.96.0.9", "80") "}"
#define BAD_ITEM(name) "{" META(name, "5") "," SPEC("10.96.0.9", "70000") "}"
#define OBJECT(name, version, port)                                                                \
    "{\"kind\":\"Service\",\"apiVersion\":\"v1\"," META(name, version) "," SPEC("10.96.0.9",       \
                                                                                port) "}"
#define EVENT(type, name, version)                                                                 \
    "{\"type\":\"" type "\",\"object\":" OBJECT(name, version, "80") "}\n"
#define BAD_EVENT(type, name, version)                                                             \
    "{\"type\":\"" type "\",\"object\":" OBJECT(name, version, "70000") "}\n"
#define MARK(metadata)                                                                             \
    "{\"type\":\"BOOKMARK\",\"object\":{\"kind\":\"Service\",\"apiVersion\":\"v1\","               \
    "\"metadata\":{" metadata ",\"creationTimestamp\":null},\"spec\":{},"                          \
    "\"status\":{\"loadBalancer\":{}}}}\n"
#define END(value) "\"annotations\":{\"k8s.io/initial-events-end\":" value "}"
#define BOOKMARK(version) MARK(VERSION(version))
#define END_MARK(version) MARK(VERSION(version) "," END("\"true\""))
#define STATUS(code, reason, details)                                                              \
    "{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"metadata\":{},\"status\":\"Failure\","           \
    "\"message\":\"" reason " said\",\"reason\":\"" reason "\",\"details\":{" details              \
    "},\"code\":" code "}"
#define ERROR(code, reason, details)                                                               \
    "{\"type\":\"ERROR\",\"object\":" STATUS(code, reason, details) "}\n"
#define LIST_BODY(metadata, items)                                                                 \
    "{\"kind\":\"ServiceList\",\"apiVersion\":\"v1\",\"metadata\":{" metadata "},\"items\":" items \
    "}\n"
#define VERSION(version) "\"resourceVersion\":\"" version "\""
#define TOO_LARGE "\"causes\":[{\"reason\":\"ResourceVersionTooLarge\",\"message\":\"x\"}]"

/* ------------------------------------------------------------- ways there */

static struct reflector *reflector;

static inline void start(enum object_kind kind)
{
    reflector = reflector_start(NULL, &server, kind, "node-1", &sink);
}

static inline void setup(void)
{
    server.fault = NULL;
    request = NULL;
    timer = NULL;
    seen = xstrdup("");
    said = xstrdup("");
    log_set_sink(on_log, NULL);
    log_set_verbosity(0);
    start(KIND_SERVICE);
    expect_request("stream");
}

static inline void teardown(void)
{
    reflector_free(reflector);
    ck_assert_ptr_null(request);
    ck_assert_ptr_null(timer);
    log_set_sink(NULL, NULL);
    free(seen);
    free(said);
}

/* To the request of a list, since the server does not stream. */
static inline void reach_list(void)
{
    answer(422, NULL, STATUS("422", "Invalid", ""));
    expect_logged("");
}

/* Through a streamed list of shop/a at version 10 to the watch that goes on, with nothing said. */
static inline void reach_streamed_watch(void)
{
    open_answer();
    send_text(EVENT("ADDED", "a", "5") END_MARK("10"));
    expect_seen("replace Service: shop/a\n");
    expect_listed(1, "");
}

/* The same through a list, to a watch that is open. */
static inline void reach_watch(void)
{
    reach_list();
    answer_list(LIST_BODY(VERSION("10"), "[" ITEM("a") "]"));
    expect_seen("replace Service: shop/a\n");
    expect_listed(1, "");
    expect_request("watch 10");
    open_answer();
}

static inline void setup_json(void)
{
    encoding = ENCODING_JSON;
    setup();
}

static inline void setup_protobuf(void)
{
    encoding = ENCODING_PROTOBUF;
    setup();
}

UNIT_FIXTURE(setup_json, teardown)
UNIT_FIXTURE(setup_protobuf, teardown)

#endif
