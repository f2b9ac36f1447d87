/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The reflector's state machine: what each ending leads to, and its watches (docs/behaviour.md 10.2
 * C). */
#include "reflector_fixture.h"

#include <math.h>

/* ------------------------------------------------------------ transitions */

/* Where the reflector is when the answer of a transition comes. */
enum place {
    STREAM_ASKED,   /* no 200 yet, no version known */
    STREAM_OPEN,    /* 200, no event */
    STREAM_BEGUN,   /* an initial event */
    STREAM_AGAIN,   /* asked with version 10, after a 410 in a watch */
    LIST_ASKED,     /* the first list */
    LIST_AGAIN,     /* asked with version 10 */
    PAGE_ASKED,     /* the second page */
    LIST_OPEN,      /* 200, nothing of the list */
    LIST_BEGUN,     /* half a list */
    WATCH_ASKED,    /* from version 10, after a list */
    WATCH_OPEN,     /* 200, no event */
    WATCH_PROVEN,   /* version 11, by an event */
    WATCH_STREAMED, /* the stream goes on, nothing since its end mark at 10 */
};

static void go_to_stream(enum place place)
{
    if (place == STREAM_ASKED)
        return;
    if (place == STREAM_AGAIN) {
        reach_watch();
        send_text(ERROR("410", "Expired", ""));
        expect_request("stream 10");
        return;
    }
    open_answer();
    if (place == STREAM_BEGUN)
        send_text(EVENT("ADDED", "b", "11"));
    if (place == WATCH_STREAMED)
        send_text(END_MARK("10"));
}

static void go_to_list(enum place place)
{
    if (place == LIST_AGAIN) {
        go_to_stream(STREAM_AGAIN);
        answer(422, NULL, "");
        return;
    }
    reach_list();
    if (place == LIST_ASKED)
        return;
    if (place == PAGE_ASKED) {
        answer_list(LIST_BODY(VERSION("10") ",\"continue\":\"t\"", "[]"));
        return;
    }
    open_answer();
    if (place == LIST_BEGUN)
        send_pieces(LIST_BODY(VERSION("11"), "[" ITEM("b") "]"), 0, 3, 4);
}

static void go_to(enum place place)
{
    if (place <= STREAM_AGAIN || place == WATCH_STREAMED) {
        go_to_stream(place);
    } else if (place <= LIST_BEGUN) {
        go_to_list(place);
    } else if (place == WATCH_ASKED) {
        reach_list();
        answer_list(LIST_BODY(VERSION("10"), "[]"));
    } else {
        reach_watch();
        if (place == WATCH_PROVEN)
            send_text(EVENT("ADDED", "b", "11"));
    }
    forget(&seen);
    forget(&said);
}

struct transition {
    enum place from;
    long status; /* of the answer, 0 for none; TIMER: the time runs out; EVENT: @text comes */
    const char
        *text; /* the answer's body, or events; with status 0 or 200 how the transfer ended */
    const char *next;
    double low, high; /* how long it waits before that; 0: not at all */
    const char *logged;
    unsigned failures, bad_answers;
};

#define TIMER (-1)
#define EVENT_COMES (-2)
#define SOON 0.8, 1.6
#define AT_ONCE 0, 0
#define MESSAGE(text) " message=\"" text "\"\n"
#define BUSY "the server is busy status=429"
#define TROUBLE(code) "the server failed status=" code
#define NO_CREDENTIALS                                                                             \
    "the server rejected the token or the client certificate (each try reads the token file "      \
    "again) "                                                                                      \
    "status=401"
#define NO_RIGHT(verb)                                                                             \
    "the RBAC permission is missing status=403 verb=" verb " resource=services apiGroup=\"\""
#define NO_API "the server does not have this API status=404 apiVersion=v1 resource=services"
#define TOO_OLD "the requested resource version is too old for the server status=410"
#define FUTURE "the server does not have this resource version yet status=504"
#define CANNOT_LIST "warn: cannot list services: "
#define CANNOT_WATCH "warn: cannot watch services: "
#define UNREADABLE_LIST CANNOT_LIST "the answer cannot be read"
#define UNREADABLE_EVENT CANNOT_WATCH "an event cannot be read"

