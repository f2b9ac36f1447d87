/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "json_print.h"
#include "kube-nftd/base/alloc.h"
#include "kube-nftd/base/json_reader.h"
#include "kube-nftd/base/vec.h"
#include "kube-nftd/base/yaml.h"
#include "unit.h"

#include <stdio.h>
#include <string.h>

/* What a reader of the JSON gave out, a line each: "item" or "value", its line, the value. */
struct seen {
    struct json_reader *reader;
    char *text;
    size_t calls;   /* of the output */
    int stop_after; /* calls until it says stop; -1: never */
    const char *input;
    size_t piece;
    bool broken; /* no more than the first piece can be read */
};

static bool take_value(void *ctx, const struct json_value *json, bool is_item)
{
    struct seen *seen = ctx;
    char *value, *more;
    size_t length;
    FILE *out = open_memstream(&value, &length);
    write_value(out, json);
    fclose(out);
    more = xasprintf("%s%s %zu %s\n", seen->text, is_item ? "item" : "value",
                     json_reader_line(seen->reader), value);
    free(value);
    free(seen->text);
    seen->text = more;
    return true;
}

static int take(void *ctx, const char *json, size_t length)
{
    struct seen *seen = ctx;
    struct error err = {0};
    ck_assert_msg(json_reader_feed(seen->reader, json, length, &err) == 0, "%s in %.*s", err.text,
                  (int)length, json);
    seen->calls++;
    return seen->stop_after < 0 || seen->stop_after-- > 0 ? 0 : -1;
}

static int input(void *ctx, char *buffer, size_t size, size_t *n)
{
    struct seen *seen = ctx;
    if (seen->piece == 0 && seen->broken)
        return -1;
    *n = strnlen(seen->input, seen->piece < size ? seen->piece : size);
    memcpy(buffer, seen->input, *n);
    seen->input += *n;
    if (seen->broken)
        seen->piece = 0;
    return 0;
}

static int run(struct seen *seen, struct error *err)
{
    struct error end = {0};
    seen->reader = json_reader_new(SIZE_MAX, take_value, seen);
    int result = yaml_to_json(input, take, seen, err);
    if (result == 0)
        ck_assert_msg(json_reader_finish(seen->reader, &end) == 0, "%s", end.text);
    json_reader_free(seen->reader);
    return result;
}

static struct seen seen_new(const char *text)
{
    return (struct seen){.text = xstrdup(""), .stop_after = -1, .input = text, .piece = SIZE_MAX};
}

static void seen_clear(struct seen *seen)
{
    free(seen->text);
}

static void expect(const char *text, const char *expected)
{
    struct error err = {0};
    struct seen seen = seen_new(text);
    int result = run(&seen, &err);
    ck_assert_msg(result == 0, "%s", err.text);
    ck_assert_str_eq(seen.text, expected);
    seen_clear(&seen);
}

static void expect_parse(const char *text, const char *expected)
{
    struct error err = {0};
    cJSON *json = yaml_parse(text, strlen(text), &err);
    ck_assert_msg(json != NULL, "%s: %s", text, err.text);
    char *got = cJSON_PrintUnformatted(json);
    ck_assert_str_eq(got, expected);
    free(got);
    cJSON_Delete(json);
}

static void expect_error(const char *text, const char *message)
{
    struct error err = {0};
    struct seen seen = seen_new(text);
    ck_assert_msg(run(&seen, &err) == -1, "%s", text);
    ck_assert_str_eq(err.text, message);
    error_clear(&err);
    seen_clear(&seen);
}

static void expect_parse_error(const char *text, const char *message)
{
    struct error err = {0};
    ck_assert_ptr_null(yaml_parse(text, strlen(text), &err));
    ck_assert_str_eq(err.text, message);
    error_clear(&err);
}

