/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * One pass over the bytes: every token is looked at once, becomes a value in a growing array, and
 * the reader can stop behind any of them. Strings stay where they are, in the buffer; escapes are
 * replaced and the NUL put behind them in place. Both buffer and array are kept for the next value,
 * so that reading allocates nothing.
 *
 * The buffer holds what is read of the present value and all bytes that were fed since. While the
 * items of a list come, the envelope is at the front of it, and what is between its last byte and
 * the present item (the hole) has been given out: it is cut out before more bytes come. So the
 * memory is bounded by one envelope, one item and one piece of bytes. In the array, too, an item
 * stands behind the envelope and is cut off when it was given out.
 */
#include "kube-nftd/values.h"

#include "json_text.h"
#include "kube-nftd/base.h"

/* Objects of the API nest some 10 levels deep (a schema's, managedFields'). */
#define MAX_DEPTH 128

/* Of a list that an item stands in: the object and its array. */
#define LIST_DEPTH 2

/* So many bytes of 0 stand behind those that are there, and can be read (json_text.h). */
#define PAD 16

#ifndef FUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION
/* A buffer larger than this is not kept for the next value. */
#define BUFFER_KEPT ((size_t)128 * 1024)

/* So many bytes are put into the buffer at a time. */
#define PIECE ((size_t)16 * 1024)
#else /* so small that a fuzzer's texts go beyond */
#define BUFFER_KEPT ((size_t)64)
#define PIECE ((size_t)200)
#endif

/* What may come next. */
enum state {
    STATE_TOP,        /* a top-level value, or nothing more */
    STATE_VALUE,      /* a value */
    STATE_FIRST_ITEM, /* a value, or the end of the array */
    STATE_KEY,        /* a key */
    STATE_FIRST_KEY,  /* a key, or the end of the object */
    STATE_COLON,      /* the colon after a key */
    STATE_NEXT,       /* a comma, or the end of the array or object */
    STATE_FAILED,
};

struct json_reader {
    size_t limit;
    size_t value_limit;
    json_value_fn fn;
    void *ctx;

    enum state state;
    bool ended; /* no more bytes come */
    size_t depth;
    size_t open[LIST_DEPTH + MAX_DEPTH]; /* the arrays and objects around; indices of values */

    VEC(struct json_value) values;
    VEC(char) buffer;
    size_t at;     /* the first byte that was not taken */
    size_t looked; /* at so many bytes from there, of a token that began but whose end is missing */

    /* The present value: a top-level one, or an item. */
    bool in_item;
    size_t base;  /* its first value */
    size_t begin; /* its first byte, in bytes of the stream */
    size_t line_of_value;

    /* A list, and what of its bytes nobody needs: from @hole to @hole_end, where the value
     * @behind_hole is the next one. Between top-level values the hole begins at the buffer's
     * begin, in a list at the first byte inside its last "items"; it ends where the present item
     * begins, or where the items end. */
    bool in_items;
    size_t list_begin, list_line;
    size_t hole, hole_end, behind_hole;
    size_t list_skipped; /* all bytes that were in the hole up to now */

    /* Positions in the stream, for messages: a byte's place in the buffer and @gone. */
    size_t gone;
    size_t line;       /* in which @at is, from 1 */
    size_t line_begin; /* its first byte */
};

struct json_reader *json_reader_new(size_t limit, json_value_fn fn, void *ctx)
{
    struct json_reader *reader = xcalloc(1, sizeof(*reader));
    reader->limit = limit < UINT32_MAX ? limit : UINT32_MAX;
    reader->value_limit = JSON_READER_VALUES;
    reader->fn = fn;
    reader->ctx = ctx;
    reader->line = 1;
    return reader;
}

void json_reader_free(struct json_reader *reader)
{
    if (!reader)
        return;
    vec_free(&reader->values);
    vec_free(&reader->buffer);
    free(reader);
}