static const struct transition transitions[] = {
    /* A stream that is refused gives way to the list, silently ... */
    {STREAM_ASKED, 400, "no", "list 0 limit=500", AT_ONCE, "", 1, 0},
    {STREAM_ASKED, 401, "no", "list 0 limit=500", AT_ONCE, "", 1, 0},
    {STREAM_ASKED, 403, "no", "list 0 limit=500", AT_ONCE, "", 1, 0},
    {STREAM_ASKED, 404, "no", "list 0 limit=500", AT_ONCE, "", 1, 0},
    {STREAM_ASKED, 422, "no", "list 0 limit=500", AT_ONCE, "", 1, 0},
    {STREAM_ASKED, 500, "no", "list 0 limit=500", AT_ONCE, "", 1, 0},
    {STREAM_ASKED, 503, "no", "list 0 limit=500", AT_ONCE, "", 1, 0},
    {STREAM_ASKED, 504, "no", "list 0 limit=500", AT_ONCE, "", 1, 0},
    {STREAM_AGAIN, 422, "no", "list 10", AT_ONCE, "", 1, 0},
    {STREAM_ASKED, TIMER, NULL, "list 0 limit=500", 30, 32, "", 1, 0},
    {STREAM_BEGUN, TIMER, NULL, "list 0 limit=500", 60, 60, "", 1, 0},
    {STREAM_OPEN, 200, NULL, "list 0 limit=500", AT_ONCE, "", 1, 0},
    {STREAM_OPEN, 200, "cut", "list 0 limit=500", AT_ONCE, "", 1, 0},
    /* ... also by an event (046, 114), or by garbage. */
    {STREAM_OPEN, EVENT_COMES, ERROR("500", "InternalError", ""), "list 0 limit=500", AT_ONCE, "",
     1, 0},
    {STREAM_BEGUN, EVENT_COMES, ERROR("403", "Forbidden", ""), "list 0 limit=500", AT_ONCE, "", 1,
     0},
    {STREAM_OPEN, EVENT_COMES, "<html>", "list 0 limit=500", AT_ONCE, "", 0, 1},
    {STREAM_BEGUN, EVENT_COMES, EVENT("SPLIT", "b", "12"), "list 0 limit=500", AT_ONCE, "", 0, 1},
    /* But not if the server is away or busy. */
    {STREAM_ASKED, 0, "refused", "stream", SOON, CANNOT_LIST "refused\n", 1, 0},
    {STREAM_ASKED, 429, "wait", "stream", SOON, CANNOT_LIST BUSY MESSAGE("wait"), 1, 0},
    {STREAM_BEGUN, EVENT_COMES, ERROR("429", "TooManyRequests", "\"retryAfterSeconds\":9"),
     "stream", 9, 10, CANNOT_LIST BUSY MESSAGE("TooManyRequests said"), 1, 0},
    /* A version that it does not have is left out (084). */
    {STREAM_AGAIN, 410, "", "stream", AT_ONCE, "", 1, 0},
    {STREAM_AGAIN, 504, STATUS("504", "Timeout", TOO_LARGE), "stream", AT_ONCE, "", 1, 0},
    {STREAM_ASKED, 410, "old", "stream", SOON, CANNOT_LIST TOO_OLD MESSAGE("old"), 1, 0},
    {STREAM_OPEN, EVENT_COMES, ERROR("504", "Timeout", TOO_LARGE), "stream", SOON,
     CANNOT_LIST FUTURE MESSAGE("Timeout said"), 1, 0},
    /* One that was cut is begun again. */
    {STREAM_BEGUN, 200, NULL, "stream", AT_ONCE, "", 1, 0},
    {STREAM_BEGUN, 200, "cut", "stream", AT_ONCE, "", 1, 0},

    /* Behind a list that failed comes the stream. */
    {LIST_ASKED, 0, "refused", "stream", SOON, CANNOT_LIST "refused\n", 1, 0},
    {LIST_ASKED, 401, "no", "stream", SOON, CANNOT_LIST NO_CREDENTIALS MESSAGE("no"), 1, 0},
    {LIST_ASKED, 403, "no", "stream", SOON, CANNOT_LIST NO_RIGHT("list") MESSAGE("no"), 1, 0},
    {LIST_ASKED, 404, "no", "stream", SOON, CANNOT_LIST NO_API MESSAGE("no"), 1, 0},
    {LIST_ASKED, 429, "wait", "stream", SOON, CANNOT_LIST BUSY MESSAGE("wait"), 1, 0},
    {LIST_ASKED, 500, "no", "stream", SOON, CANNOT_LIST TROUBLE("500") MESSAGE("no"), 1, 0},
    {LIST_ASKED, TIMER, NULL, "stream", 65, 65, CANNOT_LIST "no answer in time\n", 1, 0},
    {LIST_OPEN, TIMER, NULL, "stream", 60, 60, CANNOT_LIST "the answer stalled\n", 1, 0},
    {LIST_BEGUN, TIMER, NULL, "stream", 60, 60, CANNOT_LIST "the answer stalled\n", 1, 0},
    {LIST_BEGUN, 200, "cut", "stream", SOON, CANNOT_LIST "cut\n", 1, 0},
    {LIST_OPEN, EVENT_COMES, "{\"kind\":\"NodeList\",\"items\":[{}]}", "stream", SOON,
     UNREADABLE_LIST MESSAGE("the response is not a list of Service objects"), 0, 1},
    {LIST_ASKED, 410, "", "list limit=500", AT_ONCE, "", 1, 0},
    {LIST_AGAIN, 410, "", "list", AT_ONCE, "", 1, 0},
    {LIST_AGAIN, 504, STATUS("504", "Timeout", TOO_LARGE), "list", AT_ONCE, "", 1, 0},
    {LIST_AGAIN, 400, "bad", "stream", SOON,
     CANNOT_LIST "the server refused status=400" MESSAGE("bad"), 1, 0},
    {LIST_AGAIN, 500, "no", "stream 10", SOON, CANNOT_LIST TROUBLE("500") MESSAGE("no"), 1, 0},
    {PAGE_ASKED, 410, "", "list 10", AT_ONCE, "", 1, 0},
    {PAGE_ASKED, 500, "no", "stream", SOON, CANNOT_LIST TROUBLE("500") MESSAGE("no"), 1, 0},

    /* A watch stays one, unless the server says that it cannot. */
    {WATCH_ASKED, 0, "refused", "watch 10", SOON, CANNOT_WATCH "refused\n", 1, 0},
    {WATCH_ASKED, TIMER, NULL, "watch 10", 30, 32, CANNOT_WATCH "no answer in time\n", 1, 0},
    {WATCH_ASKED, 401, "no", "watch 10", SOON, CANNOT_WATCH NO_CREDENTIALS MESSAGE("no"), 1, 0},
    {WATCH_ASKED, 403, "no", "watch 10", SOON, CANNOT_WATCH NO_RIGHT("watch") MESSAGE("no"), 1, 0},
    {WATCH_ASKED, 404, "no", "watch 10", SOON, CANNOT_WATCH NO_API MESSAGE("no"), 1, 0},
    {WATCH_ASKED, 429, "wait", "watch 10", SOON, CANNOT_WATCH BUSY MESSAGE("wait"), 1, 0},
    {WATCH_ASKED, 500, "no", "watch 10", SOON, CANNOT_WATCH TROUBLE("500") MESSAGE("no"), 1, 0},
    {WATCH_ASKED, 503, "no", "watch 10", SOON, CANNOT_WATCH TROUBLE("503") MESSAGE("no"), 1, 0},
    {WATCH_ASKED, 400, "no", "stream 10", SOON,
     CANNOT_WATCH "the server refused status=400" MESSAGE("no"), 1, 0},
    {WATCH_ASKED, 410, "", "stream 10", AT_ONCE, "", 1, 0},
    {WATCH_ASKED, 504, STATUS("504", "Timeout", TOO_LARGE), "stream", AT_ONCE, "", 1, 0},
    {WATCH_OPEN, 200, NULL, "watch 10", SOON, CANNOT_WATCH "it ended at once without an event\n", 0,
     0},
    {WATCH_STREAMED, 200, NULL, "watch 10", SOON,
     CANNOT_WATCH "it ended at once without an event\n", 0, 0},
    {WATCH_PROVEN, 200, NULL, "watch 11", AT_ONCE, "", 0, 0},
    {WATCH_PROVEN, 200, "cut", "watch 11", AT_ONCE, "", 1, 0},
    {WATCH_OPEN, EVENT_COMES, ERROR("410", "Expired", ""), "stream 10", AT_ONCE, "", 1, 0},
    {WATCH_PROVEN, EVENT_COMES, ERROR("410", "Gone", ""), "stream 11", AT_ONCE, "", 1, 0},
    {WATCH_STREAMED, EVENT_COMES, ERROR("410", "Expired", ""), "stream 10", AT_ONCE, "", 1, 0},
    {WATCH_OPEN, EVENT_COMES, ERROR("504", "Timeout", TOO_LARGE), "stream", AT_ONCE, "", 1, 0},
    {WATCH_OPEN, EVENT_COMES, ERROR("429", "TooManyRequests", ""), "watch 10", SOON,
     CANNOT_WATCH BUSY MESSAGE("TooManyRequests said"), 1, 0},
    {WATCH_OPEN, EVENT_COMES, ERROR("500", "InternalError", ""), "stream 10", SOON,
     CANNOT_WATCH TROUBLE("500") MESSAGE("InternalError said"), 1, 0},
    {WATCH_PROVEN, EVENT_COMES, EVENT("SPLIT", "b", "12"), "stream 11", SOON,
     UNREADABLE_EVENT MESSAGE("an event of the unknown type \"SPLIT\""), 0, 1},
};

