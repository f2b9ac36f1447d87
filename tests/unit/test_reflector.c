/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The reflector against a scripted server: this file defines the functions of apiserver.h itself,
 * and the two of libev that the reflector calls, so that the test plays server and clock.
 */
#include "kube-nftd/source/reflector.h"

#include "kube-nftd/base/log.h"
#include "kube-nftd/base/vec.h"
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
    (void)loop;
    (void)config;
    (void)err;
    return &server;
}

void apiserver_free(struct apiserver *apiserver)
{
    (void)apiserver;
}

struct api_request *apiserver_get(struct apiserver *apiserver, const char *path, double timeout,
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

/* Ends the open request the way apiserver.c does: it is gone when done is called. */
static void answer_after(long status, double retry_after, const char *transport, const char *body)
{
    ck_assert_ptr_nonnull(request);
    struct api_request_ops ops = request->ops;
    void *ctx = request->ctx;
    struct api_result result = {status, retry_after, transport};
    apiserver_cancel(request);
    ops.done(ctx, &result, body);
}

static void answer(long status, const char *transport, const char *body)
{
    answer_after(status, -1, transport, body);
}

static void open_answer(void)
{
    ck_assert_ptr_nonnull(request);
    if (request->ops.opened)
        request->ops.opened(request->ctx);
}

/* Hands over bytes of a 200 answer; a reader that wants no more has its request ended. */
static void send_bytes(const char *bytes, size_t length)
{
    ck_assert_ptr_nonnull(request);
    if (request->ops.data(request->ctx, bytes, length) < 0)
        answer(200, "stopped", "");
}

static void send_text(const char *text)
{
    send_bytes(text, strlen(text));
}

/* A whole answer with a list, to its clean end. */
static void answer_list(const char *text)
{
    open_answer();
    send_text(text);
    answer(200, NULL, "");
}

/* ----------------------------------------------------------- fake clock */

static struct ev_timer *timer; /* the one that runs */

void ev_timer_start(struct ev_loop *loop, struct ev_timer *w)
{
    (void)loop;
    ck_assert_ptr_null(timer);
    timer = w;
}

void ev_timer_stop(struct ev_loop *loop, struct ev_timer *w)
{
    (void)loop;
    if (timer == w)
        timer = NULL;
}

/* Lets the time come that is waited for; it must be from @low to @high seconds away. */
static void pass_time(double low, double high)
{
    ck_assert_ptr_nonnull(timer);
    ck_assert_msg(timer->at >= low && timer->at <= high, "waits for %g s", timer->at);
    struct ev_timer *due = timer;
    timer = NULL;
    due->cb(NULL, due, EV_TIMER);
}

/* --------------------------------------------------- what the test sees */

static char *seen;   /* what the sink was told */
static char *logged; /* warnings and infos */

static void append(char **text, const char *format, const char *a, const char *b)
{
    char *more = xasprintf(format, a, b);
    char *all = xasprintf("%s%s", *text, more);
    free(more);
    free(*text);
    *text = all;
}

static void on_replace(void *ctx, enum object_kind kind, object_vec *objects)
{
    (void)ctx;
    append(&seen, "%s %s:", "replace", object_kind_name(kind));
    vec_each (objects, object)
        append(&seen, " %s%s", object->id, object->payload ? "" : "?");
    append(&seen, "%s%s", "\n", "");
    object_vec_clear(objects);
}

static void on_put(void *ctx, struct object *object)
{
    (void)ctx;
    append(&seen, "put %s%s\n", object->id, object->payload ? "" : "?");
    object_clear(object);
}

static void on_remove(void *ctx, enum object_kind kind, const char *id)
{
    (void)ctx;
    append(&seen, "remove %s %s\n", object_kind_name(kind), id);
}

static const struct object_sink sink = {.replace = on_replace, .put = on_put, .remove = on_remove};

static void on_log(void *ctx, enum log_level level, const char *line)
{
    (void)ctx;
    const char *text = strstr(line, "reflector: ");
    ck_assert_ptr_nonnull(text);
    if (level <= LOG_LEVEL_INFO)
        append(&logged, "%s: %s\n", level == LOG_LEVEL_WARN ? "warn" : "info",
               strchr(text, ' ') + 1);
}

/* Compares @text with @expected and empties it. */
static void expect(char **text, const char *expected)
{
    ck_assert_str_eq(*text, expected);
    free(*text);
    *text = xstrdup("");
}

#define expect_seen(expected) expect(&seen, expected)
#define expect_logged(expected) expect(&logged, expected)

#define SERVICES                                                                                   \
    "/api/v1/services?labelSelector=%21service.kubernetes.io%2Fservice-proxy-name"                 \
    "&fieldSelector=spec.clusterIP%21%3DNone"

/* The open request is the list with these further parameters. */
static void expect_list(const char *parameters)
{
    char *path = xasprintf("%s%s", SERVICES, parameters);
    ck_assert_ptr_nonnull(request);
    ck_assert_str_eq(request->path, path);
    ck_assert_double_eq(request->timeout, 300);
    free(path);
}

/* The open request is a watch from @version, of a length within the bounds. */
static void expect_watch(const char *version)
{
    char *path = xasprintf("%s&watch=true&allowWatchBookmarks=true&resourceVersion=%s"
                           "&timeoutSeconds=",
                           SERVICES, version);
    ck_assert_ptr_nonnull(request);
    size_t length = strlen(path);
    ck_assert_msg(strncmp(request->path, path, length) == 0, "%s", request->path);
    int seconds = atoi(request->path + length);
    ck_assert_int_ge(seconds, 300);
    ck_assert_int_le(seconds, 600);
    ck_assert_double_eq(request->timeout, seconds + 30);
    free(path);
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
#define BOOKMARK(version)                                                                          \
    "{\"type\":\"BOOKMARK\",\"object\":{\"kind\":\"Service\",\"apiVersion\":\"v1\","               \
    "\"metadata\":{\"resourceVersion\":\"" version                                                 \
    "\",\"creationTimestamp\":null},\"spec\":{},\"status\":{\"loadBalancer\":{}}}}\n"
#define STATUS(code, reason, details)                                                              \
    "{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"metadata\":{},\"status\":\"Failure\","           \
    "\"message\":\"" reason " said\",\"reason\":\"" reason "\",\"details\":{" details              \
    "},\"code\":" code "}"
#define ERROR(code, reason, details)                                                               \
    "{\"type\":\"ERROR\",\"object\":" STATUS(code, reason, details) "}\n"
#define LIST(metadata, items)                                                                      \
    "{\"kind\":\"ServiceList\",\"apiVersion\":\"v1\",\"metadata\":{" metadata "},\"items\":" items \
    "}\n"
#define VERSION(version) "\"resourceVersion\":\"" version "\""
#define TOO_LARGE "\"causes\":[{\"reason\":\"ResourceVersionTooLarge\",\"message\":\"x\"}]"
#define FIRST "&resourceVersion=0&limit=500"

static struct reflector *reflector;

static void setup(void)
{
    server.fault = NULL;
    request = NULL;
    timer = NULL;
    seen = xstrdup("");
    logged = xstrdup("");
    log_set_sink(on_log, NULL);
    reflector = reflector_start(NULL, &server, KIND_SERVICE, "node-1", &sink);
    expect_list(FIRST);
}

static void teardown(void)
{
    reflector_free(reflector);
    ck_assert_ptr_null(request);
    ck_assert_ptr_null(timer);
    log_set_sink(NULL, NULL);
    free(seen);
    free(logged);
}

/* Through a first list of shop/a at version 10 to an open watch with nothing said. */
static void reach_watch(void)
{
    answer_list(LIST(VERSION("10"), "[" ITEM("a") "]"));
    expect_seen("replace Service: shop/a\n");
    expect_logged("info: listed resource=services objects=1\n");
    expect_watch("10");
    open_answer();
}

/* ---------------------------------------------------------------- lists */

START_TEST(pages_are_one_replacement)
{
    answer_list(LIST(VERSION("10") ",\"continue\":\"t+1=\"", "[" ITEM("a") "," ITEM("b") "]"));
    expect_list("&limit=500&continue=t%2B1%3D");
    answer_list(LIST(VERSION("10") ",\"continue\":\"t2\",\"remainingItemCount\":1", "null"));
    expect_list("&limit=500&continue=t2");
    expect_seen("");
    answer_list(LIST(VERSION("11") ",\"continue\":\"\"", "[" ITEM("c") "]"));
    expect_seen("replace Service: shop/a shop/b shop/c\n");
    expect_watch("10");
    ck_assert_ptr_null(timer);
}
END_TEST

START_TEST(empty_lists)
{
    answer_list(LIST(VERSION("10"), "null"));
    expect_seen("replace Service:\n");
    expect_watch("10");
}
END_TEST

static void expect_list_again(const char *log)
{
    expect_seen("");
    expect_logged(log);
    ck_assert_ptr_null(request);
    pass_time(0.8, 61);
    expect_list(FIRST);
}

START_TEST(part_of_a_list_is_nothing)
{
    open_answer();
    send_text("{\"kind\":\"ServiceList\",\"metadata\":{" VERSION("10") "},\"items\":[" ITEM("a"));
    answer(200, "the connection was cut", "");
    expect_list_again("warn: cannot list services: the connection was cut\n");
    /* A clean end in mid-list is no better, and what came before does not count. */
    send_text("{\"kind\":\"ServiceList\",\"metadata\":{" VERSION("10") "},\"items\":[" ITEM("b"));
    answer(200, NULL, "");
    ck_assert_ptr_nonnull(strstr(logged, "warn: cannot list services: the answer cannot be read"));
    free(logged);
    logged = xstrdup("");
    expect_list_again("");
    /* Nor are the pages before one that fails. */
    answer_list(LIST(VERSION("10") ",\"continue\":\"t\"", "[" ITEM("a") "]"));
    answer(500, NULL, STATUS("500", "InternalError", ""));
    expect_list_again("warn: cannot list services: the server is in trouble status=500 "
                      "message=\"InternalError said\"\n");
    answer_list(LIST(VERSION("10"), "[" ITEM("c") "]"));
    expect_seen("replace Service: shop/c\n");
}
END_TEST

START_TEST(answers_that_are_no_lists)
{
    static const struct {
        const char *body;
        const char *why;
    } bodies[] = {
        {"", "the answer is empty"},
        {"{\"kind\":\"NodeList\",\"metadata\":{" VERSION("1") "},\"items\":[]}",
         "the answer is no list of Service objects"},
        {STATUS("200", "Fine", ""), "the answer is no list of Service objects"},
        {LIST("", "[]"), "the list has no resourceVersion"},
        {LIST(VERSION("1"), "[]") LIST(VERSION("1"), "[]"), "the answer goes on behind the list"},
        {"[]", "the answer is no list of Service objects"},
    };
    for (size_t i = 0; i < sizeof(bodies) / sizeof(*bodies); i++) {
        open_answer();
        send_text(bodies[i].body);
        if (request)
            answer(200, NULL, "");
        char *log =
            xasprintf("warn: cannot list services: the answer cannot be read message=\"%s\"\n",
                      bodies[i].why);
        expect_list_again(i == 0 ? log : "");
        free(log);
    }
    send_text("<html>login</html>");
    expect_list_again("");
}
END_TEST

START_TEST(bad_item_keeps_its_name)
{
    answer_list(LIST(VERSION("10"),
                     "[" ITEM("a") "," BAD_ITEM("b") ",{\"metadata\":7},"
                                                     "{\"kind\":\"Pod\",\"apiVersion\":\"v1\"}]"));
    expect_seen("replace Service: shop/a shop/b?\n");
    ck_assert_ptr_nonnull(strstr(logged, "warn: bad object: "));
    ck_assert_ptr_nonnull(strstr(logged, "shop/b"));
    ck_assert_uint_eq(reflector_bad_objects(reflector), 3);
    expect_watch("10");
}
END_TEST

/* -------------------------------------------------------------- watches */

START_TEST(events_cut_anywhere)
{
    static const char events[] = EVENT("ADDED", "b", "11") EVENT("MODIFIED", "a", "12")
        BOOKMARK("13") EVENT("DELETED", "b", "14");
    for (size_t i = 0; i < sizeof(events); i++) {
        teardown();
        setup();
        reach_watch();
        send_bytes(events, i);
        send_bytes(events + i, strlen(events) - i);
        expect_seen("put shop/b\nput shop/a\nremove Service shop/b\n");
        answer(200, NULL, "");
        expect_watch("14");
    }
    teardown();
    setup();
    reach_watch();
    for (size_t i = 0; i < strlen(events); i++)
        send_bytes(events + i, 1);
    expect_seen("put shop/b\nput shop/a\nremove Service shop/b\n");
    expect_logged("");
}
END_TEST

START_TEST(bookmark_moves_the_version)
{
    reach_watch();
    send_text(BOOKMARK("20"));
    expect_seen("");
    answer(200, NULL, "");
    ck_assert_ptr_null(timer);
    expect_watch("20");
    expect_logged("");
}
END_TEST

START_TEST(cut_watch_goes_on_from_the_last_whole_event)
{
    reach_watch();
    send_text(EVENT("ADDED", "b", "11") "{\"type\":\"ADDED\",\"object\":{\"kind\":\"Serv");
    answer(200, "the connection was cut", "");
    ck_assert_ptr_null(timer);
    expect_watch("11");
    expect_seen("put shop/b\n");
    expect_logged("");
}
END_TEST

START_TEST(quiet_watch)
{
    reach_watch();
    pass_time(1, 1); /* it was open for a while: worth doing again at once */
    answer(200, NULL, "");
    expect_watch("10");
    open_answer();
    answer(200, NULL, ""); /* within the second */
    ck_assert_ptr_null(request);
    expect_logged("warn: cannot watch services: it ended at once, without an event\n");
    pass_time(0.8, 1.6);
    expect_watch("10");
    open_answer();
    expect_logged("");
    pass_time(1, 1);
    expect_logged("info: watching again resource=services\n");
}
END_TEST

START_TEST(too_old_lists_at_once)
{
    reach_watch();
    send_text(EVENT("MODIFIED", "a", "12") ERROR("410", "Expired", ""));
    ck_assert_ptr_null(timer);
    expect_list("&resourceVersion=12");
    answer_list(LIST(VERSION("30"), "[" ITEM("z") "]"));
    expect_seen("put shop/a\nreplace Service: shop/z\n");
    expect_watch("30");
    open_answer();
    expect_logged("");
    /* Too old again before anything went well: not in a tight loop. */
    send_text(ERROR("410", "Expired", ""));
    expect_logged("warn: cannot watch services: the server refused status=410 "
                  "message=\"Expired said\"\n");
    pass_time(0.8, 1.6);
    expect_list("&resourceVersion=30");
    answer_list(LIST(VERSION("31"), "[]"));
    expect_watch("31");
    open_answer();
    send_text(BOOKMARK("32"));
    expect_logged("info: watching again resource=services\n");
    send_text(ERROR("410", "Gone", ""));
    expect_list("&resourceVersion=32");
}
END_TEST

START_TEST(refused_versions_of_lists)
{
    reach_watch();
    answer(410, NULL, STATUS("410", "Expired", ""));
    expect_list("&resourceVersion=10");
    answer(504, NULL, STATUS("504", "Timeout", TOO_LARGE));
    expect_list(""); /* the newest state */
    /* Refused even so, there is nothing left to ask for. */
    answer(504, NULL, STATUS("504", "Timeout", TOO_LARGE));
    expect_logged("warn: cannot list services: the server is in trouble status=504 "
                  "message=\"Timeout said\"\n");
    pass_time(0.8, 1.6);
    expect_list("");
    answer_list(LIST(VERSION("40"), "[]"));
    expect_watch("40");
    /* A list that went well makes versions good again. */
    open_answer();
    pass_time(1, 1);
    send_text(ERROR("410", "Expired", ""));
    expect_list("&resourceVersion=40");
}
END_TEST

START_TEST(watch_from_the_future_lists_the_newest)
{
    reach_watch();
    send_text(ERROR("504", "Timeout", TOO_LARGE));
    ck_assert_ptr_null(timer);
    expect_list("");
}
END_TEST

START_TEST(expired_page_lists_without_pages)
{
    answer_list(LIST(VERSION("10") ",\"continue\":\"t\"", "[" ITEM("a") "]"));
    expect_list("&limit=500&continue=t");
    answer(410, NULL, STATUS("410", "Expired", ""));
    expect_list("&resourceVersion=10");
    ck_assert_ptr_null(timer);
    expect_logged("");
    answer_list(LIST(VERSION("12"), "[" ITEM("b") "]"));
    expect_seen("replace Service: shop/b\n");
    expect_watch("12");
}
END_TEST

START_TEST(first_list_keeps_its_limit_without_a_version)
{
    answer(410, NULL, STATUS("410", "Expired", ""));
    expect_list("&limit=500");
}
END_TEST

START_TEST(bad_objects_in_a_watch)
{
    reach_watch();
    send_text("{\"type\":\"MODIFIED\",\"object\":" OBJECT("a", "11", "70000") "}");
    expect_seen("put shop/a?\n");
    ck_assert_ptr_nonnull(strstr(logged, "warn: bad object: "));
    ck_assert_ptr_nonnull(strstr(logged, "shop/a"));
    ck_assert_uint_eq(reflector_bad_objects(reflector), 1);
    send_text("{\"type\":\"ADDED\",\"object\":{\"kind\":\"Pod\",\"apiVersion\":\"v1\"," META(
        "p", "12") "}}\n");
    send_text("{\"type\":\"ADDED\",\"object\":{\"kind\":\"Node\",\"apiVersion\":\"v1\","
              "\"metadata\":{\"name\":\"n\",\"resourceVersion\":\"13\"}}}\n");
    expect_seen("");
    ck_assert_uint_eq(reflector_bad_objects(reflector), 3);
    /* To go, a name is enough. */
    send_text("{\"type\":\"DELETED\",\"object\":" OBJECT("a", "14", "70000") "}");
    expect_seen("remove Service shop/a\n");
    ck_assert_uint_eq(reflector_bad_objects(reflector), 3);
    /* The watch itself is fine. */
    answer(200, NULL, "");
    expect_watch("14");
}
END_TEST

START_TEST(lines_that_are_no_events)
{
    static const char *const lines[] = {
        "garbage\n",
        "{\"object\":{}}\n",
        "[1]\n",
        "{\"type\":\"ADDED\"}\n",
        "{\"type\":7}\n",
        "{\"type\":\"SPLIT\",\"object\":{}}\n",
        "{\"type\":}}}}\n",
        "{\"type\":\"ERROR\",\"object\":[]}\n",
    };
    for (size_t i = 0; i < sizeof(lines) / sizeof(*lines); i++) {
        teardown();
        setup();
        reach_watch();
        send_text(EVENT("ADDED", "b", "11"));
        send_text(lines[i]);
        expect_seen("put shop/b\n");
        ck_assert_ptr_null(request);
        ck_assert_msg(strncmp(logged, "warn: cannot watch services: an event cannot be read", 52) ==
                          0,
                      "%s: %s", lines[i], logged);
        pass_time(0.8, 1.6);
        expect_list("&resourceVersion=11");
    }
}
END_TEST

START_TEST(endless_value)
{
    static char filler[1024 * 1024];
    memset(filler, 'x', sizeof(filler));
    reach_watch();
    send_text("{\"type\":\"");
    for (int i = 0; i < 17 && request; i++)
        send_bytes(filler, sizeof(filler));
    ck_assert_ptr_null(request);
    pass_time(0.8, 1.6);
    expect_list("&resourceVersion=10");
}
END_TEST

/* -------------------------------------------------------------- trouble */

START_TEST(trouble_is_said_once)
{
    double low = 0.8;
    for (int i = 0; i < 4; i++, low *= 2) {
        answer(0, "Failed to connect: Connection refused", "");
        ck_assert_ptr_null(request);
        pass_time(low, low * 2);
        expect_list(FIRST);
    }
    expect_logged("warn: cannot list services: Failed to connect: Connection refused\n");
    for (int i = 0; i < 2; i++) {
        answer(401, NULL, STATUS("401", "Unauthorized", ""));
        pass_time(12.8, 60);
    }
    expect_logged("warn: cannot list services: the server refused the token or the client "
                  "certificate status=401 message=\"Unauthorized said\"\n");
    answer(403, NULL, STATUS("403", "Forbidden", ""));
    expect_logged("warn: cannot list services: the RBAC permission is missing status=403 "
                  "verb=list resource=services message=\"Forbidden said\"\n");
    pass_time(25, 60);
    answer_list(LIST(VERSION("10"), "[]"));
    expect_seen("replace Service:\n");
    expect_logged("info: listed resource=services objects=0\n");
    open_answer(); /* not yet: it may end at once */
    expect_logged("");
    send_text(BOOKMARK("11"));
    expect_logged("info: watching again resource=services\n");
}
END_TEST

START_TEST(refused_watch_stays_a_watch)
{
    static const struct {
        long status;
        const char *log;
    } refusals[] = {
        {0, "warn: cannot watch services: reset\n"},
        {401, "warn: cannot watch services: the server refused the token or the client "
              "certificate status=401 message=\"no\"\n"},
        {403, "warn: cannot watch services: the RBAC permission is missing status=403 verb=watch "
              "resource=services message=\"no\"\n"},
        {404, "warn: cannot watch services: the server does not have this API status=404 "
              "message=\"no\"\n"},
        {429, "warn: cannot watch services: the server is busy status=429 message=\"no\"\n"},
        {503, "warn: cannot watch services: the server is in trouble status=503 message=\"no\"\n"},
    };
    reach_watch();
    pass_time(1, 1);
    answer(200, "the connection was cut", "");
    for (size_t i = 0; i < sizeof(refusals) / sizeof(*refusals); i++) {
        expect_watch("10");
        answer(refusals[i].status, refusals[i].status ? NULL : "reset", "no");
        expect_logged(refusals[i].log);
        ck_assert_ptr_null(request);
        pass_time(0.8, 60);
    }
    expect_watch("10");
    expect_seen("");
    /* What the server does not understand will not get better. */
    answer(400, NULL, "no");
    pass_time(0.8, 60);
    expect_list("&resourceVersion=10");
}
END_TEST

START_TEST(retry_after_is_what_it_waits)
{
    double low = 0.8;
    for (int i = 0; i < 6; i++, low *= 2) {
        answer(0, "reset", "");
        pass_time(low, low * 2);
    }
    expect_logged("warn: cannot list services: reset\n");
    answer_after(429, 5, NULL, "Too many requests, please try again later.");
    pass_time(5, 6);
    expect_list(FIRST);
    answer_after(429, 1e6, NULL, "");
    pass_time(300, 301);
    expect_logged("warn: cannot list services: the server is busy status=429 "
                  "message=\"Too many requests, please try again later.\"\n");
    reach_watch();
    send_text(ERROR("429", "TooManyRequests", "\"retryAfterSeconds\":9"));
    pass_time(9, 10);
    expect_watch("10");
    send_text(ERROR("500", "InternalError", ""));
    pass_time(0.8, 60);
    expect_list("&resourceVersion=10");
}
END_TEST

START_TEST(request_that_cannot_start)
{
    reach_watch();
    pass_time(1, 1);
    server.fault = "no token: /token is empty";
    answer(200, NULL, "");
    expect_logged("warn: cannot watch services: no token: /token is empty\n");
    pass_time(0.8, 1.6);
    pass_time(1.6, 3.2);
    server.fault = NULL;
    pass_time(3.2, 6.4);
    expect_watch("10");
    expect_logged("");
}
END_TEST

START_TEST(own_node_only)
{
    teardown();
    setup();
    reflector_free(reflector);
    reflector = reflector_start(NULL, &server, KIND_NODE, "node-1", &sink);
    ck_assert_str_eq(request->path, "/api/v1/nodes?fieldSelector=metadata.name%3Dnode-1" FIRST);
    answer_list("{\"kind\":\"NodeList\",\"apiVersion\":\"v1\",\"metadata\":{" VERSION(
        "7") "},\"items\":[{\"metadata\":{\"name\":\"node-1\"}}]}");
    expect_seen("replace Node: node-1\n");
}
END_TEST

/* Only a whole list, or what is like one, is an answer to what there is. */
START_TEST(answers)
{
    static const long no_answers[] = {0, 401, 429, 500, 503};
    for (size_t i = 0; i < sizeof(no_answers) / sizeof(*no_answers); i++) {
        answer(no_answers[i], no_answers[i] ? NULL : "reset", "");
        ck_assert(!reflector_has_answer(reflector));
        pass_time(0.8, 60);
    }
    answer_list(LIST(VERSION("10") ",\"continue\":\"more\"", "[]"));
    ck_assert(!reflector_has_answer(reflector));
    answer(410, NULL, STATUS("410", "Expired", ""));
    ck_assert(!reflector_has_answer(reflector));
    answer_list(LIST(VERSION("11"), "[]"));
    ck_assert(reflector_has_answer(reflector));
    open_answer();
    send_text(ERROR("410", "Expired", ""));
    ck_assert(reflector_has_answer(reflector));
}
END_TEST

/* A server may lack the API or the right to it. That is said, and asked for again without end; a
 * right that is granted later, or a server that is newer, is all it needs. */
START_TEST(service_cidrs_that_are_not_to_be_had)
{
    teardown();
    setup();
    reflector_free(reflector);
    reflector = reflector_start(NULL, &server, KIND_SERVICECIDR, NULL, &sink);
    ck_assert_str_eq(request->path, "/apis/networking.k8s.io/v1/servicecidrs?resourceVersion=0"
                                    "&limit=500");
    for (int i = 0; i < 8; i++) {
        answer(404, NULL, "404 page not found");
        ck_assert(reflector_has_answer(reflector));
        ck_assert_ptr_null(request);
        pass_time(0.8, 60);
        ck_assert_ptr_nonnull(request);
    }
    expect_logged("warn: cannot list servicecidrs.networking.k8s.io: the server does not have "
                  "this API status=404 message=\"404 page not found\"\n");
    for (int i = 0; i < 2; i++) {
        answer(403, NULL, STATUS("403", "Forbidden", ""));
        pass_time(0.8, 60);
    }
    expect_logged("warn: cannot list servicecidrs.networking.k8s.io: the RBAC permission is "
                  "missing status=403 verb=list resource=servicecidrs.networking.k8s.io "
                  "message=\"Forbidden said\"\n");
    expect_seen("");
    answer_list(
        "{\"kind\":\"ServiceCIDRList\",\"apiVersion\":\"networking.k8s.io/v1\","
        "\"metadata\":{" VERSION("7") "},\"items\":[{\"metadata\":{\"name\":\"kubernetes\"},"
                                      "\"spec\":{\"cidrs\":[\"10.96.0.0/12\"]}}]}");
    expect_seen("replace ServiceCIDR: kubernetes\n");
}
END_TEST

static void add_tests(TCase *tcase)
{
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, pages_are_one_replacement);
    tcase_add_test(tcase, empty_lists);
    tcase_add_test(tcase, part_of_a_list_is_nothing);
    tcase_add_test(tcase, answers_that_are_no_lists);
    tcase_add_test(tcase, bad_item_keeps_its_name);
    tcase_add_test(tcase, events_cut_anywhere);
    tcase_add_test(tcase, bookmark_moves_the_version);
    tcase_add_test(tcase, cut_watch_goes_on_from_the_last_whole_event);
    tcase_add_test(tcase, quiet_watch);
    tcase_add_test(tcase, too_old_lists_at_once);
    tcase_add_test(tcase, refused_versions_of_lists);
    tcase_add_test(tcase, watch_from_the_future_lists_the_newest);
    tcase_add_test(tcase, expired_page_lists_without_pages);
    tcase_add_test(tcase, first_list_keeps_its_limit_without_a_version);
    tcase_add_test(tcase, bad_objects_in_a_watch);
    tcase_add_test(tcase, lines_that_are_no_events);
    tcase_add_test(tcase, endless_value);
    tcase_add_test(tcase, trouble_is_said_once);
    tcase_add_test(tcase, refused_watch_stays_a_watch);
    tcase_add_test(tcase, retry_after_is_what_it_waits);
    tcase_add_test(tcase, request_that_cannot_start);
    tcase_add_test(tcase, own_node_only);
    tcase_add_test(tcase, answers);
    tcase_add_test(tcase, service_cidrs_that_are_not_to_be_had);
}

UNIT_MAIN("reflector", add_tests)
