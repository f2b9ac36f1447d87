/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Events on their way to a server that the test plays, by a clock of its own. */
#include "kube-nftd/source/event_recorder.h"

#include "unit.h"

#include "fake_apiserver.h"
#include "fake_clock.h"

#include <string.h>

static struct event_recorder *recorder;

static void make(double qps, double burst)
{
    const struct event_recorder_config config = {"node-a", "host-a", qps, burst};
    recorder = event_recorder_new(NULL, NULL, &config);
}

static void setup(void)
{
    sent = 0;
    can_ask = true;
    make(5, 10);
}

static void teardown(void)
{
    event_recorder_free(recorder);
    ck_assert_ptr_null(request);
    ck_assert_ptr_null(timer);
}

static struct object_event about(const char *id, const char *note)
{
    return (struct object_event){.kind = KIND_SERVICE,
                                 .id = id,
                                 .type = EVENT_WARNING,
                                 .reason = "FailedToStartServiceHealthcheck",
                                 .action = "Listen",
                                 .note = note};
}

static void report(const char *id, const char *note)
{
    struct object_event event = about(id, note);
    event_recorder_report(recorder, &event);
}

static void report_everywhere(const char *id, const char *note)
{
    struct object_event event = about(id, note);
    event.everywhere = true;
    event_recorder_report(recorder, &event);
}

static struct event_figures figures(void)
{
    return event_recorder_figures(recorder);
}

/* Lets the time come that is waited for, which is at most @most seconds from now. */
static double let_time_come(double most)
{
    ck_assert_ptr_nonnull(timer);
    struct ev_timer *due = timer;
    double seconds = due->at;
    ck_assert_double_le(seconds, most);
    now += seconds;
    timer = NULL;
    due->cb(NULL, due, EV_TIMER);
    return seconds;
}

/* Time passes, with all that is due in it, up to the next request or for @seconds. */
static void pass(double seconds)
{
    double end = now + seconds;
    while (!request && timer && now + timer->at <= end)
        let_time_come(seconds);
    if (!request)
        now = end;
}

/* What the open request's body has at a way like "regarding.name"; NULL if it is not there. */
static const cJSON *at(const char *way)
{
    char *copy = xstrdup(way), *rest = copy, *key;
    const cJSON *json = request->body;
    while ((key = strsep(&rest, ".")))
        json = cJSON_GetObjectItemCaseSensitive(json, key);
    free(copy);
    return json;
}

static const char *text_at(const char *way)
{
    const char *text = cJSON_GetStringValue(at(way));
    return text ? text : "";
}

/* Waits for the next request; returns for how long, which is at most @most seconds. */
static double wait_for_request(double most)
{
    double begin = now;
    while (!request)
        let_time_come(most);
    ck_assert_double_le(now - begin, most);
    return now - begin;
}

static void expect_text(const char *way, const char *expected)
{
    ck_assert_str_eq(text_at(way), expected);
}

TEST(an_event_is_created)
{
    struct object_event event = about("shop/web", "port 30000 is in use");
    ck_assert(uid_parse("6b1bd2a0-9f1e-4b47-8e0e-1c8e9a8d7f00", &event.uid));
    event_recorder_report(recorder, &event);
    ck_assert_str_eq(request->method, "POST");
    ck_assert_str_eq(request->path, "/apis/events.k8s.io/v1/namespaces/shop/events");
    ck_assert_str_eq(request->content_type, "application/json");
    expect_text("kind", "Event");
    expect_text("apiVersion", "events.k8s.io/v1");
    expect_text("metadata.namespace", "shop");
    ck_assert_int_eq(strncmp(text_at("metadata.name"), "web.", 4), 0);
    ck_assert_uint_eq(strlen(text_at("eventTime")), strlen("2026-11-22T04:00:00.123456Z"));
    expect_text("reportingController", "kube-proxy");
    expect_text("reportingInstance", "kube-proxy-host-a");
    expect_text("reason", "FailedToStartServiceHealthcheck");
    expect_text("action", "Listen");
    expect_text("type", "Warning");
    expect_text("note", "node node-a: port 30000 is in use");
    expect_text("regarding.kind", "Service");
    expect_text("regarding.namespace", "shop");
    expect_text("regarding.name", "web");
    expect_text("regarding.uid", "6b1bd2a0-9f1e-4b47-8e0e-1c8e9a8d7f00");
    expect_text("regarding.apiVersion", "v1");
    ck_assert(!event_recorder_is_settled(recorder));
    answer(201);
    ck_assert(event_recorder_is_settled(recorder));
    ck_assert_uint_eq(figures().posted, 1);
}