static void let_come(const struct transition *t)
{
    if (t->status == TIMER)
        pass_time(t->low, t->high);
    else if (t->status == EVENT_COMES)
        send_text(t->text);
    else if (t->status == 0 || t->status == 200)
        answer(t->status, t->text, "");
    else
        answer(t->status, NULL, t->text);
}

TEST_ROWS(transition, transitions)
{
    struct reflector_figures before;
    go_to(row->from);
    reflector_figures(reflector, &before);
    let_come(row);
    expect_seen("");
    expect_logged(row->logged);
    if (!request)
        back_off(row->status == TIMER ? 0.8 : row->low, row->status == TIMER ? 1.6 : row->high);
    else
        ck_assert(row->status == TIMER || row->high == 0);
    expect_request(row->next);
    expect_logged("");
    before.failures += row->failures;
    before.bad_answers += row->bad_answers;
    expect_figures(before, reflector);
}

/* -------------------------------------------------------------- watches */

TEST(watch_request)
{
    reach_list();
    answer_list(LIST_BODY(VERSION("10"), "[]"));
    char *seconds = parameter("timeoutSeconds");
    ck_assert_int_ge(atoi(seconds), 300);
    ck_assert_int_le(atoi(seconds), 600);
    ck_assert_double_eq(request->timeout, atoi(seconds) + 30);
    char *bookmarks = parameter("allowWatchBookmarks");
    ck_assert_str_eq(bookmarks, "true");
    free(bookmarks);
    free(seconds);
}

