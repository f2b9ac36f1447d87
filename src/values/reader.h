/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the readers of all formats share: the values under construction. JSON and YAML build them
 * from begin, end, key and scalar events; protobuf, whose messages are no values of their own, adds
 * to the array itself.
 */
#ifndef KUBE_NFTD_VALUES_READER_H
#define KUBE_NFTD_VALUES_READER_H

#include "kube-nftd/base.h"
#include "kube-nftd/values.h"

/* API objects nest about 10 levels deep (schemas, managedFields). */
#define MAX_DEPTH 128
/* Open containers around an item: its list and the array of items. */
#define ITEM_DEPTH 2

/* Bytes beyond the requested room that may be overwritten. */
#define TEXT_SLACK 16

/* The first member of a reader. */
struct value_reader {
    int (*feed)(struct value_reader *reader, const char *bytes, size_t length, struct error *err);
    int (*finish)(struct value_reader *reader, struct error *err);
    void (*release)(struct value_reader *reader);
    size_t limit;       /* of bytes in a value */
    size_t value_limit; /* of values in a value */
    value_fn fn;
    void *ctx;
    bool failed; /* or finished */

    VEC(struct json_value) values;
    VEC(char) text; /* of the values */
    /* The current item follows the values and texts of its list and is removed after the callback.
     * @item is its first value; 0: not among items. */
    size_t item, item_text;
    size_t lines[2]; /* where the top value and the current item begin */

    /* Of JSON and YAML. */
    uint32_t open[MAX_DEPTH + ITEM_DEPTH]; /* open containers, outermost first */
    size_t depth;
    const char *key; /* of the next value; NULL: none */
    uint16_t key_length;
    bool had_items; /* the top value had its list of items */
};

/** Allocates a reader of @size bytes. */
void *reader_new(size_t size, size_t limit, value_fn fn, void *ctx);

/** Makes room for @needed bytes of text in all, and moves the values' strings with it. */
void reader_grow(struct value_reader *reader, size_t needed);

/** Makes room for @n bytes and TEXT_SLACK more at the end of the text. */
static inline void reader_make_room(struct value_reader *reader, size_t n)
{
    const size_t needed = reader->text.n + n + TEXT_SLACK;
    if (needed > reader->text.cap)
        reader_grow(reader, needed);
}

/** Passes on the current item, else the top value, and removes it. */
int reader_deliver(struct value_reader *reader, struct error *err);

/** Adds a value with the pending key. NULL with an error: too many values. */
struct json_value *reader_add(struct value_reader *reader, enum json_type type, struct error *err);

/** Begins an array or object, unless reader_is_deep(). -1: too many values. */
int reader_open(struct value_reader *reader, enum json_type type, struct error *err);

/** Ends the innermost array or object. */
void reader_close(struct value_reader *reader);

/** Whether the current item or top value is nested as deep as allowed. */
static inline bool reader_is_deep(const struct value_reader *reader)
{
    return reader->depth == MAX_DEPTH + (reader->item > 0 ? ITEM_DEPTH : 0);
}

/** Whether the innermost container is an object. */
static inline bool reader_in_object(const struct value_reader *reader)
{
    return reader->depth > 0 &&
           reader->values.v[reader->open[reader->depth - 1]].type == JSON_OBJECT;
}

/** Whether the value just added or ended is an item or a top value. */
static inline bool reader_is_complete(const struct value_reader *reader)
{
    return reader->depth == 0 || (reader->depth == ITEM_DEPTH && reader->item > 0);
}

#endif
