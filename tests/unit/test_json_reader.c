/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "json_print.h"
#include "json_read.h"
#include "kube-nftd/base/alloc.h"
#include "kube-nftd/base/json_reader.h"
#include "unit.h"

#include <stdio.h>
#include <string.h>

/* What a reader gave out, a line each: "item" or "value", its line in the source, the text. */
struct seen {
    struct json_reader *reader;
    char *text;
    char *envelope; /* as it was at the first item */
    int stop_after; /* values until the callback says stop; -1: never */
};

static char *text_of(const struct json_value *value)
{
    char *text;
    size_t length;
    FILE *out = open_memstream(&text, &length);
    write_value(out, value);
    fclose(out);
    return text;
}

static bool take(void *ctx, const struct json_value *value, bool is_item)
{
    struct seen *seen = ctx;
    const struct json_value *envelope = json_reader_envelope(seen->reader);
    char *text = text_of(value);
    char *more = xasprintf("%s%s %zu %s\n", seen->text, is_item ? "item" : "value",
                           json_reader_line(seen->reader), text);
    free(text);
    free(seen->text);
    seen->text = more;
    ck_assert_int_eq(envelope != NULL, is_item);
    if (envelope && !seen->envelope)
        seen->envelope = text_of(envelope);
    return seen->stop_after < 0 || seen->stop_after-- > 0;
}

static void seen_init(struct seen *seen, size_t limit)
{
    *seen = (struct seen){.text = xstrdup(""), .stop_after = -1};
    seen->reader = json_reader_new(limit, take, seen);
}

static void seen_clear(struct seen *seen)
{
    json_reader_free(seen->reader);
    free(seen->text);
    free(seen->envelope);
}

/* Feeds @text in pieces that end at @cut, then every @step bytes. The pieces are copies without a
 * byte behind them, so that a look too far is an error under the sanitizer. */
static int feed(struct seen *seen, const char *text, size_t cut, size_t step, struct error *err)
{
    size_t length = strlen(text);
    size_t at = 0;
    size_t n = cut;
    while (at < length) {
        if (n > length - at)
            n = length - at;
        char *piece = xcalloc(n, 1);
        memcpy(piece, text + at, n);
        int result = json_reader_feed(seen->reader, piece, n, err);
        free(piece);
        if (result)
            return -1;
        at += n;
        n = step;
    }
    return json_reader_finish(seen->reader, err);
}

static void expect_cut(const char *text, const char *expected, size_t cut, size_t step)
{
    struct error err = {0};
    struct seen seen;
    seen_init(&seen, 10000);
    int result = feed(&seen, text, cut, step, &err);
    ck_assert_msg(result == 0, "cut at %zu: %s", cut, err.text);
    ck_assert_str_eq(seen.text, expected);
    seen_clear(&seen);
}

/* @text gives @expected however it is cut. */
static void expect(const char *text, const char *expected)
{
    size_t length = strlen(text);
    for (size_t cut = 0; cut <= length; cut++)
        expect_cut(text, expected, cut, length + 1);
    for (size_t step = 1; step <= 3; step++)
        expect_cut(text, expected, step, step);
}

/* @text is refused with a message that ends in @message, however it is cut, after @expected. */
static void expect_error(const char *text, size_t limit, const char *expected, const char *message)
{
    size_t length = strlen(text);
    for (size_t step = 1; step <= length; step++) {
        struct error err = {0};
        struct seen seen;
        seen_init(&seen, limit);
        ck_assert_int_eq(feed(&seen, text, step, step, &err), -1);
        ck_assert_str_eq(err.text, message);
        ck_assert_str_eq(seen.text, expected);
        error_clear(&err);
        ck_assert_int_eq(json_reader_feed(seen.reader, "1 ", 2, &err), -1);
        ck_assert_ptr_nonnull(err.text);
        error_clear(&err);
        seen_clear(&seen);
    }
}