void json_reader_limit_values(struct json_reader *reader, size_t limit)
{
    reader->value_limit = limit < UINT32_MAX ? limit : UINT32_MAX;
}

size_t json_reader_line(const struct json_reader *reader)
{
    return reader->line_of_value;
}

const struct json_value *json_reader_envelope(const struct json_reader *reader)
{
    return reader->in_item ? reader->values.v : NULL;
}

/* ---- failures ---- */

/* At the byte @at of the buffer. */
static int fail_at(struct json_reader *reader, size_t at, struct error *err, const char *what)
{
    reader->state = STATE_FAILED;
    return error_set(err, "line %zu column %zu: %s", reader->line,
                     reader->gone + at - reader->line_begin + 1, what);
}

static int fail(struct json_reader *reader, struct error *err, const char *what)
{
    return fail_at(reader, reader->at, err, what);
}

static int too_big(struct json_reader *reader, struct error *err, const char *than, size_t limit,
                   const char *unit)
{
    reader->state = STATE_FAILED;
    return error_set(err, "line %zu: a value %s than %zu %s", reader->line_of_value, than, limit,
                     unit);
}

/* The present value goes up to @end in the buffer. */
static int check_length(struct json_reader *reader, size_t end, struct error *err)
{
    size_t length = reader->gone + end - reader->begin;
    if (length - (reader->in_item ? 0 : reader->list_skipped) <= reader->limit)
        return 0;
    return too_big(reader, err, "is longer", reader->limit, "bytes");
}

/* ---- the buffer ---- */

/* The texts of values from @from on have moved: what was at @before is at @now. */
static void move_texts(struct json_reader *reader, size_t from, const char *before, const char *now)
{
    for (size_t i = from; i < reader->values.n; i++) {
        struct json_value *value = &reader->values.v[i];
        if (value->key)
            value->key = now + (value->key - before);
        if (json_has_string(value))
            value->string = now + (value->string - before);
    }
}

/* Nobody needs what is before @at and behind the hole's begin. */
static void widen_hole(struct json_reader *reader)
{
    reader->list_skipped += reader->at - reader->hole_end;
    reader->hole_end = reader->at;
    reader->behind_hole = reader->values.n;
}

static void end_buffer(struct json_reader *reader)
{
    memset(reader->buffer.v + reader->buffer.n, 0, PAD);
}

/* Cuts the hole out. */
static void close_hole(struct json_reader *reader)
{
    size_t n = reader->hole_end - reader->hole;
    if (n == 0)
        return;
    char *text = reader->buffer.v;
    memmove(text + reader->hole, text + reader->hole_end, reader->buffer.n - reader->hole_end);
    move_texts(reader, reader->behind_hole, text + reader->hole_end, text + reader->hole);
    reader->buffer.n -= n;
    end_buffer(reader);
    reader->at -= n;
    reader->gone += n;
    reader->hole_end = reader->hole;
}

/* Begins another hole at @at. */
static void open_hole(struct json_reader *reader)
{
    close_hole(reader);
    reader->hole = reader->hole_end = reader->at;
}

static bool is_between_items(const struct json_reader *reader)
{
    return reader->in_items && !reader->in_item && reader->depth == LIST_DEPTH;
}

/* Between top-level values nothing before @at is needed, between items nothing of them. */
static void drop_given(struct json_reader *reader)
{
    if (reader->state == STATE_TOP)
        reader->hole = 0;
    if (reader->looked == 0 && (reader->state == STATE_TOP || is_between_items(reader)))
        widen_hole(reader);
    close_hole(reader);
    if (reader->state == STATE_TOP && reader->buffer.n == 0 && reader->buffer.cap > BUFFER_KEPT) {
        vec_free(&reader->buffer);
        vec_free(&reader->values);
    }
}

/* Both buffers are there while the texts move from one to the other. */
static void grow(struct json_reader *reader, size_t length)
{
    char *before = reader->buffer.v;
    size_t n = reader->buffer.n;
    reader->buffer.v = NULL;
    reader->buffer.n = 0;
    vec_reserve(&reader->buffer, n + length + PAD);
    if (n > 0)
        memcpy(reader->buffer.v, before, n);
    reader->buffer.n = n;
    move_texts(reader, 0, before, reader->buffer.v);
    free(before);
}

