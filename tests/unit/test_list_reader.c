/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "source/list_reader.h"
#include "source/watch_reader.h"

#include "unit.h"

#include <string.h>

#define ITEM(name) "{\"metadata\":{\"name\":\"" name "\"},\"spec\":{\"clusterIP\":\"None\"}}"
#define LIST(metadata, items)                                                                      \
    "{\"kind\":\"ServiceList\",\"metadata\":{" metadata "},\"items\":" items "}"
#define VERSION "\"resourceVersion\":\"7\""

static struct bad_objects bad;
static struct list_reader reader;

/* Reads @page in pieces of @step bytes. */
static int read_page(const char *page, size_t step, struct error *err)
{
    size_t length = strlen(page);
    list_reader_begin_page(&reader, ENCODING_JSON);
    for (size_t at = 0; at < length; at += step) {
        size_t n = length - at < step ? length - at : step;
        if (list_reader_feed(&reader, page + at, n, err))
            return -1;
    }
    return list_reader_end_page(&reader, err);
}

/* @page is refused, and @why, however it is cut. */
static void expect_refused(const char *page, const char *why)
{
    for (size_t step = 1; step < 200; step = step * 3 + 1) {
        struct error err = {0};
        reader = (struct list_reader){.kind = KIND_SERVICE, .limit = 10, .bad = &bad};
        ck_assert_msg(read_page(page, step, &err) < 0, "taken: %s", page);
        ck_assert_str_eq(err.text, why);
        error_clear(&err);
        list_reader_reset(&reader);
    }
}

static void expect_taken(const char *page, size_t n, const char *token)
{
    struct error err = {0};
    reader = (struct list_reader){.kind = KIND_SERVICE, .limit = 10, .bad = &bad};
    ck_assert_msg(read_page(page, 1000, &err) == 0, "%s", err.text);
    ck_assert_uint_eq(reader.objects.n, n);
    ck_assert_str_eq(reader.version, "7");
    if (token)
        ck_assert_str_eq(reader.token, token);
    else
        ck_assert_ptr_null(reader.token);
    list_reader_reset(&reader);
}

START_TEST(lists)
{
    expect_taken(LIST(VERSION, "[" ITEM("a") "," ITEM("b") "]"), 2, NULL);
    expect_taken(LIST(VERSION ",\"continue\":\"t\"", "[" ITEM("a") "]"), 1, "t");
    expect_taken(LIST(VERSION ",\"continue\":null", "[]"), 0, NULL);
    expect_taken(LIST(VERSION, "null"), 0, NULL);
}
END_TEST

/* Of which nothing must look like an empty list. */
START_TEST(items_of_a_wrong_type)
{
    static const char *const items[] = {"{\"a\":1}", "{}", "\"x\"", "\"\"", "0", "false"};
    for (size_t i = 0; i < sizeof(items) / sizeof(*items); i++) {
        char *page = xasprintf(LIST(VERSION, "%s"), items[i]);
        expect_refused(page, "the list's items are not an array");
        free(page);
    }
}
END_TEST

/* Or like the last page. */
START_TEST(token_of_a_wrong_type)
{
    static const char *const tokens[] = {"5", "[\"x\"]", "{}", "true"};
    for (size_t i = 0; i < sizeof(tokens) / sizeof(*tokens); i++) {
        char *page = xasprintf(LIST(VERSION ",\"continue\":%s", "[" ITEM("a") "]"), tokens[i]);
        expect_refused(page, "the list's continue is not a string");
        free(page);
    }
    expect_refused(LIST("\"resourceVersion\":7", "[]"),
                   "the list's resourceVersion is not a string");
}
END_TEST

START_TEST(doubled_members)
{
    expect_refused(LIST(VERSION, "[" ITEM("a") "],\"items\":[" ITEM("b") "]"),
                   "the list has items twice");
    expect_refused(LIST(VERSION, "[" ITEM("a") "],\"items\":null"), "the list has items twice");
    expect_refused(LIST(VERSION, "null,\"items\":[" ITEM("a") "]"), "the list has items twice");
    expect_refused(LIST(VERSION ",\"continue\":\"t\"},\"metadata\":{" VERSION, "[]"),
                   "the list has metadata twice");
}
END_TEST

/* A number or a word at the end is known to be whole only when no more bytes come. */
START_TEST(what_ends_with_the_answer)
{
    expect_refused("123", "the response is not a list of Service objects");
    expect_refused("null", "the response is not a list of Service objects");
    expect_refused("\"x\"", "the response is not a list of Service objects");
    expect_refused(LIST(VERSION, "[]") "5", "the response is not a list of Service objects");
    expect_refused(LIST(VERSION, "[]") LIST(VERSION, "[]"),
                   "the response continues after the list");
}
END_TEST

static void add_tests(TCase *tcase)
{
    tcase_add_test(tcase, lists);
    tcase_add_test(tcase, items_of_a_wrong_type);
    tcase_add_test(tcase, token_of_a_wrong_type);
    tcase_add_test(tcase, doubled_members);
    tcase_add_test(tcase, what_ends_with_the_answer);
}

UNIT_MAIN("list_reader", add_tests)