TEST(test_plain_scalars)
{
    expect_parse("[null, Null, NULL, ~, ]", "[null,null,null,null]");
    expect_parse("a:\nb: ''\n", "{\"a\":null,\"b\":\"\"}");
    expect_parse("[true, True, TRUE, false, False, FALSE, tRUE]",
                 "[true,true,true,false,false,false,\"tRUE\"]");
    expect_parse("[yes, no, on, off, y, n]", "[\"yes\",\"no\",\"on\",\"off\",\"y\",\"n\"]");
    expect_parse("[0, 1, -1, +7, 65535, 0x1F, -0x10, 0o17, 017, 08, 0]",
                 "[0,1,-1,7,65535,31,-16,15,15,8,0]");
    expect_parse("[1.5, -.5, 5., 1e3, 1E-1, +1.5e+2]", "[1.5,-0.5,5,1000,0.1,150]");
    expect_parse("[0x, 0xg, 0o8, 1e, 1e+, ., -, +, 1.2.3, 1_000, 1e999, .inf, .nan, 12ab, 0b1]",
                 "[\"0x\",\"0xg\",\"0o8\",\"1e\",\"1e+\",\".\",\"-\",\"+\",\"1.2.3\",\"1_000\","
                 "\"1e999\",\".inf\",\".nan\",\"12ab\",\"0b1\"]");
    expect_parse("[10.96.0.1, fd00::1, 2026-11-21T17:03:13Z, a b, <<]",
                 "[\"10.96.0.1\",\"fd00::1\",\"2026-11-21T17:03:13Z\",\"a b\",\"<<\"]");
}

TEST(test_quoted_scalars)
{
    expect_parse("['80', \"true\", 'null', \"a\\n\\u00e9\", 'it''s']",
                 "[\"80\",\"true\",\"null\",\"a\\n\xc3\xa9\",\"it's\"]");
    expect_parse("80: a\ntrue: b\n'x': c\n\"<<\": d\n",
                 "{\"80\":\"a\",\"true\":\"b\",\"x\":\"c\",\"<<\":\"d\"}");
}

/* A NUL ends no text: where values are given out it makes a text that is none, of a key too; a
 * document that is read whole must not have it. */
TEST(test_nul)
{
    expect("\"a\\0b\": [\"\\0\", \"c\\x00\\u0000d\", !!str \"e\\U00000000\", 'f\\0']\n",
           "value 1 {\"a\xc0\x80\x62\":[bad \"\xc0\x80\",bad \"c\xc0\x80\xc0\x80\x64\",bad "
           "\"e\xc0\x80\",\"f\\0\"]}\n");
    expect_parse_error("a: b\nc: \"d\\0\"\n", "line 2 column 4: a text with a NUL");
    expect_parse_error("\"a\\0\": b\n", "line 1 column 1: a text with a NUL");
}

TEST(test_block_scalars)
{
    expect_parse("a: |\n  1\n   two\nb: >-\n  one\n  line\nc: |+\n  x\n\n",
                 "{\"a\":\"1\\n two\\n\",\"b\":\"one line\",\"c\":\"x\\n\\n\"}");
    expect_parse("a: |\n  80\nb: >-\n  true\n", "{\"a\":\"80\\n\",\"b\":\"true\"}");
}

TEST(test_tags)
{
    expect_parse("[!!str 80, !!int '80', !!float 1.5, !!bool 'true', !!null '', ! 12]",
                 "[\"80\",80,1.5,true,null,\"12\"]");
    expect_parse("!!map {a: !!seq [1]}", "{\"a\":[1]}");
    expect_parse_error("a: !!int x", "line 1 column 4: the value does not fit its tag "
                                     "tag:yaml.org,2002:int");
    expect_parse_error("a: !thing x", "line 1 column 4: tag !thing is not supported");
    expect_parse_error("a: !!set {x}", "line 1 column 4: tag tag:yaml.org,2002:set is not "
                                       "supported here");
    expect_parse_error("a: !!omap [x]", "line 1 column 4: tag tag:yaml.org,2002:omap is not "
                                        "supported here");
}

TEST(test_json)
{
    expect_parse("{\"a\": [1, \"2\", null, true, {\"b\": {}}], \"c\": \"\\\"\"}",
                 "{\"a\":[1,\"2\",null,true,{\"b\":{}}],\"c\":\"\\\"\"}");
}