static void append(struct json_reader *reader, const char *bytes, size_t length)
{
    if (reader->buffer.n + length + PAD > reader->buffer.cap)
        grow(reader, length);
    memcpy(&reader->buffer.v[reader->buffer.n], bytes, length);
    reader->buffer.n += length;
    end_buffer(reader);
}

/* ---- values ---- */

static struct json_value *container(struct json_reader *reader)
{
    return &reader->values.v[reader->open[reader->depth - 1]];
}

/* Another value, without a type as yet. */
static int add_value(struct json_reader *reader, const char *key, size_t length, struct error *err)
{
    if (reader->values.n - reader->base == reader->value_limit)
        return too_big(reader, err, "holds more", reader->value_limit, "JSON values");
    vec_push(&reader->values,
             (struct json_value){.key = key, .size = 1, .key_length = json_key_length(length)});
    return 0;
}

/* Gives out the present value, which is whole, and forgets it. */
static int give(struct json_reader *reader, struct error *err)
{
    bool is_item = reader->in_item;
    if (check_length(reader, reader->at, err))
        return -1;
    if (is_item)
        reader->values.v[0].size = (uint32_t)reader->base;
    bool more = reader->fn(reader->ctx, &reader->values.v[reader->base], is_item);
    if (!more) {
        reader->state = STATE_FAILED;
        return err->text ? -1 : error_set(err, "stopped by the reader of the values");
    }
    reader->values.n = reader->base;
    reader->base = 0;
    reader->in_item = false;
    reader->begin = reader->list_begin;
    reader->line_of_value = reader->list_line;
    reader->state = is_item ? STATE_NEXT : STATE_TOP;
    return 0;
}

/* The value that was taken last is whole. */
static int end_value(struct json_reader *reader, struct error *err)
{
    reader->state = STATE_NEXT;
    return reader->depth == (reader->in_item ? LIST_DEPTH : 0) ? give(reader, err) : 0;
}

static void begin_top(struct json_reader *reader)
{
    reader->list_begin = reader->begin = reader->gone + reader->at;
    reader->list_line = reader->line_of_value = reader->line;
    reader->hole = 0;
    widen_hole(reader);
    reader->list_skipped = 0;
}

static void begin_item(struct json_reader *reader)
{
    widen_hole(reader);
    reader->in_item = true;
    reader->base = reader->values.n;
    reader->begin = reader->gone + reader->at;
    reader->line_of_value = reader->line;
}

/* The array or object at @at begins. */
static int open_container(struct json_reader *reader, enum json_type type, struct error *err)
{
    if (reader->depth == (reader->in_item ? LIST_DEPTH : 0) + MAX_DEPTH)
        return fail(reader, err, "nested too deep");
    struct json_value *value = &reader->values.v[reader->values.n - 1];
    value->type = (uint8_t)type;
    reader->open[reader->depth++] = reader->values.n - 1;
    reader->at++;
    reader->state = type == JSON_OBJECT ? STATE_FIRST_KEY : STATE_FIRST_ITEM;
    if (type == JSON_ARRAY && reader->depth == LIST_DEPTH && value->key &&
        strcmp(value->key, "items") == 0) {
        open_hole(reader);
        reader->in_items = true;
        return check_length(reader, reader->at, err);
    }
    return 0;
}

static int close_container(struct json_reader *reader, struct error *err)
{
    struct json_value *value = container(reader);
    if ((value->type == JSON_OBJECT) != (reader->buffer.v[reader->at] == '}'))
        return fail(reader, err, "a bracket is closed by one of another kind");
    if (is_between_items(reader)) {
        widen_hole(reader);
        reader->in_items = false;
    }
    value->size = (uint32_t)(reader->values.n - reader->open[reader->depth - 1]);
    reader->depth--;
    reader->at++;
    return end_value(reader, err);
}

