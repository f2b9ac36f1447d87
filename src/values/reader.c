/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "reader.h"

#ifndef FUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION
/* Larger arrays are not kept for the next value. */
#define BYTES_KEPT ((size_t)128 * 1024)
#define VALUES_KEPT ((size_t)16 * 1024)
#else /* small enough for a fuzzer to exceed */
#define BYTES_KEPT ((size_t)64)
#define VALUES_KEPT ((size_t)16)
#endif

void *reader_new(size_t size, size_t limit, value_fn fn, void *ctx)
{
    struct value_reader *reader = xcalloc(1, size);
    reader->limit = limit < UINT32_MAX ? limit : UINT32_MAX;
    reader->value_limit = limit == SIZE_MAX ? UINT32_MAX : VALUES_LIMIT;
    reader->fn = fn;
    reader->ctx = ctx;
    return reader;
}

void value_reader_free(struct value_reader *reader)
{
    if (!reader)
        return;
    if (reader->release)
        reader->release(reader);
    vec_free(&reader->values);
    vec_free(&reader->text);
    free(reader);
}

size_t value_reader_line(const struct value_reader *reader)
{
    return reader->lines[reader->item > 0];
}

int value_reader_feed(struct value_reader *reader, const char *bytes, size_t length,
                      struct error *err)
{
    if (reader->failed)
        return error_set(err, "the reader failed before");
    if (length > 0)
        reader->failed = reader->feed(reader, bytes, length, err) < 0;
    if (reader->values.n == 0 && reader->text.n == 0 &&
        (reader->text.cap > BYTES_KEPT || reader->values.cap > VALUES_KEPT)) {
        vec_free(&reader->values);
        vec_free(&reader->text);
    }
    return reader->failed ? -1 : 0;
}

int value_reader_finish(struct value_reader *reader, struct error *err)
{
    if (reader->failed)
        return error_set(err, "the reader failed before");
    reader->failed = true;
    return reader->finish(reader, err);
}

/* ---- values ---- */

/* Texts outside of the moved array stay where they are. */
static void move_text(const char **text, const char *from, size_t n, const char *to)
{
    if (*text && (uintptr_t)*text - (uintptr_t)from < n)
        *text = to + (*text - from);
}

void reader_grow(struct value_reader *reader, size_t needed)
{
    const char *from = reader->text.v;
    const size_t used = reader->text.n;
    size_t cap = needed > 2 * reader->text.cap ? needed : 2 * reader->text.cap;
    char *to = xreallocarray(NULL, cap, 1);
    if (used > 0)
        memcpy(to, from, used);
    move_text(&reader->key, from, used, to);
    vec_each (&reader->values, value) {
        move_text(&value->key, from, used, to);
        if (json_has_string(value))
            move_text(&value->string, from, used, to);
    }
    free(reader->text.v);
    reader->text.v = to;
    reader->text.cap = cap;
}

int reader_deliver(struct value_reader *reader, struct error *err)
{
    bool is_item = reader->item > 0;
    const struct json_value *value = &reader->values.v[reader->item];
    if (reader->fn(reader->ctx, value, is_item ? reader->values.v : NULL, err))
        return -1;
    reader->values.n = reader->item;
    reader->text.n = is_item ? reader->item_text : 0;
    reader->had_items &= is_item;
    return 0;
}

struct json_value *reader_add(struct value_reader *reader, enum json_type type, struct error *err)
{
    if (reader->values.n - reader->item == reader->value_limit) {
        error_set(err, "line %zu: a value has more than %zu JSON values", value_reader_line(reader),
                  reader->value_limit);
        return NULL;
    }
    vec_push(&reader->values, (struct json_value){.key = reader->key,
                                                  .size = 1,
                                                  .type = (uint8_t)type,
                                                  .key_length = reader->key_length});
    reader->key = NULL;
    reader->key_length = 0;
    return &reader->values.v[reader->values.n - 1];
}

int reader_open(struct value_reader *reader, enum json_type type, struct error *err)
{
    const struct json_value *value = reader_add(reader, type, err);
    if (!value)
        return -1;
    reader->open[reader->depth++] = (uint32_t)(reader->values.n - 1);
    if (reader->depth == ITEM_DEPTH && type == JSON_ARRAY && !reader->had_items && value->key &&
        json_has_key(value, "items")) {
        reader->had_items = true;
        reader->values.v[0].size = (uint32_t)reader->values.n; /* as if it ended here */
        reader->item = reader->values.n;
        reader->item_text = reader->text.n;
    }
    return 0;
}

void reader_close(struct value_reader *reader)
{
    uint32_t index = reader->open[--reader->depth];
    reader->values.v[index].size = (uint32_t)(reader->values.n - index);
    if (reader->depth == 1 && reader->item == index + 1U)
        reader->item = 0;
}