TEST(events_cut_anywhere)
{
    bytes events = encoded(EVENT("ADDED", "b", "11") EVENT("MODIFIED", "a", "12") BOOKMARK("13")
                               EVENT("DELETED", "b", "14"));
    for (size_t i = 0; i <= events.n; i++) {
        teardown();
        setup();
        reach_watch();
        send_bytes(events.v, i);
        send_bytes(events.v + i, events.n - i);
        expect_seen("put shop/b\nput shop/a\nremove Service shop/b\n");
        answer(200, NULL, "");
        expect_request("watch 14");
    }
    teardown();
    setup();
    reach_watch();
    for (size_t i = 0; i < events.n; i++)
        send_bytes(events.v + i, 1);
    expect_seen("put shop/b\nput shop/a\nremove Service shop/b\n");
    expect_logged("");
    vec_free(&events);
}

TEST(cut_watch_goes_on_from_the_last_whole_event)
{
    reach_watch();
    send_text(EVENT("ADDED", "b", "11"));
    send_pieces(EVENT("ADDED", "c", "12"), 0, 1, 2);
    answer(200, "the connection was interrupted", "");
    expect_request("watch 11");
    expect_seen("put shop/b\n");
    expect_logged("");
}

/* Once; too old again before anything went well, it waits. */
TEST(too_old_takes_all_anew_at_once)
{
    reach_watch();
    send_text(EVENT("MODIFIED", "a", "12") ERROR("410", "Expired", ""));
    expect_request("stream 12");
    open_answer();
    send_text(EVENT("ADDED", "z", "3") END_MARK("30"));
    expect_seen("put shop/a\nreplace Service: shop/z\n");
    expect_logged("");
    send_text(ERROR("410", "Expired", ""));
    expect_logged("warn: cannot watch services: the requested resource version is too old for the "
                  "server status=410 message=\"Expired said\"\n");
    back_off(0.8, 1.6);
    expect_request("stream 30");
    open_answer();
    send_text(END_MARK("31"));
    expect_logged(""); /* it may be too old again */
    send_text(BOOKMARK("32"));
    expect_logged("info: watching again resource=services\n");
    send_text(ERROR("410", "Gone", ""));
    expect_request("stream 32"); /* who has waited need not wait again */
    open_answer();
    send_text(END_MARK("33") BOOKMARK("33"));
    send_text(ERROR("410", "Gone", "")); /* but this would be contents without end */
    back_off(1.6, 3.2);
    expect_request("stream 33");
    open_answer();
    send_text(END_MARK("33") ERROR("410", "Gone", ""));
    expect_request("stream 33");
    open_answer();
    send_text(END_MARK("33") BOOKMARK("34"));
    now += 61; /* a watch that has lasted */
    send_text(ERROR("410", "Gone", ""));
    expect_request("stream 34");
    forget(&said);
    expect_figures((struct reflector_figures){.lists = 6, .events = 1, .failures = 7}, reflector);
}