/* Texts, and what is given out of them. */
static const struct {
    const char *text, *given;
} texts[] = {
    {"{\"kind\":\"ServiceList\",\"apiVersion\":\"v1\",\"metadata\":{\"resourceVersion\":"
     "\"2107\"},\"items\":[{\"metadata\":{\"name\":\"a\"}},{\"spec\":{\"ports\":[{\"port\":"
     "443},{\"port\":80}]}}]}\n",
     "item 1 {\"metadata\":{\"name\":\"a\"}}\n"
     "item 1 {\"spec\":{\"ports\":[{\"port\":443},{\"port\":80}]}}\n"
     "value 1 {\"kind\":\"ServiceList\",\"apiVersion\":\"v1\",\"metadata\":{"
     "\"resourceVersion\":\"2107\"},\"items\":[]}\n"},
    {"{\n    \"apiVersion\": \"v1\",\n    \"items\": [\n        {\n            \"kind\": "
     "\"Node\"\n        },\n        {}\n    ],\n    \"kind\": \"List\"\n}\n",
     "item 4 {\"kind\":\"Node\"}\nitem 7 {}\n"
     "value 1 {\"apiVersion\":\"v1\",\"items\":[],\"kind\":\"List\"}\n"},
    /* A watch. */
    {"{\"type\":\"ADDED\",\"object\":{\"items\":[1],\"a\":\"}\"}}\n"
     "{\"type\":\"BOOKMARK\",\"object\":{\"endpoints\":null}}\r\n\n",
     "value 1 {\"type\":\"ADDED\",\"object\":{\"items\":[1],\"a\":\"}\"}}\n"
     "value 2 {\"type\":\"BOOKMARK\",\"object\":{\"endpoints\":null}}\n"},
    {"{\"items\":[\"]\\\"}\\\\\",{\"k:{\\\"port\\\":443}\":{\".\":{}}}],\"x\":\"\\\\\"}",
     "item 1 \"]\"}\\\"\nitem 1 {\"k:{\"port\":443}\":{\".\":{}}}\n"
     "value 1 {\"items\":[],\"x\":\"\\\"}\n"},
    /* Items are an array of the top alone. */
    {"{\"items\":null}{\"items\":{\"items\":[1]}}[{\"items\":[2]}]{\"it\\u0065ms\":[3]}"
     "{\"Items\":[4]}{\"itemsx\":[5]}{\"item\":[6]}",
     "value 1 {\"items\":null}\nvalue 1 {\"items\":{\"items\":[1]}}\n"
     "value 1 [{\"items\":[2]}]\nitem 1 3\nvalue 1 {\"items\":[]}\n"
     "value 1 {\"Items\":[4]}\nvalue 1 {\"itemsx\":[5]}\nvalue 1 {\"item\":[6]}\n"},
    {"", ""},
    {" \n\t ", ""},
    {"{}", "value 1 {}\n"},
    {"{ }", "value 1 {}\n"},
    {"{\"items\" : [ ] }", "value 1 {\"items\":[]}\n"},
    {"1 -2.5e+3\ntrue \"a b\" null{\"a\":false,\"items\":[1,null , \"x\"]}7",
     "value 1 1\nvalue 1 -2500\nvalue 2 true\nvalue 2 \"a b\"\nvalue 2 null\n"
     "item 2 1\nitem 2 null\nitem 2 \"x\"\n"
     "value 2 {\"a\":false,\"items\":[]}\nvalue 2 7\n"},
    {"[0,-0,10,65535,999999999999999,9007199254740993,-1,0.5,1e2,1E-2,-1.5e+1]",
     "value 1 [0,-0,10,65535,999999999999999,9007199254740992,-1,0.5,100,0.01,-15]\n"},
    {"[18446744073709551616,-100000000000000000000,9999999999999999999999999]",
     "value 1 [1.8446744073709552e+19,-1e+20,1.0000000000000001e+25]\n"},
    /* Escapes, in keys too; what no text can hold makes a string a bad one. */
    {"[\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"]", "value 1 [\"\"\\/\b\f\n\r\t\"]\n"},
    {"{\"\\u0041\\u00e4\":\"\\u20AC\\ud83d\\ude00!\"}",
     "value 1 {\"A\xc3\xa4\":\"\xe2\x82\xac\xf0\x9f\x98\x80!\"}\n"},
    {"[\"\\ud83d\",\"\\ude00\",\"\\ud83d\\u0041\",\"a\\u0000b\"]",
     "value 1 [bad \"\xed\xa0\xbd\",bad \"\xed\xb8\x80\",bad \"\xed\xa0\xbd"
     "A\",bad \"a\xc0\x80"
     "b\"]\n"},
    {"{\"a\\u0000b\":\"\\ud83d\\ud83d\",\"\\udc00\":\"\\ud83d\\uffff\"}",
     "value 1 {\"a\xc0\x80"
     "b\":bad \"\xed\xa0\xbd\xed\xa0\xbd\",\"\xed\xb0\x80\":bad "
     "\"\xed\xa0\xbd\xef\xbf\xbf\"}\n"},
    /* Where UTF-8 takes a byte more. */
    {"[\"\\u007f\\u0080\\u07ff\\u0800\\uffff\\ud800\\udc00\\udbff\\udfff\"]",
     "value 1 [\"\x7f\xc2\x80\xdf\xbf\xe0\xa0\x80\xef\xbf\xbf\xf0\x90\x80\x80"
     "\xf4\x8f\xbf\xbf\"]\n"},
};