TEST(what_has_no_namespace_goes_to_default)
{
    struct object_event event = {.kind = KIND_NODE,
                                 .id = "node-a",
                                 .type = EVENT_NORMAL,
                                 .reason = "Starting",
                                 .action = "StartKubeProxy",
                                 .note = ""};
    event_recorder_report(recorder, &event);
    ck_assert_str_eq(request->path, "/apis/events.k8s.io/v1/namespaces/default/events");
    ck_assert_ptr_null(at("regarding.namespace"));
    expect_text("regarding.uid", "node-a");
    expect_text("type", "Normal");
    expect_text("note", "");
    answer(201);
    event = (struct object_event){.kind = KIND_SERVICECIDR,
                                  .id = "extra",
                                  .type = EVENT_WARNING,
                                  .reason = "InvalidObject",
                                  .action = "Read",
                                  .note = "bad"};
    event_recorder_report(recorder, &event);
    ck_assert_str_eq(request->path, "/apis/events.k8s.io/v1/namespaces/default/events");
    expect_text("regarding.apiVersion", "networking.k8s.io/v1");
    ck_assert_ptr_null(at("regarding.uid"));
}

TEST(texts_are_cut_to_what_the_server_takes)
{
    char id[300] = "shop/", note[2000];
    memset(id + 5, 'x', 253);
    memset(note, 'n', sizeof(note));
    for (size_t i = 0; i + 2 < sizeof(note); i += 2)
        memcpy(note + i, "\xc3\xa4", 2);
    note[sizeof(note) - 2] = note[sizeof(note) - 1] = '\0';
    id[5 + 234] = '.';
    report(id, note);
    const char *name = text_at("metadata.name");
    ck_assert_uint_le(strlen(name), 253);
    ck_assert_ptr_null(strstr(name, ".."));
    ck_assert_uint_le(strlen(text_at("note")), 1024);
    ck_assert_uint_ge(strlen(text_at("note")), 1022);
    unsigned char end = (unsigned char)text_at("note")[strlen(text_at("note")) - 1];
    ck_assert_int_eq(end, 0xa4);
}

/* ---- repetitions ---- */

TEST(a_repetition_is_only_counted)
{
    report("shop/web", "in use");
    char *name = xstrdup(text_at("metadata.name"));
    report("shop/web", "in use"); /* while it is on its way */
    answer(201);
    for (int i = 0; i < 3; i++) {
        pass(350);
        report("shop/web", "in use");
        ck_assert_ptr_null(request);
    }
    ck_assert_uint_eq(figures().repeated, 4);
    pass(500);
    ck_assert_ptr_null(timer); /* it is forgotten */
    report("shop/web", "in use");
    ck_assert_str_eq(request->method, "POST");
    ck_assert_str_ne(text_at("metadata.name"), name);
    free(name);
}

/* The server forgets events after an hour. */
TEST(what_goes_on_is_posted_now_and_then)
{
    for (int i = 0; i < 700; i++) { /* 70 minutes */
        report("shop/web", "in use");
        if (request)
            answer(201);
        pass(6);
    }
    ck_assert_uint_eq(sent, 3);
}

/* ---- what all nodes see ---- */

TEST(from_everywhere_it_has_one_name)
{
    report_everywhere("shop/web", "bad");
    char *name = xstrdup(text_at("metadata.name"));
    expect_text("note", "bad");
    answer_with(409, -1, "{\"kind\":\"Status\",\"reason\":\"AlreadyExists\",\"code\":409}");
    ck_assert_uint_eq(figures().posted, 1);
    ck_assert_uint_eq(logged_with(""), 0);
    report_everywhere("shop/web", "bad");
    ck_assert_ptr_null(request);
    event_recorder_free(recorder);
    make(5, 10);
    report_everywhere("shop/web", "bad");
    expect_text("metadata.name", name);
    answer(201);
    report_everywhere("shop/web", "worse");
    ck_assert_str_ne(text_at("metadata.name"), name);
    free(name);
}

/* ---- limits ---- */

/* Reports @n events, each of another object. */
static void report_many(int first, int n)
{
    for (int i = first; i < first + n; i++) {
        char *id = xasprintf("shop-%d/web-%d", i / 50, i);
        report(id, "in use");
        free(id);
    }
}

TEST(the_rate_holds_in_sum)
{
    double begin = now;
    report_many(0, 100);
    for (int i = 0; i < 100; i++) {
        wait_for_request(1);
        answer(201);
    }
    ck_assert_double_ge(now - begin, (100 - 10) / 5.0 - 0.01);
    ck_assert_double_le(now - begin, (100 - 10) / 5.0 + 0.01);
}

TEST(an_object_has_few)
{
    for (int i = 0; i < EVENTS_PER_OBJECT + 5; i++) {
        char *note = xasprintf("bad %d", i);
        report("shop/web", note);
        free(note);
    }
    ck_assert_uint_eq(figures().dropped, 5);
    report("shop/db", "bad");
    ck_assert_uint_eq(figures().dropped, 5);
}

/* A Service that is made again and again by other names. */
TEST(a_namespace_has_few)
{
    event_recorder_free(recorder);
    make(-1, 1);
    for (int i = 0; i < EVENTS_PER_NAMESPACE + 20; i++) {
        char *id = xasprintf("shop/web-%d", i);
        report(id, "in use");
        free(id);
        if (request)
            answer(201);
    }
    ck_assert_uint_eq(figures().posted, EVENTS_PER_NAMESPACE);
    ck_assert_uint_eq(figures().dropped, 20);
    report("other/web", "in use");
    ck_assert_ptr_nonnull(request);
}