TEST(bad_objects_in_a_watch)
{
    reach_watch();
    send_text("{\"type\":\"MODIFIED\",\"object\":" OBJECT("a", "11", "70000") "}");
    expect_seen("put shop/a?\n");
    ck_assert_ptr_nonnull(strstr(said, "warn: bad object: "));
    ck_assert_ptr_nonnull(strstr(said, "shop/a"));
    /* To go, a name is enough. */
    send_text("{\"type\":\"DELETED\",\"object\":" OBJECT("a", "14", "70000") "}");
    expect_seen("remove Service shop/a\n");
    /* The watch itself is fine. */
    answer(200, NULL, "");
    expect_request("watch 14");
    expect_figures(
        (struct reflector_figures){.lists = 1, .events = 2, .bad_objects = 1, .failures = 1},
        reflector);
}

TEST(trouble_is_said_once)
{
    double low = 0.8;
    for (int i = 0; i < 4; i++, low *= 2) {
        answer(0, "Failed to connect: Connection refused", "");
        back_off(low, low * 2);
        expect_request("stream");
    }
    expect_logged("warn: cannot list services: Failed to connect: Connection refused\n");
    for (int i = 0; i < 2; i++) {
        answer(401, NULL, STATUS("401", "Unauthorized", ""));
        answer(401, NULL, STATUS("401", "Unauthorized", ""));
        back_off(12.8, 60);
    }
    expect_logged("warn: cannot list services: " NO_CREDENTIALS MESSAGE("Unauthorized said"));
    answer(403, NULL, STATUS("403", "Forbidden", ""));
    answer(403, NULL, STATUS("403", "Forbidden", ""));
    expect_logged("warn: cannot list services: " NO_RIGHT("list") MESSAGE("Forbidden said"));
    back_off(25, 60);
    open_answer();
    send_text(END_MARK("10"));
    expect_seen("replace Service:\n");
    expect_listed(0, ""); /* not yet: it may end at once */
    send_text(BOOKMARK("11"));
    expect_logged("info: watching again resource=services\n");
    expect_figures((struct reflector_figures){.lists = 1, .failures = 10}, reflector);
}