TEST_ROWS(is_given_out, texts)
{
    expect(row->text, row->given);
}

TEST(test_limit)
{
    expect_error("{\"a\":[1,2,3]}", 12, "", "line 1: a value is longer than 12 bytes");
    expect_error("\n{\"items\":[\n{\"a\":1},\n{\"b\":12345678901}]}", 16, "item 3 {\"a\":1}\n",
                 "line 4: a value is longer than 16 bytes");
    expect_error("\"0123456789\"", 11, "", "line 1: a value is longer than 11 bytes");
}

#define NO_VALUE "not a JSON value"
#define NO_BEGIN "a value should begin here"
#define NO_KEY "a key should begin here"
#define NO_COLON "no colon after a key"
#define NO_END "no comma or end"
#define OTHER_BRACKET "a bracket is closed by one of another kind"
#define CONTROL "a control character in a string"
#define ESCAPE "a string with an unknown escape"

/* What is no JSON, and where that shows: this far behind where it begins. */
static const struct {
    const char *text, *message;
    int column;
} wrong[] = {
    {"tru", NO_VALUE, 0},
    {"truee", NO_VALUE, 0},
    {"True", NO_VALUE, 0},
    {"nul", NO_VALUE, 0},
    {"nulll", NO_VALUE, 0},
    {"falsey", NO_VALUE, 0},
    {"NaN", NO_VALUE, 0},
    {"01", NO_VALUE, 0},
    {"-", NO_VALUE, 0},
    {"--1", NO_VALUE, 0},
    {"+1", NO_VALUE, 0},
    {"-Infinity", NO_VALUE, 0},
    {"1.", NO_VALUE, 0},
    {"1.2.3", NO_VALUE, 0},
    {".5", NO_VALUE, 0},
    {"1e", NO_VALUE, 0},
    {"1e+", NO_VALUE, 0},
    {"1a", NO_VALUE, 0},
    {"0x1", NO_VALUE, 0},
    {"\xff", NO_BEGIN, 0},
    {"'a'", NO_BEGIN, 0},
    {"\"a\" \"b\"", NO_END, 4},
    {"\"a\":1", NO_END, 3},
    {"1 2", NO_END, 2},
    {"{\"a\":1 \"b\":2}", NO_END, 7},
    {"[1}", OTHER_BRACKET, 2},
    {"{\"a\":1]", OTHER_BRACKET, 6},
    {"{}}", OTHER_BRACKET, 2},
    {"[]}", OTHER_BRACKET, 2},
    {"[1,]", NO_BEGIN, 3},
    {"[,1]", NO_BEGIN, 1},
    {"{\"a\":1,}", NO_KEY, 7},
    {"{,}", NO_KEY, 1},
    {"{1:1}", NO_KEY, 1},
    {"{a:1}", NO_KEY, 1},
    {"{\"a\"}", NO_COLON, 4},
    {"{\"a\" 1}", NO_COLON, 5},
    {"{\"a\":}", NO_BEGIN, 5},
    {"{\"a\"::1}", NO_BEGIN, 5},
    {"\"a\tb\"", CONTROL, 2},
    {"\"\\\n\"", CONTROL, 2},
    {"\"\\x\"", ESCAPE, 0},
    {"\"\\u\"", ESCAPE, 0},
    {"\"\\u12\"", ESCAPE, 0},
    {"\"\\u12g4\"", ESCAPE, 0},
    {"\"\\U0041\"", ESCAPE, 0},
    {"\"a\\u-123\"", ESCAPE, 0},
    {"\"\\'\"", ESCAPE, 0},
};

static void expect_wrong(const char *before, int line, int column, int i)
{
    char *text = xasprintf("%s%s]}]", before, wrong[i].text);
    char *message =
        xasprintf("line %d column %d: %s", line, column + wrong[i].column, wrong[i].message);
    expect_error(text, 100, "", message);
    free(text);
    free(message);
}

/* In an array, behind what is right on the same line and lines before. */
TESTS(is_wrong, COUNT(wrong))
{
    expect_wrong("[", 1, 2, _i);
    expect_wrong("[{\"a\":\n  [[1,\"b\"],{},", 2, 15, _i);
}