/* ---- tokens ---- */

/* Of the functions that take a token, each returns 0 if it took one, -1 if that is none, and this
 * if its end is missing. */
#define MISSING 1

/* Whether @c is of a character beyond ASCII. */
static bool is_wide(char c)
{
    return (unsigned char)c >= 0x80;
}

/* The string at @at, NUL-terminated, its quotes left out. */
static int take_string(struct json_reader *reader, struct json_value *value, size_t *length,
                       struct error *err)
{
    char *text = reader->buffer.v + reader->at + 1;
    const char *end = reader->buffer.v + reader->buffer.n;
    char *p = text + (reader->looked > 0 ? reader->looked - 1 : 0);
    bool escaped = reader->looked > 0, plain = !escaped; /* or so it may be */
    while ((p = json_text_run_end(p)) < end && ((*p == '\\' && p + 1 < end) || is_wide(*p))) {
        plain = false;
        if (*p == '\\') {
            escaped = true;
            p += (unsigned char)p[1] >= 32 ? 2 : 1;
        }
        while (is_wide(*p))
            p++;
    }
    if (p == end || *p == '\\') {
        reader->looked = (size_t)(p - text) + 1;
        return MISSING;
    }
    if (*p != '"')
        return fail_at(reader, (size_t)(p - reader->buffer.v), err,
                       "a control character in a string");
    *p = '\0';
    if (escaped && !json_text_unescape(text, (size_t)(p - text)))
        return fail(reader, err, "a string with an unknown escape");
    value->type = plain || utf8_is_valid(text) ? JSON_STRING : JSON_BAD_STRING;
    value->string = text;
    *length = escaped ? strlen(text) : (size_t)(p - text);
    reader->looked = 0;
    reader->at = (size_t)(p + 1 - reader->buffer.v);
    return 0;
}

static int take_scalar(struct json_reader *reader, struct json_value *value, struct error *err)
{
    char *text = reader->buffer.v + reader->at;
    const char *end = reader->buffer.v + reader->buffer.n;
    const char *p = json_text_scalar_end(text + reader->looked, end);
    if (p == text)
        return fail(reader, err, "a value should begin here");
    if (p == end && !reader->ended) {
        reader->looked = (size_t)(p - text);
        return MISSING;
    }
    if (!json_text_scalar(text, (size_t)(p - text), value))
        return fail(reader, err, "not a JSON value");
    reader->looked = 0;
    reader->at = (size_t)(p - reader->buffer.v);
    return 0;
}

/* Whether the next byte is @mark, which it is right behind most tokens. Takes it then. */
static bool take_at_once(struct json_reader *reader, char mark)
{
    bool is_mark = reader->at < reader->buffer.n && reader->buffer.v[reader->at] == mark;
    reader->at += is_mark;
    return is_mark;
}

static int take_key(struct json_reader *reader, struct error *err)
{
    struct json_value key = {.string = NULL};
    size_t length = 0;
    if (reader->buffer.v[reader->at] != '"')
        return fail(reader, err, "a key should begin here");
    int result = take_string(reader, &key, &length, err);
    if (result)
        return result;
    reader->state = take_at_once(reader, ':') ? STATE_VALUE : STATE_COLON;
    return add_value(reader, key.string, length, err); /* a bad one is none that is looked for */
}