TEST(retry_after_is_what_it_waits)
{
    double low = 0.8;
    for (int i = 0; i < 6; i++, low *= 2) {
        answer(0, "reset", "");
        back_off(low, low * 2);
    }
    expect_logged("warn: cannot list services: reset\n");
    answer_after(429, 5, NULL, "Too many requests, please try again later.");
    back_off(5, 6);
    expect_request("stream");
    answer_after(429, 1e6, NULL, "");
    back_off(300, 330);
    expect_logged("warn: cannot list services: the server is busy status=429 "
                  "message=\"Too many requests, please try again later.\"\n");
    reach_list();
    answer_after(503, 7, NULL, "");
    expect_logged("warn: cannot list services: the server failed status=503\n");
    back_off(7, 8);
    reach_watch();
    send_text(ERROR("429", "TooManyRequests", "\"retryAfterSeconds\":9"));
    back_off(9, 10);
    expect_request("watch 10");
}

/* A server that always says "in a second" is asked less and less often. */
TEST(retry_after_holds_some_times)
{
    for (int i = 0; i < 10; i++) {
        answer_after(429, 1, NULL, "");
        back_off(1, 2);
    }
    for (double low = 0.8; low < 20; low *= 2) {
        answer_after(429, 1, NULL, "");
        back_off(fmax(low, 1), fmax(low * 2, 2));
    }
    forget(&said);
    reach_watch();
    send_text(BOOKMARK("11"));
    answer(200, NULL, "");
    answer_after(429, 1, NULL, "");
    back_off(1, 2);
}

/* Not what comes and goes at once, for ever, however it looks. */
TEST(watches_that_do_not_last)
{
    reach_watch();
    for (int i = 0; i < 10; i++) {
        send_text(BOOKMARK("11"));
        answer(200, NULL, "");
        expect_request("watch 11");
        open_answer();
    }
    send_text(BOOKMARK("11"));
    answer(200, NULL, "");
    back_off(0.8, 1.6);
    open_answer();
    now += 2;
    send_text(BOOKMARK("11"));
    answer(200, NULL, "");
    expect_request("watch 11");
    expect_logged("");
}

/* A version that was too large is forgotten with it: the next one is good again. */
TEST(versions_are_good_again)
{
    reach_watch();
    send_text(ERROR("504", "Timeout", TOO_LARGE));
    expect_request("stream");
    open_answer();
    send_text(END_MARK("3") EVENT("ADDED", "b", "4"));
    now += 61;
    send_text(ERROR("410", "Expired", ""));
    expect_request("stream 4");
    answer(504, NULL, STATUS("504", "Timeout", TOO_LARGE));
    expect_request("stream");
    answer(422, NULL, "");
    expect_request("list");
    answer_list(LIST_BODY(VERSION("2"), "[]"));
    open_answer();
    send_text(BOOKMARK("5"));
    now += 61;
    send_text(ERROR("410", "Expired", ""));
    expect_request("stream 5");
}

/* What a rolling restart of the servers brings: resumes, no lists. */
TEST(lists_and_resumes_are_told_apart)
{
    reach_streamed_watch();
    send_text(EVENT("ADDED", "b", "11"));
    answer(200, NULL, "");
    expect_figures((struct reflector_figures){.lists = 1, .events = 1},
                   reflector); /* not open yet */
    answer(0, "refused", "");
    back_off(0.8, 1.6);
    open_answer();
    expect_figures((struct reflector_figures){.lists = 1, .resumes = 1, .events = 1, .failures = 1},
                   reflector);
    send_text(BOOKMARK("12"));
    answer(200, "cut", "");
    open_answer();
    expect_figures((struct reflector_figures){.lists = 1, .resumes = 2, .events = 1, .failures = 2},
                   reflector);
    send_text(ERROR("410", "Expired", ""));
    expect_logged("warn: cannot watch services: refused\n"
                  "info: watching again resource=services\n");
    reach_list();
    answer_list(LIST_BODY(VERSION("20"), "[]"));
    answer(503, NULL, "");
    back_off(1.6, 3.2);
    open_answer(); /* still the watch that belongs to the list */
    expect_figures((struct reflector_figures){.lists = 2, .resumes = 2, .events = 1, .failures = 5},
                   reflector);
    send_text(EVENT("DELETED", "b", "11")); /* an older version is no matter */
    answer(200, NULL, "");
    expect_request("watch 11");
    open_answer();
    expect_figures((struct reflector_figures){.lists = 2, .resumes = 3, .events = 2, .failures = 5},
                   reflector);
}