TEST(is_wrong_at_the_top_and_in_items)
{
    expect_error("{\"items\":[1 2]}", 100, "item 1 1\n", "line 1 column 13: " NO_END);
    expect_error("{\"items\":[1,]}", 100, "item 1 1\n", "line 1 column 13: " NO_BEGIN);
    expect_error("{\"items\":[,1]}", 100, "", "line 1 column 11: " NO_BEGIN);
    expect_error("{\"items\":[nul]}", 100, "", "line 1 column 11: " NO_VALUE);
    expect_error("{} garbage ", 100, "value 1 {}\n", "line 1 column 4: " NO_VALUE);
    expect_error("{}}", 100, "value 1 {}\n", "line 1 column 3: " NO_BEGIN);
    expect_error("\xff", 100, "", "line 1 column 1: " NO_BEGIN);
}

TEST(test_nul)
{
    struct error err = {0};
    struct seen seen;
    seen_init(&seen, 100);
    ck_assert_int_eq(json_reader_feed(seen.reader, "[1,\0002]", 6, &err), -1);
    ck_assert_str_eq(err.text, "line 1 column 4: a value should begin here");
    error_clear(&err);
    seen_clear(&seen);
}

/* As deep as is allowed, and one deeper; in an item the list around it does not count. */
TEST(test_depth)
{
    char text[2 * 129 + 1];
    memset(text, '[', 129);
    memset(&text[129], ']', 129);
    text[(size_t)2 * 129] = '\0';
    expect_error(text, 10000, "", "line 1 column 129: nested too deep");
    char *list = xasprintf("{\"items\":[1,\n%s]}", text);
    expect_error(list, 10000, "item 1 1\n", "line 2 column 129: nested too deep");
    free(list);

    text[2 * 129 - 1] = '\0';
    char *expected = xasprintf("value 1 %s\n", text + 1);
    expect(text + 1, expected);
    free(expected);
}

/* What is behind the bracket that is too deep is never reached: a million more cost nothing. */
TEST(test_depth_bomb)
{
    struct error err = {0};
    struct seen seen;
    size_t size = 1000000;
    char *text = xcalloc(size, 1);
    memset(text, '[', size);
    seen_init(&seen, size);
    ck_assert_int_eq(json_reader_feed(seen.reader, text, size, &err), -1);
    ck_assert_str_eq(err.text, "line 1 column 129: nested too deep");
    error_clear(&err);
    seen_clear(&seen);
    free(text);
}

/* @text is taken with a limit of @values, and one less is too few, however it is cut. */
static void expect_values(const char *text, size_t values)
{
    for (size_t step = 1; step <= strlen(text); step++) {
        struct error err = {0};
        struct seen seen;
        seen_init(&seen, 1000);
        json_reader_limit_values(seen.reader, values);
        int result = feed(&seen, text, step, step, &err);
        ck_assert_msg(result == 0, "%s: more than %zu: %s", text, values, err.text);
        seen_clear(&seen);

        seen_init(&seen, 1000);
        json_reader_limit_values(seen.reader, values - 1);
        ck_assert_int_eq(feed(&seen, text, step, step, &err), -1);
        char *message = xasprintf("line 1: a value holds more than %zu JSON values", values - 1);
        ck_assert_str_eq(err.text, message);
        free(message);
        error_clear(&err);
        seen_clear(&seen);
    }
}

/* Keys are no values, nor is what stands in strings. */
TEST(test_values)
{
    expect_values("1", 1);
    expect_values("{}", 1);
    expect_values("[1,2]", 3);
    expect_values("[\"a,b,[{\",2]", 3);
    expect_values("[[1],[2,[3]],4]", 8);
    expect_values("{\"a\":1,\"b\":[2,{\"c\":3,\"d\":4}]}", 7);
    expect_values("[{\"a\\\",\":{\"b\":[1]}}]", 5);
    expect_values("[{}]", 2);
    expect_values("{\"items\":null,\"a\":{\"items\":[1,2]}}", 6);
}

static bool count(void *ctx, const struct json_value *value, bool is_item)
{
    ++*(size_t *)ctx;
    return true;
}

