/* SPDX-License-Identifier: GPL-2.0-or-later */
/* How the reflector takes all there is: by a streamed list, or by pages (docs/behaviour.md 10.2 A
 * and B). */
#include "reflector_fixture.h"

#include "source/reflector_state.h"

#include <math.h>

#define SERVICES                                                                                   \
    "/api/v1/services?labelSelector=%21service.kubernetes.io%2Fservice-proxy-name"                 \
    "&fieldSelector=spec.clusterIP%21%3DNone"

/* ---------------------------------------------------------------- streams */

/* The one answer is list and watch. */
TEST(streamed_list)
{
    char *seconds = parameter("timeoutSeconds");
    ck_assert_int_ge(atoi(seconds), 300);
    ck_assert_int_le(atoi(seconds), 600);
    ck_assert_double_eq(request->timeout, atoi(seconds) + 30);
    char *path = xasprintf("%s&watch=true&allowWatchBookmarks=true&sendInitialEvents=true"
                           "&resourceVersionMatch=NotOlderThan&timeoutSeconds=%s",
                           SERVICES, seconds);
    ck_assert_str_eq(request->path, path);
    open_answer();
    send_text(EVENT("ADDED", "b", "9") EVENT("ADDED", "a", "3"));
    expect_seen("");
    ck_assert(!reflector_has_answer(reflector));
    send_text(END_MARK("20"));
    expect_seen("replace Service: shop/b shop/a\n");
    expect_listed(2, "");
    ck_assert(reflector_has_answer(reflector));
    send_text(EVENT("MODIFIED", "b", "21") EVENT("DELETED", "a", "22"));
    expect_seen("put shop/b\nremove Service shop/a\n");
    ck_assert_ptr_null(timer); /* it may be quiet for as long as it likes */
    answer(200, NULL, "");
    expect_request("watch 22");
    expect_logged("");
    free(path);
    free(seconds);
}

TEST(stream_cut_anywhere)
{
    bytes events = encoded(EVENT("ADDED", "b", "11") EVENT("ADDED", "a", "12") BOOKMARK("13")
                               END_MARK("14") EVENT("DELETED", "b", "15"));
    for (size_t i = 0; i <= events.n; i += 3) {
        teardown();
        setup();
        open_answer();
        send_bytes(events.v, i);
        send_bytes(events.v + i, events.n - i);
        expect_seen("replace Service: shop/b shop/a\nremove Service shop/b\n");
    }
    vec_free(&events);
}

/* What the sink is told of what changed among the initial events; it takes a later object of the
 * same id for the newer one. */