TEST(request_that_cannot_start)
{
    reach_watch();
    pass_time(1, 1);
    server.fault = "no token: /token is empty";
    answer(200, NULL, "");
    expect_logged("warn: cannot watch services: no token: /token is empty\n");
    back_off(0.8, 1.6);
    back_off(1.6, 3.2);
    server.fault = NULL;
    back_off(3.2, 6.4);
    expect_request("watch 10");
    expect_logged("");
    expect_figures((struct reflector_figures){.lists = 1, .failures = 4}, reflector);
}

/* A server may lack the API or the right to it. That is said, and asked for again without end; a
 * right that is granted later, or a server that is newer, is all it needs. An old server is no
 * trouble and no failure. */
TEST(service_cidrs_that_are_not_to_be_had)
{
    reflector_free(reflector);
    start(KIND_SERVICECIDR);
    for (int i = 0; i < 8; i++) {
        ck_assert_ptr_eq(
            strstr(request->path, "/apis/networking.k8s.io/v1/servicecidrs?watch=true"),
            request->path);
        answer(404, NULL, "404 page not found");
        expect_request("list 0 limit=500");
        answer(404, NULL, "404 page not found");
        ck_assert(reflector_has_answer(reflector));
        back_off(i < 5 ? 0.8 : 300, i < 5 ? 60 : 330);
    }
    expect_logged("info: the server has no servicecidrs of networking.k8s.io/v1, which Kubernetes "
                  "has since 1.33: traffic to unallocated cluster IPs is not dropped\n");
    expect_figures((struct reflector_figures){0}, reflector);
    for (int i = 0; i < 2; i++) {
        answer(403, NULL, "");
        answer(403, NULL, STATUS("403", "Forbidden", ""));
        back_off(0.8, 60);
    }
    expect_logged("warn: cannot list servicecidrs.networking.k8s.io: the RBAC permission is "
                  "missing status=403 verb=list resource=servicecidrs "
                  "apiGroup=\"networking.k8s.io\" message=\"Forbidden said\"\n");
    expect_figures((struct reflector_figures){.failures = 4}, reflector);
    expect_seen("");
    answer(422, NULL, "");
    answer_list(
        "{\"kind\":\"ServiceCIDRList\",\"apiVersion\":\"networking.k8s.io/v1\","
        "\"metadata\":{" VERSION("7") "},\"items\":[{\"metadata\":{\"name\":\"kubernetes\"},"
                                      "\"spec\":{\"cidrs\":[\"10.96.0.0/12\"]}}]}");
    expect_seen("replace ServiceCIDR: kubernetes\n");
}

TEST(nobody_knows_us)
{
    static const char body[] = "{\"kind\":\"Status\",\"message\":\"User \\\"system:anonymous\\\" "
                               "cannot list\",\"code\":403}";
    answer(403, NULL, body);
    answer(403, NULL, body);
    ck_assert_ptr_eq(strstr(said, "warn: cannot list services: the server got no credentials, or "
                                  "did not accept them status=403 message="),
                     said);
}

/* Only a whole list, or what is like one, is an answer to what there is. */
TEST(answers)
{
    static const long no_answers[] = {0, 401, 429, 500, 503};
    for (size_t i = 0; i < sizeof(no_answers) / sizeof(*no_answers); i++) {
        for (int requests = 0; request; requests++) {
            ck_assert_int_le(requests, 1); /* the stream, and perhaps the list */
            answer(no_answers[i], no_answers[i] ? NULL : "reset", "");
            ck_assert(!reflector_has_answer(reflector));
        }
        back_off(0.8, 60);
    }
    forget(&said);
    reach_list();
    answer_list(LIST_BODY(VERSION("10") ",\"continue\":\"more\"", "[]"));
    ck_assert(!reflector_has_answer(reflector));
    answer(410, NULL, STATUS("410", "Expired", ""));
    ck_assert(!reflector_has_answer(reflector));
    answer_list(LIST_BODY(VERSION("11"), "[]"));
    ck_assert(reflector_has_answer(reflector));
    open_answer();
    send_text(ERROR("410", "Expired", ""));
    ck_assert(reflector_has_answer(reflector));
}