/* An array of @n zeros, given in blocks, under the limit that holds if none was set. */
static int feed_zeros(size_t n, size_t *given, struct error *err)
{
    static const char zeros[] = ",0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0";
    struct json_reader *reader = json_reader_new((size_t)16 * 1024 * 1024, count, given);
    int result = json_reader_feed(reader, "[0", 2, err);
    for (size_t left = n - 1; left > 0 && result == 0;) {
        size_t now = left < 25 ? left : 25;
        result = json_reader_feed(reader, zeros, 2 * now, err);
        left -= now;
    }
    if (result == 0)
        result = json_reader_feed(reader, "]", 1, err);
    json_reader_free(reader);
    return result;
}

TEST(test_values_default)
{
    struct error err = {0};
    size_t given = 0;
    ck_assert_int_eq(feed_zeros(JSON_READER_VALUES - 1, &given, &err), 0);
    ck_assert_uint_eq(given, 1);
    ck_assert_int_eq(feed_zeros(JSON_READER_VALUES, &given, &err), -1);
    ck_assert_uint_eq(given, 1);
    ck_assert_str_eq(err.text, "line 1: a value holds more than 1000000 JSON values");
    error_clear(&err);
}

TEST(test_stop)
{
    struct error err = {0};
    struct seen seen;
    seen_init(&seen, 100);
    seen.stop_after = 1;
    ck_assert_int_eq(feed(&seen, "1 2 3 4", 7, 7, &err), -1);
    ck_assert_str_eq(seen.text, "value 1 1\nvalue 1 2\n");
    ck_assert_ptr_nonnull(err.text);
    error_clear(&err);
    seen_clear(&seen);
}

/* What is no UTF-8 costs its string alone, wherever the text is cut. */
TEST(test_encodings)
{
    static const struct {
        const char *text;
        bool good;
    } rows[] = {
        {"\xc3\xa4 sixteen bytes and more \xf0\x9f\x98\x80", true},
        {"\xff", false},
        {"sixteen bytes and more\xc3", false},
        {"\xc3\xa4\xa4", false},
        {"\xc0\x80", false},
        {"\xed\xa0\x80", false},
        {"\xf5\x80\x80\x80 a", false},
        {"\xe2\x82\xac\xe2\x82", false},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char *text = xasprintf("{\"%s\":[1,\"%s\",\"b\"]}", rows[i].text, rows[i].text);
        char *expected = xasprintf("value 1 {\"%s\":[1,%s\"%s\",\"b\"]}\n", rows[i].text,
                                   rows[i].good ? "" : "bad ", rows[i].text);
        expect(text, expected);
        free(text);
        free(expected);
    }
}

/* @text with @blanks at each '~'. */
static char *with_blanks(const char *text, const char *blanks)
{
    char *out = xcalloc(strlen(text) * (strlen(blanks) + 1) + 1, 1), *end = out;
    for (; *text; text++) {
        if (*text == '~')
            end = stpcpy(end, blanks);
        else
            *end++ = *text;
    }
    return out;
}

/* Blanks between any two tokens, as indented texts have them, and the lines counted there. */
TEST(test_blanks)
{
    static const char text[] =
        "~{~\"a\"~:~[~1~,~{~\"b\"~:~true~,~\"c\"~:~\"d e\"~}~,~[~]~,~{~}~,~[~null~,~-2~]~]~}~~7~";
    static const char *const blanks[] = {
        "", " ", "\t", "\r\n", "\n", "\n  ", " \n\t ", "\n\n", "\n                 "};
    for (size_t i = 0; i < sizeof(blanks) / sizeof(blanks[0]); i++) {
        size_t lines = strcmp(blanks[i], "\n\n") == 0 ? 2 : strchr(blanks[i], '\n') != NULL;
        char *spaced = with_blanks(text, blanks[i]);
        char *expected =
            xasprintf("value %zu {\"a\":[1,{\"b\":true,\"c\":\"d e\"},[],{},[null,-2]]}\n"
                      "value %zu 7\n",
                      lines + 1, 31 * lines + 1);
        expect(spaced, expected);
        free(spaced);
        free(expected);
    }
}

/* Lengths of keys are kept up to a limit, behind which no two are told apart by it. */
static bool take_lengths(void *ctx, const struct json_value *value, bool is_item)
{
    char **out = ctx;
    json_each (value, member) {
        char *more = xasprintf("%s%u ", *out, member->key_length);
        free(*out);
        *out = more;
    }
    return true;
}

TEST(test_key_lengths)
{
    struct error err = {0};
    char *lengths = xstrdup(""), *long_key = xcalloc(65537, 1);
    memset(long_key, 'k', 65536);
    char *text = xasprintf("{\"\":1,\"a\":2,\"\\u00e4b\":3,\"%s\":4,\"%.65535s\":5,\"%.65534s\":6}",
                           long_key, long_key, long_key);
    ck_assert_int_eq(json_read(text, strlen(text), take_lengths, &lengths, &err), 0);
    ck_assert_str_eq(lengths, "0 1 3 65535 65535 65534 ");
    free(lengths);
    free(long_key);
    free(text);
}

