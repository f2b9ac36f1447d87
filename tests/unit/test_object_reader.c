/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "source/object_reader.h"

#include "unit.h"

#include <string.h>

#define ITEM(name) "{\"metadata\":{\"name\":\"" name "\"},\"spec\":{\"clusterIP\":\"None\"}}"
#define LIST(metadata, items)                                                                      \
    "{\"kind\":\"ServiceList\",\"metadata\":{" metadata "},\"items\":" items "}"
#define VERSION "\"resourceVersion\":\"7\""

static size_t taken_objects;
static struct object_reader reader;

static int take(void *ctx, struct watch_event *event, struct error *err)
{
    taken_objects += event->type == WATCH_PUT;
    return 0;
}

/* Reads @page in pieces of @step bytes. */
static int read_page(const char *page, size_t step, struct error *err)
{
    size_t length = strlen(page);
    object_reader_begin(&reader, ENCODING_JSON, true);
    for (size_t at = 0; at < length; at += step) {
        size_t n = length - at < step ? length - at : step;
        if (object_reader_feed(&reader, page + at, n, err))
            return -1;
    }
    return object_reader_end_page(&reader, err);
}

static const struct {
    const char *page;
    size_t n;
    const char *token;
} good[] = {
    {LIST(VERSION, "[" ITEM("a") "," ITEM("b") "]"), 2, NULL},
    {LIST(VERSION ",\"continue\":\"t\"", "[" ITEM("a") "]"), 1, "t"},
    {LIST(VERSION ",\"continue\":null", "[]"), 0, NULL},
    {LIST(VERSION, "null"), 0, NULL},
};

TEST_ROWS(taken, good)
{
    struct error err = {0};
    reader = (struct object_reader){.kind = KIND_SERVICE, .take = take};
    taken_objects = 0;
    ck_assert_msg(read_page(row->page, 1000, &err) == 0, "%s", err.text);
    ck_assert_uint_eq(taken_objects, row->n);
    ck_assert_str_eq(reader.version, "7");
    ck_assert_pstr_eq(reader.token, row->token);
    object_reader_reset(&reader);
}

#define ITEMS(items) LIST(VERSION, items), "the list's items are not an array"
#define TOKEN(token)                                                                               \
    LIST(VERSION ",\"continue\":" token, "[" ITEM("a") "]"), "the list's continue is not a string"
#define NO_LIST "the response is not a list of Service objects"

static const struct {
    const char *page, *why;
} wrong[] = {
    /* Nothing must look like an empty list, or like the last page. */
    {ITEMS("{\"a\":1}")},
    {ITEMS("{}")},
    {ITEMS("\"x\"")},
    {ITEMS("\"\"")},
    {ITEMS("0")},
    {ITEMS("false")},
    {TOKEN("5")},
    {TOKEN("[\"x\"]")},
    {TOKEN("{}")},
    {TOKEN("true")},
    {LIST("\"resourceVersion\":7", "[]"), "the list's resourceVersion is not a string"},
    {LIST(VERSION, "[" ITEM("a") "],\"items\":[" ITEM("b") "]"), "the list has items twice"},
    {LIST(VERSION, "[" ITEM("a") "],\"items\":null"), "the list has items twice"},
    {LIST(VERSION, "null,\"items\":[" ITEM("a") "]"), "the list has items twice"},
    {LIST(VERSION ",\"continue\":\"t\"},\"metadata\":{" VERSION, "[]"),
     "the list has metadata twice"},
    /* A number or a word at the end is known to be whole only when no more bytes come. */
    {"123", NO_LIST},
    {"null", NO_LIST},
    {"\"x\"", NO_LIST},
    {LIST(VERSION, "[]") "5", NO_LIST},
    {LIST(VERSION, "[]") LIST(VERSION, "[]"), "the response continues after the list"},
};

/* However the page is cut. */
TEST_ROWS(refused, wrong)
{
    for (size_t step = 1; step < 200; step = step * 3 + 1) {
        struct error err = {0};
        reader = (struct object_reader){.kind = KIND_SERVICE, .take = take};
        ck_assert_msg(read_page(row->page, step, &err) < 0, "taken: %s", row->page);
        ck_assert_str_eq(err.text, row->why);
        error_clear(&err);
        object_reader_reset(&reader);
    }
}