/* Where a value may be; that of a member has a place already, from its key on. */
static int take_value(struct json_reader *reader, struct error *err)
{
    bool is_member = reader->depth > 0 && container(reader)->type == JSON_OBJECT;
    struct json_value value = {0};
    char c = reader->buffer.v[reader->at];
    size_t length;
    int result = 0;
    if (reader->depth == 0 && reader->looked == 0)
        begin_top(reader);
    else if (is_between_items(reader))
        begin_item(reader);
    if (c == '"')
        result = take_string(reader, &value, &length, err);
    else if (c != '{' && c != '[')
        result = take_scalar(reader, &value, err);
    if (result || (!is_member && (result = add_value(reader, NULL, 0, err)) != 0))
        return result;
    if (c == '{' || c == '[')
        return open_container(reader, c == '{' ? JSON_OBJECT : JSON_ARRAY, err);
    struct json_value *place = &reader->values.v[reader->values.n - 1];
    value.key = place->key;
    value.key_length = place->key_length;
    value.size = 1;
    *place = value;
    if (reader->depth > LIST_DEPTH && take_at_once(reader, ',')) {
        reader->state = is_member ? STATE_KEY : STATE_VALUE;
        return 0;
    }
    return end_value(reader, err);
}

static int take_mark(struct json_reader *reader, enum state next)
{
    reader->at++;
    reader->state = next;
    return 0;
}

static int take_next(struct json_reader *reader, struct error *err)
{
    char c = reader->buffer.v[reader->at];
    if (c == '}' || c == ']')
        return close_container(reader, err);
    if (c != ',')
        return fail(reader, err, "no comma or end");
    return take_mark(reader, container(reader)->type == JSON_OBJECT ? STATE_KEY : STATE_VALUE);
}

static void skip_blanks(struct json_reader *reader)
{
    size_t at = reader->at;
    for (; at < reader->buffer.n; at++) {
        char c = reader->buffer.v[at];
        if (c == '\n') {
            reader->line++;
            reader->line_begin = reader->gone + at + 1;
        } else if (c != ' ' && c != '\t' && c != '\r') {
            break;
        }
    }
    reader->at = at;
}

static int take_token(struct json_reader *reader, struct error *err)
{
    char c = reader->buffer.v[reader->at];
    switch (reader->state) {
    case STATE_FIRST_KEY:
        return c == '}' ? close_container(reader, err) : take_key(reader, err);
    case STATE_KEY:
        return take_key(reader, err);
    case STATE_COLON:
        return c == ':' ? take_mark(reader, STATE_VALUE)
                        : fail(reader, err, "no colon after a key");
    case STATE_FIRST_ITEM:
        return c == ']' ? close_container(reader, err) : take_value(reader, err);
    case STATE_TOP:
    case STATE_VALUE:
        return take_value(reader, err);
    case STATE_NEXT:
        return take_next(reader, err);
    case STATE_FAILED:
        break;
    }
    return -1;
}

/* Takes all tokens whose ends are there. */
static int take_all(struct json_reader *reader, struct error *err)
{
    int result = 0;
    while (result == 0) {
        skip_blanks(reader);
        if (reader->at == reader->buffer.n)
            return 0;
        result = take_token(reader, err);
    }
    return result == MISSING ? 0 : -1;
}

static int feed_piece(struct json_reader *reader, const char *bytes, size_t length,
                      struct error *err)
{
    append(reader, bytes, length);
    if (take_all(reader, err))
        return -1;
    drop_given(reader);
    if (reader->state == STATE_TOP && reader->looked == 0)
        return 0;
    return check_length(reader, reader->buffer.n, err);
}

/* In pieces that the processor's cache holds. */
int json_reader_feed(struct json_reader *reader, const char *bytes, size_t length,
                     struct error *err)
{
    if (reader->state == STATE_FAILED)
        return error_set(err, "the text before was not usable");
    while (length > 0) {
        size_t n = length < PIECE ? length : PIECE;
        if (feed_piece(reader, bytes, n, err))
            return -1;
        bytes += n;
        length -= n;
    }
    return 0;
}

int json_reader_finish(struct json_reader *reader, struct error *err)
{
    if (reader->state == STATE_FAILED)
        return error_set(err, "the text before was not usable");
    reader->ended = true;
    if (take_all(reader, err))
        return -1;
    if (reader->state != STATE_TOP || reader->looked > 0)
        return fail_at(reader, reader->buffer.n, err, "the text ends inside a value");
    reader->state = STATE_FAILED;
    return 0;
}
