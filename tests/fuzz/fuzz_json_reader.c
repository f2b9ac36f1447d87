/* SPDX-License-Identifier: GPL-2.0-or-later */
/* However a text is cut into pieces (cut at each byte, nothing is taken in runs), the reader gives
 * out the same values; and they are those that another parser, cJSON, finds in it. */
#include "../unit/json_read.h"

#include "kube-nftd/base.h"
#include "kube-nftd/values.h"

#include <cjson/cJSON.h>

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct run {
    struct value_reader *reader;
    VEC(char) out; /* every value, its line and whether it is an item */
    int result;
};

static void expect(bool holds)
{
    if (!holds)
        abort();
}

static void add(struct run *run, const void *bytes, size_t n)
{
    vec_reserve(&run->out, n);
    memcpy(run->out.v + run->out.n, bytes, n);
    run->out.n += n;
}

static void add_number(struct run *run, const struct json_value *value)
{
    add(run, &value->number, sizeof(value->number));
    add(run, &value->integer, sizeof(value->integer));
}

static void add_value(struct run *run, const struct json_value *value)
{
    add(run, &value->type, sizeof(value->type));
    add(run, &value->size, sizeof(value->size));
    if (value->key)
        add(run, value->key, strlen(value->key) + 1);
    if (json_has_string(value))
        add(run, value->string, strlen(value->string) + 1);
    else if (value->type == JSON_NUMBER)
        add_number(run, value);
}

/* What a value says of its size is true of all that is in it. */
static void check_sizes(const struct json_value *value)
{
    uint32_t size = 1;
    json_each (value, inner) {
        expect((inner->key != NULL) == (value->type == JSON_OBJECT));
        expect(inner->key_length == (inner->key ? json_key_length(strlen(inner->key)) : 0));
        check_sizes(inner);
        size += inner->size;
    }
    expect(size == value->size);
    expect(size == 1 || value->type == JSON_OBJECT || value->type == JSON_ARRAY);
}

static int take(void *ctx, const struct json_value *value, const struct json_value *list,
                struct error *err)
{
    struct run *run = ctx;
    size_t line = value_reader_line(run->reader);
    bool is_item = list != NULL;
    (void)err;
    if (list)
        check_sizes(list);
    check_sizes(value);
    add(run, &line, sizeof(line));
    add(run, &is_item, sizeof(is_item));
    for (uint32_t i = 0; i < value->size; i++)
        add_value(run, value + i);
    return 0;
}

static void run_pieces(struct run *run, const uint8_t *data, size_t size, size_t limit,
                       size_t piece)
{
    struct error err = {0};
    run->reader = json_reader_new(limit, take, run);
    for (size_t at = 0; at < size && run->result == 0; at += piece) {
        size_t n = size - at < piece ? size - at : piece;
        char *copy = xcalloc(n, 1);
        memcpy(copy, data + at, n);
        run->result = value_reader_feed(run->reader, copy, n, &err);
        free(copy);
    }
    if (run->result == 0)
        run->result = value_reader_finish(run->reader, &err);
    expect((run->result != 0) == (err.text != NULL));
    error_clear(&err);
    value_reader_free(run->reader);
}

static void compare(const uint8_t *data, size_t size, size_t limit, size_t piece)
{
    struct run whole = {0}, cut = {0};
    run_pieces(&whole, data, size, limit, size);
    run_pieces(&cut, data, size, limit, piece);
    expect(whole.result == cut.result && whole.out.n == cut.out.n);
    expect(cut.out.n == 0 || memcmp(whole.out.v, cut.out.v, cut.out.n) == 0);
    vec_free(&whole.out);
    vec_free(&cut.out);
}

/* ---- beside cJSON ---- */

struct comparison {
    const cJSON *tree; /* cJSON's; NULL if that refused the text */
    size_t seen;       /* top-level values of ours */
};

static bool same_text(const char *a, const char *b)
{
    return a == b || (a && b && strcmp(a, b) == 0);
}

static bool same_type(const struct json_value *ours, const cJSON *other)
{
    static const int types[] = {[JSON_NULL] = cJSON_NULL,     [JSON_FALSE] = cJSON_False,
                                [JSON_TRUE] = cJSON_True,     [JSON_NUMBER] = cJSON_Number,
                                [JSON_STRING] = cJSON_String, [JSON_BAD_STRING] = cJSON_String,
                                [JSON_ARRAY] = cJSON_Array,   [JSON_OBJECT] = cJSON_Object,
                                [JSON_BROKEN] = cJSON_Invalid};
    return (other->type & types[ours->type]) != 0;
}

static void expect_same(const struct json_value *ours, const cJSON *other)
{
    const cJSON *child = other->child;
    expect(same_type(ours, other) && same_text(ours->key, other->string));
    if (json_has_string(ours))
        expect(same_text(ours->string, other->valuestring));
    if (ours->type == JSON_NUMBER)
        expect(ours->number == other->valuedouble);
    json_each (ours, value) {
        expect(child != NULL);
        expect_same(value, child);
        child = child->next;
    }
    expect(!child);
}

static int take_beside(void *ctx, const struct json_value *value, const struct json_value *list,
                       struct error *err)
{
    struct comparison *comparison = ctx;
    (void)err;
    expect(!list || !comparison->tree);
    if (comparison->seen++ == 0 && comparison->tree)
        expect_same(value, comparison->tree);
    return 0;
}

/* Where we differ on purpose: characters that cJSON refuses or ends a string at, and numbers of
 * more digits than it reads. */
static bool differs(const char *text)
{
    size_t digits = 0;
    for (const char *p = text; *p; p++) {
        digits = strchr("0123456789.+-eE", *p) ? digits + 1 : 0;
        if (digits > 60)
            return true;
    }
    return strstr(text, "\\u") != NULL;
}

/* An array around the text keeps lists whole. What we read as one value, cJSON must read too, and
 * alike. */
static void compare_with_cjson(const uint8_t *data, size_t size)
{
    char *text = xasprintf("[%.*s]", (int)size, (const char *)data);
    if (!memchr(data, 0, size) && !differs(text)) {
        struct error err = {0};
        cJSON *tree = cJSON_ParseWithOpts(text, NULL, true);
        struct comparison comparison = {.tree = tree};
        int result = json_read(text, strlen(text), take_beside, &comparison, &err);
        expect(result != 0 || comparison.seen != 1 || tree);
        error_clear(&err);
        cJSON_Delete(tree);
    }
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    size_t mix = size;
    for (size_t i = 0; i < size && i < 64; i++)
        mix = mix * 31 + data[i];
    compare(data, size, size + 1, 1);
    compare(data, size, size + 1, 2 + mix % 61);
    compare(data, size, 1 + mix % 97, 1 + mix % 7);
    compare_with_cjson(data, size);
    return 0;
}