TEST(changes_among_the_initial_events)
{
    static const struct {
        const char *events;
        const char *seen;
    } cases[] = {
        {EVENT("ADDED", "a", "1") EVENT("MODIFIED", "a", "2"), "shop/a shop/a"},
        {EVENT("ADDED", "a", "1") EVENT("ADDED", "b", "1") EVENT("DELETED", "a", "2"), "shop/b"},
        {EVENT("ADDED", "a", "1") EVENT("DELETED", "a", "2") EVENT("ADDED", "a", "3"), "shop/a"},
        {EVENT("ADDED", "a", "1") EVENT("DELETED", "a", "2") EVENT("ADDED", "a", "3")
             EVENT("ADDED", "b", "1") EVENT("DELETED", "a", "4"),
         "shop/b"},
        {EVENT("DELETED", "a", "2") EVENT("ADDED", "b", "1"), "shop/b"},
        {EVENT("ADDED", "a", "1") BAD_EVENT("MODIFIED", "a", "2"), "shop/a shop/a?"},
        {BAD_EVENT("ADDED", "a", "1") EVENT("ADDED", "b", "2"), "shop/a? shop/b"},
        {BAD_EVENT("ADDED", "a", "1") BAD_EVENT("DELETED", "a", "2") EVENT("ADDED", "b", "2"),
         "shop/b"},
        {"{\"type\":\"ADDED\",\"object\":{\"metadata\":7}}\n" EVENT("ADDED", "b", "2"), "shop/b"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        teardown();
        setup();
        open_answer();
        send_text(cases[i].events);
        expect_seen("");
        send_text(END_MARK("20"));
        char *expected = xasprintf("replace Service: %s\n", cases[i].seen);
        expect_seen(expected);
        free(expected);
        answer(200, NULL, "");
        pass_time(0.8, 1.6); /* no event since the end mark */
        expect_request("watch 20");
    }
}

TEST(bad_objects_in_a_stream)
{
    open_answer();
    send_text(BAD_EVENT("ADDED", "a", "1") "{\"type\":\"ADDED\",\"object\":{\"metadata\":7}}\n");
    ck_assert_ptr_nonnull(strstr(said, "warn: bad object: "));
    ck_assert_ptr_nonnull(strstr(said, "shop/a"));
    send_text(EVENT("ADDED", "b\xff", "2"));
    ck_assert_ptr_nonnull(strstr(said, "\\xff\" is not UTF-8"));
    send_text(END_MARK("20"));
    expect_seen("replace Service: shop/a?\n");
    expect_figures((struct reflector_figures){.lists = 1, .bad_objects = 3}, reflector);
}

/* A bookmark ends the initial events by its annotation alone, and that just with the value "true".
 */
TEST(bookmarks_that_end_nothing)
{
    static const char *const marks[] = {
        BOOKMARK("30"),
        MARK(VERSION("30") "," END("\"false\"")),
        MARK(VERSION("30") "," END("\"\"")),
        MARK(VERSION("30") "," END("true")),
        MARK(VERSION("30") ",\"annotations\":null"),
        MARK(VERSION("30") ",\"annotations\":[\"k8s.io/initial-events-end\",\"true\"]"),
    };
    for (size_t i = 0; i < sizeof(marks) / sizeof(*marks); i++) {
        teardown();
        setup();
        open_answer();
        send_text(EVENT("ADDED", "a", "5"));
        send_text(marks[i]);
        expect_seen("");
        answer(200, NULL, "");
        expect_request("stream"); /* nor is its version remembered */
    }
}

TEST(end_mark_without_a_version)
{
    open_answer();
    send_text(EVENT("ADDED", "a", "5") MARK(END("\"true\"")));
    expect_seen("");
    expect_request("list 0 limit=500");
    expect_figures((struct reflector_figures){.bad_answers = 1}, reflector);
}

/* It comes unasked in an ordinary watch, too (recordings 041, 042). */
TEST(end_mark_in_a_watch_is_a_bookmark)
{
    reach_watch();
    send_text(END_MARK("20"));
    expect_seen("");
    answer(200, NULL, "");
    expect_request("watch 20");
    open_answer();
    send_text(EVENT("ADDED", "b", "21"));
    expect_seen("put shop/b\n");
}

/* A stream that is cut counts for nothing. It is begun again at once, but not twice in a row. */
TEST(cut_before_the_end_mark)
{
    open_answer();
    send_text(EVENT("ADDED", "a", "5") EVENT("MODIFIED", "a", "12"));
    answer(200, "the connection was interrupted", "");
    expect_request("stream");
    expect_logged("");
    open_answer();
    pass_time(1, 1); /* it lasted, though nothing came */
    answer(200, NULL, "");
    expect_logged("warn: cannot list services: it ended before all objects were sent\n");
    for (int i = 0; i < 2; i++) {
        back_off(0.8, 3.2);
        expect_request("stream");
        open_answer();
        send_text(EVENT("ADDED", "b", "6"));
        answer(200, NULL, "");
        expect_logged("");
    }
    back_off(3.2, 6.4);
    reach_streamed_watch();
    send_text(BOOKMARK("12"));
    expect_logged("info: watching again resource=services\n");
    send_text(ERROR("410", "Expired", ""));
    expect_request("stream 12");
    open_answer();
    send_text(EVENT("ADDED", "b", "6"));
    answer(200, NULL, "");
    expect_request("stream 12"); /* the row is over */
    expect_figures((struct reflector_figures){.lists = 1, .failures = 6}, reflector);
}

/* Bytes keep it alive, silence does not. */
TEST(stalled_stream)
{
    static const char event[] = EVENT("ADDED", "a", "5");
    open_answer();
    send_pieces(event, 0, 1, 9);
    pass_time(1, 1);
    send_pieces(event, 1, 2, 9);
    ck_assert_double_eq(timer->at, 60);
    now += 280;
    send_pieces(event, 2, 3, 9);
    ck_assert_double_eq(timer->at, 20); /* nor may all of it take for ever */
    pass_time(20, 20);
    expect_seen("");
    expect_request("list 0 limit=500");
    expect_figures((struct reflector_figures){.failures = 1}, reflector);
}

/* Sends @count times @item, as long as the reflector takes it. */
static void send_items(const char *item, size_t count)
{
    char *text = xcalloc(strlen(item) * 1000 + 1, 1);
    for (int i = 0; i < 1000; i++)
        strcat(text + (size_t)i * strlen(item), item);
    for (size_t i = 0; i < count / 1000 && request; i++)
        send_text(text);
    free(text);
}

/* A million objects take long to send: for the test, some are enough. */
static void lower_limit(void)
{
    ck_assert_uint_eq(reflector->initial.limit, 1000000);
    ck_assert_uint_eq(reflector->initial.limit, 1000000);
    reflector->initial.limit = 3000;
}

TEST(endless_stream)
{
    lower_limit();
    open_answer();
    send_items("{\"type\":\"ADDED\",\"object\":{}}\n", 3000);
    ck_assert_ptr_nonnull(request);
    forget(&said);
    send_items("{\"type\":\"ADDED\",\"object\":{}}\n", 1000);
    /* A list would be as long. */
    expect_logged("warn: cannot list services: the answer cannot be read "
                  "message=\"more than 3000 objects\"\n");
    expect_figures((struct reflector_figures){.bad_objects = 3001, .bad_answers = 1}, reflector);
    back_off(0.8, 1.6);
    expect_request("stream");
    open_answer();
    send_items(EVENT("ADDED", "a", "1"), 3000); /* counted anew */
    ck_assert_ptr_nonnull(request);
    send_text(END_MARK("10"));
    forget(&seen);
    send_items(EVENT("ADDED", "a", "1"), 1000); /* a watch may have as many as it likes */
    ck_assert_ptr_nonnull(request);
}

/* Adding and deleting the same is no way around it. */
TEST(endless_changes)
{
    lower_limit();
    open_answer();
    send_items(EVENT("ADDED", "a", "1") EVENT("DELETED", "a", "2"), 1000);
    ck_assert_ptr_nonnull(request);
    send_items(EVENT("DELETED", "a", "2"), 1000);
    ck_assert_ptr_nonnull(request);
    send_text(EVENT("DELETED", "a", "2"));
    back_off(0.8, 1.6);
    expect_request("stream");
}

TEST(endless_list)
{
    if (encoding != ENCODING_JSON)
        return;
    reach_list();
    lower_limit();
    open_answer();
    send_text("{\"kind\":\"ServiceList\",\"metadata\":{" VERSION("10") "},\"items\":[{}");
    send_items(",{}", 2000);
    ck_assert_ptr_nonnull(request);
    forget(&said);
    send_items(",{}", 1000);
    expect_logged("warn: cannot list services: the answer cannot be read "
                  "message=\"more than 3000 objects\"\n");
    back_off(0.8, 1.6);
    expect_request("stream");
}

/* Nor is cutting it into pages. */
TEST(endless_pages)
{
    if (encoding != ENCODING_JSON)
        return;
    static const char head[] = "{\"kind\":\"ServiceList\",\"items\":[";
    reach_list();
    lower_limit();
    for (int page = 0; page < 2; page++) {
        open_answer();
        send_text(head);
        send_items(ITEM("a") ",", 1000);
        send_text(page == 0 ? ITEM("a") "],\"metadata\":{" VERSION("10") ",\"continue\":\"t0\"}}"
                            : ITEM("a") "],\"metadata\":{" VERSION("10") ",\"continue\":\"t1\"}}");
        answer(200, NULL, "");
        expect_request(page == 0 ? "list limit=500 continue=t0" : "list limit=500 continue=t1");
    }
    open_answer();
    send_text(head);
    send_items(ITEM("a") ",", 1000);
    back_off(0.8, 1.6);
    expect_request("stream");
}

/* A GiB is a server gone wrong, however few the objects; a list would be as long. */
TEST(contents_of_too_many_bytes)
{
    open_answer();
    send_text(EVENT("ADDED", "a", "1"));
    reflector->received = CONTENTS_LIMIT - 1;
    send_text(EVENT("ADDED", "b", "2"));
    expect_logged(
        "warn: cannot list services: the answer cannot be read message=\"it has more than "
        "1024 MiB\"\n");
    back_off(0.8, 1.6);
    expect_request("stream");
    reach_list();
    answer_list(LIST_BODY(VERSION("10") ",\"continue\":\"t\"", "[" ITEM("a") "]"));
    reflector->received = CONTENTS_LIMIT - 1;
    open_answer();
    send_pieces(LIST_BODY(VERSION("10"), "[" ITEM("a") "]"), 0, 1, 2);
    back_off(0.8, 3.2);
    expect_request("stream");
    open_answer();
    send_text(EVENT("ADDED", "a", "1") END_MARK("3"));
    expect_seen("replace Service: shop/a\n");
    expect_figures((struct reflector_figures){.lists = 1, .bad_answers = 2, .failures = 1},
                   reflector);
}

/* The selector may have taken all of a page; but each page leads on. */
TEST(pages_that_lead_nowhere)
{
    reach_list();
    answer_list(LIST_BODY(VERSION("10") ",\"continue\":\"t0\"", "[]"));
    answer_list(LIST_BODY(VERSION("10") ",\"continue\":\"t1\"", "[]"));
    expect_request("list limit=500 continue=t1");
    answer_list(LIST_BODY(VERSION("10") ",\"continue\":\"t1\"", "[" ITEM("a") "]"));
    expect_logged("warn: cannot list services: the answer cannot be read message=\"a page leads to "
                  "itself\"\n");
    back_off(0.8, 1.6);
    reach_list();
    for (int page = 0; page <= 10000; page++) {
        char *body = xasprintf(LIST_BODY(VERSION("10") ",\"continue\":\"%d\"", "[]"), page);
        answer_list(body);
        free(body);
    }
    back_off(0.8, 3.2);
    expect_request("stream");
}

/* A flood of bad objects is not one of lines. */
TEST(many_bad_objects)
{
    open_answer();
    send_items("{\"type\":\"ADDED\",\"object\":{}}\n", 1000);
    size_t lines = 0;
    for (const char *at = said; (at = strchr(at, '\n')) != NULL; at++)
        lines++;
    ck_assert_uint_eq(lines, 10);
    log_flush(INFINITY);
    ck_assert_ptr_nonnull(strstr(said, "(and 989 more of this kind)"));
    forget(&said);
    answer(200, NULL, "");
    open_answer();
    send_text("{\"type\":\"ADDED\",\"object\":{}}\n");
    log_flush(INFINITY);
    ck_assert_ptr_nonnull(strstr(said, "warn: bad object: "));
    expect_figures((struct reflector_figures){.bad_objects = 1001, .failures = 1}, reflector);
}

/* ---------------------------------------------------------------- lists */

TEST(pages_are_one_replacement)
{
    reach_list();
    ck_assert_str_eq(request->path, SERVICES "&resourceVersion=0&limit=500");
    answer_list(LIST_BODY(VERSION("10") ",\"continue\":\"t+1=\"", "[" ITEM("a") "," ITEM("b") "]"));
    ck_assert_str_eq(request->path, SERVICES "&limit=500&continue=t%2B1%3D");
    answer_list(LIST_BODY(VERSION("10") ",\"continue\":\"t2\",\"remainingItemCount\":1", "null"));
    expect_request("list limit=500 continue=t2");
    expect_seen("");
    answer_list(LIST_BODY(VERSION("11") ",\"continue\":\"\"", "[" ITEM("c") "]"));
    expect_seen("replace Service: shop/a shop/b shop/c\n");
    expect_request("watch 10");
}

/* Nothing of the list counts; after a while, the stream is asked for and refused again. */
static void expect_list_again(const char *log)
{
    expect_seen("");
    expect_logged(log);
    back_off(0.8, 61);
    expect_request("stream");
    reach_list();
    expect_request("list 0 limit=500");
}

TEST(part_of_a_list_is_nothing)
{
    reach_list();
    open_answer();
    send_pieces(LIST_BODY(VERSION("10"), "[" ITEM("a") "," ITEM("c") "]"), 0, 3, 4);
    answer(200, "the connection was interrupted", "");
    expect_list_again("warn: cannot list services: the connection was interrupted\n");
    /* A clean end in mid-list is no better, and what came before does not count. */
    open_answer();
    send_pieces(LIST_BODY(VERSION("10"), "[" ITEM("b") "," ITEM("c") "]"), 0, 3, 4);
    answer(200, NULL, "");
    ck_assert_ptr_nonnull(strstr(said, "warn: cannot list services: the answer cannot be read"));
    forget(&said);
    expect_list_again("");
    /* Nor are the pages before one that fails. */
    answer_list(LIST_BODY(VERSION("10") ",\"continue\":\"t\"", "[" ITEM("a") "]"));
    answer(500, NULL, STATUS("500", "InternalError", ""));
    expect_list_again("warn: cannot list services: the server failed status=500 "
                      "message=\"InternalError said\"\n");
    answer_list(LIST_BODY(VERSION("10"), "[" ITEM("c") "]"));
    expect_seen("replace Service: shop/c\n");
}

TEST(answers_that_are_no_lists)
{
    if (encoding != ENCODING_JSON)
        return;
    static const struct {
        const char *body;
        const char *why;
    } bodies[] = {
        {"", "the response is empty"},
        {"{\"kind\":\"NodeList\",\"metadata\":{" VERSION("1") "},\"items\":[]}",
         "the response is not a list of Service objects"},
        {"{\"kind\":\"PodList\",\"items\":[{},{}]}",
         "the response is not a list of Service objects"},
        {STATUS("200", "Fine", ""), "the response is not a list of Service objects"},
        {LIST_BODY("", "[]"), "the list has no resourceVersion"},
        {LIST_BODY(VERSION("1"), "[]") LIST_BODY(VERSION("1"), "[]"),
         "the response continues after the list"},
        {"[]", "the response is not a list of Service objects"},
        /* Not an empty list, nor the last page of one. */
        {LIST_BODY(VERSION("1"), "{\"a\":1}"), "the list's items are not an array"},
        {LIST_BODY(VERSION("1") ",\"continue\":5", "[" ITEM("a") "]"),
         "the list's continue is not a string"},
    };
    size_t n = sizeof(bodies) / sizeof(*bodies);
    reach_list();
    for (size_t i = 0; i < n; i++) {
        answer_list(bodies[i].body);
        char *log =
            xasprintf("warn: cannot list services: the answer cannot be read message=\"%s\"\n",
                      bodies[i].why);
        expect_list_again(i == 0 ? log : "");
        free(log);
    }
    open_answer();
    send_text("<html>login</html>");
    expect_list_again("");
    expect_figures((struct reflector_figures){.bad_answers = n + 1, .failures = n + 2}, reflector);
}

/* They go into URLs. */
TEST(long_versions_and_tokens)
{
    char *filler = xcalloc(10000, 1);
    memset(filler, '1', 9000);
    char *version = xasprintf(LIST_BODY(VERSION("%s"), "[]"), filler);
    char *token = xasprintf(LIST_BODY(VERSION("1") ",\"continue\":\"%s\"", "[]"), filler);
    char *event =
        xasprintf("{\"type\":\"BOOKMARK\",\"object\":{\"metadata\":{" VERSION("%s") "}}}", filler);
    reach_list();
    answer_list(version);
    expect_list_again("warn: cannot list services: the answer cannot be read "
                      "message=\"the list's resourceVersion has 9000 bytes\"\n");
    answer_list(token);
    expect_list_again("");
    answer_list(LIST_BODY(VERSION("10"), "[]"));
    open_answer();
    send_text(event);
    back_off(0.8, 61);
    expect_request("stream 10");
    free(event);
    free(token);
    free(version);
    free(filler);
}

TEST(bad_item_keeps_its_name)
{
    reach_list();
    answer_list(LIST_BODY(VERSION("10"), "[" ITEM("a") "," BAD_ITEM(
                                             "b") ",{\"metadata\":7},"
                                                  "{\"kind\":\"Pod\",\"apiVersion\":\"v1\"}]"));
    expect_seen("replace Service: shop/a shop/b?\n");
    ck_assert_ptr_nonnull(strstr(said, "warn: bad object: "));
    ck_assert_ptr_nonnull(strstr(said, "shop/b"));
    expect_figures((struct reflector_figures){.lists = 1, .bad_objects = 3, .failures = 1},
                   reflector);
    expect_request("watch 10");
}

TEST(expired_page_of_a_list_that_may_have_none)
{
    reach_watch();
    send_text(ERROR("410", "Expired", ""));
    reach_list();
    expect_request("list 10");
    answer_list(LIST_BODY(VERSION("12") ",\"continue\":\"t\"", "[" ITEM("b") "]"));
    answer(410, NULL, STATUS("410", "Expired", ""));
    back_off(0.8, 1.6);
    expect_request("stream 10");
}

TEST(own_node_only)
{
    reflector_free(reflector);
    start(KIND_NODE);
    ck_assert_ptr_nonnull(
        strstr(request->path, "/api/v1/nodes?fieldSelector=metadata.name%3Dnode-1&watch=true"));
    open_answer();
    send_text("{\"type\":\"ADDED\",\"object\":{\"kind\":\"Node\",\"apiVersion\":\"v1\","
              "\"metadata\":{\"name\":\"node-1\",\"resourceVersion\":\"7\"}}}\n");
    send_text("{\"type\":\"BOOKMARK\",\"object\":{\"kind\":\"Node\",\"apiVersion\":\"v1\","
              "\"metadata\":{\"resourceVersion\":\"8\"," END("\"true\"") "}}}\n");
    expect_seen("replace Node: node-1\n");
}