/* Nor is a control character at any of these places. */
TEST(test_control_characters_anywhere)
{
    static const char marks[] = "\x01\t\n\x1f", plain[] = "0123456789abcdefghijklm";
    for (const char *mark = marks; *mark; mark++) {
        for (int before = 0; before < 18; before++) {
            struct error err = {0};
            struct seen seen;
            char *text = xasprintf("[\"%.*s%c%s\"]", before, plain, *mark, plain);
            char *message =
                xasprintf("line 1 column %d: a control character in a string", before + 3);
            seen_init(&seen, 100);
            size_t step = before % 2 ? 1 : strlen(text); /* short ends, too */
            ck_assert_msg(feed(&seen, text, step, step, &err) == -1, "%s", text);
            ck_assert_str_eq(err.text, message);
            error_clear(&err);
            seen_clear(&seen);
            free(text);
            free(message);
        }
    }
}

/* A value without an end is given up as soon as it is too long, wherever it is. */
TEST(test_limit_of_what_never_ends)
{
    static const char *const begins[] = {"\"",  "[\"", "{\"items\":[\"", "{\"items\":[],\"a\":\"",
                                         "[1,", "1"};
    for (size_t i = 0; i < sizeof(begins) / sizeof(begins[0]); i++) {
        struct error err = {0};
        struct seen seen;
        size_t fed = 0;
        seen_init(&seen, 100);
        ck_assert_int_eq(json_reader_feed(seen.reader, begins[i], strlen(begins[i]), &err), 0);
        while (fed < 1000 && json_reader_feed(seen.reader, "1", 1, &err) == 0)
            fed++;
        ck_assert_msg(fed > 60 && fed <= 100, "%s: %zu bytes", begins[i], fed);
        ck_assert_str_eq(err.text, "line 1: a value is longer than 100 bytes");
        error_clear(&err);
        seen_clear(&seen);
    }
}

/* Of members with one key the last one counts, for whoever asks for it. */
static bool take_member(void *ctx, const struct json_value *value, bool is_item)
{
    *(char **)ctx = xstrdup(json_string(json_member(value, "a")));
    return true;
}

TEST(test_last_member_counts)
{
    static const struct {
        const char *text, *expected;
    } rows[] = {
        {"{\"a\":\"1\",\"b\":\"2\",\"a\":\"3\"}", "3"},
        {"{\"a\":\"1\",\"ab\":\"2\",\"A\":\"3\",\"\":\"4\"}", "1"},
        {"{\"x\":{\"a\":\"2\"},\"a\":\"1\",\"y\":[{\"a\":\"2\"}]}", "1"},
        {"{\"a\":\"1\",\"a\":null}", NULL},
        {"{\"a\":{\"a\":\"1\"}}", NULL},
        {"[\"a\"]", NULL},
        {"\"a\"", NULL},
        {"{}", NULL},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct error err = {0};
        char *found = NULL;
        ck_assert_int_eq(json_read(rows[i].text, strlen(rows[i].text), take_member, &found, &err),
                         0);
        if (rows[i].expected)
            ck_assert_str_eq(found, rows[i].expected);
        else
            ck_assert_ptr_null(found);
        free(found);
    }
}

/* However much is between the items of a list, it counts for none of them nor for the list. */
TEST(test_limit_leaves_out_what_is_between)
{
    char blanks[301];
    memset(blanks, ' ', 300);
    blanks[300] = '\0';
    char *text = xasprintf("{\"items\":[%s1%s,%s2%s],\"a\":3,\"items\":[%s4%s]}", blanks, blanks,
                           blanks, blanks, blanks, blanks);
    for (size_t step = 1; step < strlen(text); step += 7) {
        struct error err = {0};
        struct seen seen;
        seen_init(&seen, strlen("{\"items\":[],\"a\":3,\"items\":[]}"));
        ck_assert_msg(feed(&seen, text, step, step, &err) == 0, "%s", err.text);
        ck_assert_str_eq(seen.text, "item 1 1\nitem 1 2\nitem 1 4\n"
                                    "value 1 {\"items\":[],\"a\":3,\"items\":[]}\n");
        seen_clear(&seen);
    }
    free(text);
}