TEST(test_documents)
{
    expect("", "");
    expect("# nothing\n", "");
    expect("---\n---\na: 1\n...\n---\n# c\n- x\n",
           "value 2 null\nvalue 3 {\"a\":1}\nvalue 7 [\"x\"]\n");
    expect_parse_error("a: 1\n---\nb: 1\n",
                       "line 3 column 1: a second document, where one is expected");
    expect_parse_error("# nothing\n", "no document");
}

TEST(test_items)
{
    expect("apiVersion: v1\nitems:\n- kind: Service\n  items: [1]\n- 7\n-\nkind: List\n---\n"
           "items: []\n---\nitems:\n---\nitems: {items: [1]}\n---\n- items: [2]\n",
           "item 3 {\"kind\":\"Service\",\"items\":[1]}\nitem 5 7\nitem 6 null\n"
           "value 1 {\"apiVersion\":\"v1\",\"items\":[],\"kind\":\"List\"}\n"
           "value 9 {\"items\":[]}\nvalue 11 {\"items\":null}\nvalue 13 {\"items\":{\"items\":[1]}}"
           "\nvalue 15 [{\"items\":[2]}]\n");
    expect_parse("items: [1, 2]", "{\"items\":[1,2]}");
}

TEST(test_aliases)
{
    expect_parse("a: &x {p: [1, 2]}\nb: *x\nc: [*x, &y z, *y]\n",
                 "{\"a\":{\"p\":[1,2]},\"b\":{\"p\":[1,2]},\"c\":[{\"p\":[1,2]},\"z\",\"z\"]}");
    expect_parse("[&x 1, *x, &x 2, *x]", "[1,1,2,2]");
    expect("labels: &l {app: web}\nitems:\n- &i {labels: *l}\n- *i\n",
           "item 3 {\"labels\":{\"app\":\"web\"}}\nitem 4 {\"labels\":{\"app\":\"web\"}}\n"
           "value 1 {\"labels\":{\"app\":\"web\"},\"items\":[]}\n");
    expect_error("a: &x 1\n---\nb: *x\n", "line 3 column 4: no anchor x ended before this alias");
    expect_error("a: &x [*x]\n", "line 1 column 8: no anchor x ended before this alias");
    expect_error("a: &x 1\n<<: *x\n", "line 2 column 1: merge keys (<<) are not supported");
}

/* Nine levels of nine aliases: 387 million nodes. */
TEST(test_alias_bomb)
{
    char *text = xstrdup("a: &a0 [x, x, x, x, x, x, x, x, x]\n");
    for (int i = 1; i < 9; i++) {
        int p = i - 1;
        char *more =
            xasprintf("%sb%d: &a%d [*a%d, *a%d, *a%d, *a%d, *a%d, *a%d, *a%d, *a%d, *a%d]\n", text,
                      i, i, p, p, p, p, p, p, p, p, p);
        free(text);
        text = more;
    }
    struct error err = {0};
    ck_assert_ptr_null(yaml_parse(text, strlen(text), &err));
    ck_assert_ptr_nonnull(strstr(err.text, "expand to too much"));
    error_clear(&err);
    free(text);
}

/* Each anchor holds all that the ones before it hold, and none is used: copies alone. */
TEST(test_anchor_bomb)
{
    VEC(char) text = {0};
    for (int i = 0; i < 90; i++) {
        char *open = xasprintf("&a%d [", i);
        for (char *p = open; *p; p++)
            vec_push(&text, *p);
        free(open);
    }
    for (int i = 0; i < 60000; i++) {
        vec_push(&text, 'x');
        vec_push(&text, ',');
        vec_push(&text, '\n');
    }
    for (int i = 0; i < 90; i++)
        vec_push(&text, ']');
    struct error err = {0};
    ck_assert_ptr_null(yaml_parse(text.v, text.n, &err));
    ck_assert_ptr_nonnull(strstr(err.text, "expand to too much"));
    error_clear(&err);
    vec_free(&text);
}