TEST(all_are_few_while_the_server_is_slow)
{
    report_many(0, EVENTS_LIMIT + 50);
    ck_assert_uint_eq(figures().dropped, 50);
    ck_assert_uint_eq(sent, 1);
    answer(201); /* what is posted makes room */
    report_many(1000, 2);
    ck_assert_uint_eq(figures().dropped, 51);
}

/* ---- refusals ---- */

TEST(a_right_that_is_missing)
{
    report("shop/web", "in use");
    answer_with(403, -1, "{\"message\":\"events is forbidden\"}");
    ck_assert_uint_eq(logged_with(""), 1);
    ck_assert_ptr_nonnull(strstr(last_logged(LOG_LEVEL_INFO),
                                 "verb=create resource=events apiGroup=\"events.k8s.io\""));
    ck_assert(event_recorder_is_settled(recorder));
    report("shop/db", "in use");
    ck_assert_ptr_null(request);
    ck_assert_double_ge(wait_for_request(33), 30);
    answer(403);
    ck_assert_double_ge(wait_for_request(66), 60);
    ck_assert_uint_eq(logged_with(""), 1);
    answer(201);
    ck_assert_uint_eq(logged_with(""), 2);
    ck_assert_ptr_nonnull(strstr(last_logged(LOG_LEVEL_INFO), "accepts events again"));
    ck_assert_ptr_nonnull(request); /* the second one */
}

TEST(a_namespace_on_its_way_out)
{
    report("shop/web", "in use");
    report("shop/db", "in use");
    answer_with(403, -1,
                "{\"message\":\"unable to create new content in namespace shop because it is "
                "being terminated\"}");
    ck_assert_uint_eq(logged_with(""), 0);
    ck_assert_uint_eq(figures().failed, 1);
    ck_assert_ptr_nonnull(request);
}

TEST(what_the_server_will_never_take)
{
    static const long statuses[] = {400, 404, 405, 409, 413, 422, 500};
    for (size_t i = 0; i < sizeof(statuses) / sizeof(*statuses); i++) {
        report_many((int)i, 1);
        answer(statuses[i]);
        ck_assert_ptr_null(request);
        report_many((int)i, 1); /* nor a second time */
        ck_assert_ptr_null(request);
    }
    ck_assert_uint_eq(figures().failed, 7);
    ck_assert_uint_eq(logged_with(""), 7);
}

TEST(a_server_in_trouble_is_tried_again)
{
    static const long statuses[] = {0, 429, 502, 503, 401, 504};
    report("shop/web", "in use");
    for (size_t i = 0; i < sizeof(statuses) / sizeof(*statuses); i++) {
        answer(statuses[i]);
        ck_assert(event_recorder_is_settled(recorder));
        wait_for_request(61);
    }
    answer_with(429, 7, "");
    ck_assert_double_ge(wait_for_request(8.1), 7);
    answer(201);
    ck_assert_uint_eq(figures().posted, 1);
    ck_assert_uint_eq(figures().failed, 0);
}

/* One namespace's quota or webhook is nobody else's trouble. */
TEST(what_one_is_refused_for_holds_up_nobody)
{
    static const char *const bodies[] = {
        "{\"kind\":\"Status\",\"message\":\"events \\\"x\\\" is forbidden: exceeded quota: q\"}",
        "{\"kind\":\"Status\",\"message\":\"admission webhook \\\"w\\\" denied the request: no\"}",
    };
    for (size_t i = 0; i < 4; i++) {
        char *id = xasprintf("a/web-%zu", i);
        report(id, "in use");
        report("b/web", "in use");
        answer_with(403, -1, bodies[i % 2]);
        free(id);
        if (i == 0) {
            expect_text("regarding.namespace", "b");
            answer(201);
        }
        ck_assert_ptr_null(request);
    }
    ck_assert_uint_eq(logged_with(""), 1);
    ck_assert_ptr_null(strstr(last_logged(LOG_LEVEL_INFO), "RBAC"));
    ck_assert_uint_eq(figures().failed, 4);
}

TEST(a_busy_server_is_no_try)
{
    report("shop/web", "in use");
    for (int i = 0; i < 30; i++) {
        answer_with(429, 1, "");
        wait_for_request(3);
    }
    answer(201);
    ck_assert_uint_eq(figures().posted, 1);
}

TEST(but_not_for_ever)
{
    report("shop/web", "in use");
    for (int i = 0; i < 11; i++) {
        answer(0);
        wait_for_request(61);
    }
    answer(0);
    ck_assert_uint_eq(figures().failed, 1);
    ck_assert_uint_eq(logged_with(""), 0); /* those who read say that there is no server */
    pass(1000);
    ck_assert_ptr_null(timer);
}

TEST(without_credentials_it_waits)
{
    can_ask = false;
    report("shop/web", "in use");
    ck_assert_ptr_null(request);
    can_ask = true;
    let_time_come(2);
    ck_assert_ptr_nonnull(request);
    answer(201);
    ck_assert_uint_eq(figures().posted, 1);
}

UNIT_FIXTURE(setup, teardown)