TEST(test_depth)
{
    char text[203] = "";
    memset(text, '[', 100);
    memset(text + 100, ']', 100);
    expect_parse(text, text);
    memset(text, '[', 101);
    memset(text + 101, ']', 101);
    expect_parse_error(text, "line 1 column 101: nested too deep");

    /* Aliases deepen too: 25 times 45 levels. */
    char *whole = xstrdup("- &a0 x\n");
    for (int i = 1; i <= 25; i++) {
        char *more = xasprintf("%s- &a%d %.45s *a%d %.45s\n", whole, i, text, i - 1, text + 101);
        free(whole);
        whole = more;
    }
    expect_parse_error(whole, "nested too deep");
    free(whole);
}

TEST(test_errors)
{
    expect_error(
        "a: 1\nb: [1, 2\n",
        "line 3 column 1: did not find expected ',' or ']', while parsing a flow sequence");
    expect_error("a: b: c\n", "line 1 column 5: mapping values are not allowed in this context");
    expect_error("a: 1\nb: 2\na: 3\n", "line 3: duplicate key \"a\", also in line 1");
    expect_error("x: {c: 1, b: 2,\n c: 3}\n", "line 2: duplicate key \"c\", also in line 1");
    expect_error("\"\": 1\n'': 2\n", "line 2: duplicate key \"\", also in line 1");
    expect_error("? [a]\n: b\n", "line 1 column 3: a key must be a simple value");
    expect_error("a: &k x\n*k : b\n", "line 2 column 1: a key must be a simple value");
    expect_error("a:\n\t- b\n", "line 2 column 1: found character that cannot start any token, "
                                "while scanning for the next token");
    expect_error("a: 1\nb: \"\xc3(\"\n", "line 2 column 5: invalid trailing UTF-8 octet");
    expect_error("a: 1\nb: c\x01\n", "line 2 column 5: control characters are not allowed");
    expect_error("a: *b\n", "line 1 column 4: no anchor b ended before this alias");
}

/* A mapping in an item may have the keys of another. */
TEST(test_keys_are_by_mapping)
{
    expect_parse("a: {a: {a: 1, b: 2}, b: 3}\nb: [{a: 1}, {a: 2}]\n",
                 "{\"a\":{\"a\":{\"a\":1,\"b\":2},\"b\":3},\"b\":[{\"a\":1},{\"a\":2}]}");
}

TEST(test_stop)
{
    struct error err = {0};
    struct seen seen = seen_new("items: [1, 2, 3, 4]\n");
    seen.stop_after = 1;
    ck_assert_int_eq(run(&seen, &err), -1);
    ck_assert_uint_eq(seen.calls, 2);
    error_clear(&err);
    seen_clear(&seen);
}

TEST(test_input)
{
    for (size_t piece = 1; piece < 40; piece++) {
        struct error err = {0};
        struct seen seen = seen_new("kind: \xc3\xa9\nitems:\n- 1\n- 'x'\n---\n-2\n");
        seen.piece = piece;
        int result = run(&seen, &err);
        ck_assert_msg(result == 0, "%s", err.text);
        ck_assert_str_eq(seen.text, "item 3 1\nitem 4 \"x\"\nvalue 1 {\"kind\":\"\xc3\xa9\","
                                    "\"items\":[]}\nvalue 6 -2\n");
        seen_clear(&seen);
    }
}

TEST(test_input_fails)
{
    struct error err = {0};
    struct seen seen = seen_new("a: 1\n");
    seen.piece = 3;
    seen.broken = true;
    ck_assert_int_eq(run(&seen, &err), -1);
    ck_assert_str_eq(err.text, "the text could not be read");
    error_clear(&err);
    seen_clear(&seen);
}

/* The tree has both, in their order. */
TEST(test_lenient)
{
    static const char text[] = "a: 1\nb: {c: 1, c: 2}\na: [3]\n";
    struct error err = {0};
    ck_assert_ptr_null(yaml_parse(text, strlen(text), &err));
    error_clear(&err);
    cJSON *json = yaml_parse_lenient(text, strlen(text), &err);
    ck_assert_msg(json != NULL, "%s", err.text);
    char *printed = cJSON_PrintUnformatted(json);
    ck_assert_str_eq(printed, "{\"a\":1,\"b\":{\"c\":1,\"c\":2},\"a\":[3]}");
    free(printed);
    cJSON_Delete(json);
    ck_assert_ptr_null(yaml_parse_lenient("{", 1, &err));
    error_clear(&err);
}
