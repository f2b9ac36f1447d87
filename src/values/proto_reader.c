/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A watch is a sequence of frames. A body is an envelope around contents; both are streamed field
 * by field, and each item of a list is such a field. A frame or streamed field is buffered until
 * complete and then decoded recursively, so memory is bounded by one envelope and one object.
 *
 * In the value array, an item follows the envelope and is removed after the callback.
 */
#include "reader.h"

#include <endian.h>
#include <inttypes.h>
#include <stdio.h>

/* Larger buffers are not kept for the next object. */
#define BYTES_KEPT ((size_t)128 * 1024)

/* ---- the wire format ---- */

/* Wire types. Kubernetes does not use groups (3 and 4). */
enum wire {
    WIRE_VARINT = 0,
    WIRE_FIXED64 = 1,
    WIRE_LENGTH = 2,
    WIRE_FIXED32 = 5,
};

/* The start of a field. */
struct token {
    uint32_t field;
    uint32_t wire;   /* enum wire */
    uint64_t number; /* WIRE_VARINT: the value; else the number of bytes that follow */
};

/* Precedes an object's envelope. */
static const char magic[] = "k8s";

/* Precedes each event of a watch: its length, big-endian. */
#define FRAME sizeof(uint32_t)

/* Error for a token whose end may still arrive. */
static const char cut_off[] = "the end of a field is missing";

/* Seven bits per byte, least significant first; bit 7 is set in all bytes but the last. Most are
 * one byte. */
static inline const char *read_varint(const uint8_t **in, const uint8_t *end, uint64_t *number)
{
    *number = 0;
    if (*in < end && **in < 0x80) {
        *number = *(*in)++;
        return NULL;
    }
    for (unsigned shift = 0; *in < end; shift += 7) {
        uint8_t byte = *(*in)++;
        if (shift == 63 && byte > 1)
            return "a number of more than 64 bits";
        *number |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80)
            return NULL;
    }
    return cut_off;
}

/* Reads the token at *@in and advances it. Returns an error text, or NULL. */
static inline const char *read_token(const uint8_t **in, const uint8_t *end, struct token *token)
{
    uint64_t tag;
    const char *fault = read_varint(in, end, &tag);
    if (fault)
        return fault;
    if (tag > UINT32_MAX || tag >> 3 == 0)
        return "a field with no valid number";
    const uint32_t wire = token->wire = tag & 7;
    token->field = (uint32_t)tag >> 3;
    if (wire == WIRE_VARINT || wire == WIRE_LENGTH)
        return read_varint(in, end, &token->number);
    token->number = wire == WIRE_FIXED64 ? 8 : 4;
    if (wire == 3 || wire == 4)
        return "a group, which Kubernetes does not use";
    return wire > WIRE_FIXED32 ? "a field of an unknown wire type" : NULL;
}

/* Number of bytes after the token. */
static inline uint64_t size_behind(struct token token)
{
    return token.wire == WIRE_VARINT ? 0 : token.number;
}

static bool is_envelope(const uint8_t *in, size_t n)
{
    return n >= sizeof(magic) && memcmp(in, magic, sizeof(magic)) == 0;
}

/* ---- the reader ---- */

/* A message being read. Tables are not recursive, so the depth is bounded. */
struct place {
    const struct proto_message *message;
    size_t value;                    /* the value that its fields are added to */
    const struct proto_field *grows; /* the list field of the last element, */
    size_t list;                     /* and its value */
    uint32_t seen;                   /* bits by field number */
};

struct proto_reader {
    struct value_reader base;
    const struct proto_format *format;

    VEC(uint8_t) bytes; /* received part of the current frame or field */
    uint64_t needed;    /* bytes required for the next step */
    uint64_t at;        /* stream offset of @bytes */

    struct place envelope, contents;
    uint64_t contents_left; /* remaining bytes; 0: the next field is the envelope's */

    bool stopped; /* by the callback */

    const uint8_t *token; /* of the current field */
    bool in_object;       /* errors affect only the current object */
    struct error err;     /* error of the stream or of the current object */
    bool is_named;        /* its text begins with a field name */
};

static inline size_t add_value(struct proto_reader *reader, const char *key, uint16_t key_length,
                               enum json_type type)
{
    vec_push(&reader->base.values,
             (struct json_value){
                 .key = key, .type = (uint8_t)type, .size = 1, .key_length = key_length});
    return reader->base.values.n - 1;
}

/* All values after the one at @index are its contents. */
static void close_value(struct proto_reader *reader, size_t index)
{
    reader->base.values.v[index].size = (uint32_t)(reader->base.values.n - index);
}

/* Passes on the current item, else all values, and removes them. */
static int deliver(struct proto_reader *reader)
{
    error_clear(&reader->err);
    reader->stopped = reader_deliver(&reader->base, &reader->err) < 0;
    reader->base.item = 0;
    return reader->stopped ? -1 : 0;
}

/* ---- messages ---- */

/* Prepends the field to an object's error, on the way up. */
static int name_field(struct proto_reader *reader, const struct place *place,
                      const struct proto_field *field)
{
    char index[32] = "";
    if (!reader->in_object || !field || !field->key)
        return -1;
    if (field == place->grows)
        snprintf(index, sizeof(index), "[%zu]", json_count(&reader->base.values.v[place->list]));
    const char *separator = reader->is_named ? "." : ": ";
    reader->is_named = true;
    return error_set(&reader->err, "%s%s%s%s", field->key, index, separator, reader->err.text);
}

static int take_field(struct proto_reader *reader, struct place *place,
                      const struct proto_field *field, struct token token, const uint8_t *in);

/* NULL: the field is not used. */
static const struct proto_field *field_of(const struct proto_message *message, uint32_t number)
{
    const struct proto_field *field = number < message->n ? &message->fields[number] : NULL;
    return field && field->type != PROTO_UNUSED ? field : NULL;
}

/* Reads all fields up to @end; @more bytes of the last one arrive later. */
static int take_fields(struct proto_reader *reader, struct place *place, const uint8_t *in,
                       const uint8_t *end, uint64_t more)
{
    while (in < end) {
        struct token token;
        reader->token = in;
        const char *fault = read_token(&in, end, &token);
        if (fault)
            return error_set(&reader->err, "%s", fault);
        const struct proto_field *field = field_of(place->message, token.field);
        uint64_t there = (uint64_t)(end - in), size = size_behind(token);
        if (size > there && size - there > more) {
            error_set(&reader->err, "it is longer than the field that contains it");
            return name_field(reader, place, field);
        }
        if (field && take_field(reader, place, field, token, in) < 0)
            return -1;
        if (size > there)
            return 0;
        in += size;
    }
    return 0;
}

/* Reads the fields of @message into @value. */
static int take_message(struct proto_reader *reader, const struct proto_message *message,
                        size_t value, const uint8_t *in, size_t n)
{
    struct place place = {.message = message, .value = value};
    int result = take_fields(reader, &place, in, in + n, 0);
    close_value(reader, value);
    return result;
}

/* The same; on error the object ends with a JSON_BROKEN value. */
static void take_object(struct proto_reader *reader, const struct proto_message *message,
                        size_t value, const uint8_t *in, size_t n)
{
    reader->in_object = true;
    reader->is_named = false;
    if (take_message(reader, message, value, in, n) < 0) {
        struct value_reader *base = &reader->base;
        size_t broken = add_value(reader, "", 0, JSON_BROKEN), length = strlen(reader->err.text);
        reader_make_room(base, length + 1);
        base->values.v[broken].string = base->text.v + base->text.n;
        vec_append(&base->text, reader->err.text, length + 1);
        close_value(reader, value);
    }
    reader->in_object = false;
}

static int take_item(struct proto_reader *reader, const struct proto_message *message, size_t value,
                     const uint8_t *in, size_t n)
{
    reader->base.item = value;
    reader->base.item_text = reader->base.text.n;
    reader->base.values.v[0].size = (uint32_t)value;
    take_object(reader, message, value, in, n);
    return deliver(reader);
}

/* Reads an envelope's contents, whose kind came before. At top level they are streamed next. */
static int take_body(struct proto_reader *reader, const struct place *place, const uint8_t *in,
                     size_t n)
{
    static const struct proto_message unknown;
    close_value(reader, place->value);
    const struct json_value *kind = json_member(&reader->base.values.v[place->value], "kind");
    if (!json_string(kind))
        return error_set(&reader->err, "the contents come before their kind");
    const struct proto_message *message = reader->format->body(json_string(kind));
    message = message ? message : &unknown;
    if (place == &reader->envelope) {
        reader->contents = (struct place){.message = message};
        reader->contents_left = n;
    } else {
        take_object(reader, message, place->value, in, n);
    }
    return 0;
}

/* ---- fields ---- */

/* Whether all @n bytes are ASCII and not 0, the usual case. Overwrites the word behind them. */
static inline bool is_plain(char *text, size_t n)
{
    const uint64_t ones = UINT64_C(0x0101010101010101), tops = ones << 7;
    uint64_t word, found = 0;
    memcpy(text + n, &ones, sizeof(ones));
    for (size_t i = 0; i < n; i += sizeof(word)) {
        memcpy(&word, text + i, sizeof(word));
        found |= (word - ones) | word; /* a 0 byte borrows, and so may higher bytes */
    }
    return (found & tops) == 0;
}

/* Copies @n bytes to the texts. A NUL in them ends the text; two bytes replace it. */
static enum json_type take_text(struct proto_reader *reader, const uint8_t *in, size_t n,
                                const char **text)
{
    static const char nul[] = "\xc0\x80"; /* as kube-nftd/values.h says */
    struct value_reader *base = &reader->base;
    reader_make_room(base, n + sizeof(nul));
    char *copy = base->text.v + base->text.n;
    memcpy(copy, in, n);
    const bool plain = is_plain(copy, n);
    copy[n] = '\0';
    base->text.n += n + 1;
    *text = copy;
    if (plain)
        return JSON_STRING;
    if (strlen(copy) < n) {
        memcpy(copy + strlen(copy), nul, sizeof(nul));
        base->text.n += sizeof(nul) - 1;
    }
    return utf8_is_valid(copy) ? JSON_STRING : JSON_BAD_STRING;
}

/* Adds a value of @field: @number, or that many bytes. */
static int take_value(struct proto_reader *reader, const struct place *place,
                      const struct proto_field *field, uint64_t number, const uint8_t *in)
{
    size_t n = (size_t)number, index = place->value;
    if (field->key)
        index = add_value(reader, field->list ? NULL : field->key, field->key_length, JSON_OBJECT);
    struct json_value *value = &reader->base.values.v[index];
    switch ((enum proto_type)field->type) {
    case PROTO_UNUSED:
        return 0;
    case PROTO_NUMBER:
        value->type = JSON_NUMBER;
        value->number = (double)(int64_t)number;
        value->integer = true;
        return 0;
    case PROTO_BOOL:
        value->type = number ? JSON_TRUE : JSON_FALSE;
        return 0;
    case PROTO_SECONDS:
        value->type = JSON_TIME;
        value->seconds = (int64_t)number;
        return 0;
    case PROTO_STRING:
        value->type = (uint8_t)take_text(reader, in, n, &value->string);
        return 0;
    case PROTO_KEY:
        take_text(reader, in, n, &value->key);
        value->key_length = json_key_length(n);
        return 0;
    case PROTO_EMPTY:
        return n ? error_set(&reader->err, "it is encoded once more") : 0;
    case PROTO_BODY:
        return take_body(reader, place, in, n);
    case PROTO_ITEMS:
        if (place == &reader->contents)
            return take_item(reader, field->message, index, in, n);
        break;
    case PROTO_ENVELOPE:
        if (!is_envelope(in, n))
            return error_set(&reader->err, "no Kubernetes protobuf");
        in += sizeof(magic);
        n -= sizeof(magic);
        break;
    case PROTO_MAP:
        value->type = JSON_STRING;
        value->key = value->string = "";
        break;
    case PROTO_TIME:
        value->type = JSON_NULL; /* the zero time, unless seconds follow */
        break;
    case PROTO_OBJECT:
        break;
    }
    return take_message(reader, field->message, index, in, n);
}

/* The elements of a list must be contiguous and other fields unique, else values would be lost. */
static int begin_field(struct proto_reader *reader, struct place *place,
                       const struct proto_field *field, struct token token)
{
    uint32_t bit = UINT32_C(1) << token.field;
    if (token.wire != (field->type <= PROTO_SECONDS ? WIRE_VARINT : WIRE_LENGTH))
        return error_set(&reader->err, "another wire type was expected");
    if (reader->base.values.n - reader->base.item >= VALUES_LIMIT)
        return error_set(&reader->err, "more than %zu values", VALUES_LIMIT);
    if (place->grows == field)
        return 0;
    place->grows = NULL;
    if (place->seen & bit)
        return error_set(&reader->err, "it is a duplicate");
    place->seen |= bit;
    if (field->list) {
        enum json_type type = field->type == PROTO_MAP ? JSON_OBJECT : JSON_ARRAY;
        place->list = add_value(reader, field->key, field->key_length, type);
        place->grows = field;
    }
    return 0;
}

/* Go's zero value, which JSON omits. */
static bool is_omitted(const struct proto_field *field, struct token token)
{
    return token.number == 0 && !field->has_presence && !field->list &&
           (field->type == PROTO_NUMBER || field->type == PROTO_STRING);
}

static int take_field(struct proto_reader *reader, struct place *place,
                      const struct proto_field *field, struct token token, const uint8_t *in)
{
    int result = begin_field(reader, place, field, token);
    if (result == 0 && !is_omitted(field, token))
        result = take_value(reader, place, field, token.number, in);
    if (result < 0)
        name_field(reader, place, field);
    if (place->grows)
        close_value(reader, place->list);
    return result;
}

/* ---- the stream ---- */

/* Drops the buffered bytes, which were processed. */
static int gather_next(struct proto_reader *reader)
{
    reader->at += reader->bytes.n;
    reader->needed = reader->format->frames ? FRAME : 1;
    vec_clear(&reader->bytes);
    if (reader->bytes.cap > BYTES_KEPT)
        vec_free(&reader->bytes);
    return 0;
}

static int take_frame(struct proto_reader *reader)
{
    uint32_t length;
    memcpy(&length, reader->bytes.v, sizeof(length));
    length = be32toh(length);
    if (length > reader->base.limit)
        return error_set(&reader->err, "it is longer than %zu bytes", reader->base.limit);
    reader->needed = FRAME + (uint64_t)length;
    if (reader->bytes.n < reader->needed)
        return 0;
    const uint8_t *in = reader->bytes.v + FRAME;
    size_t value = add_value(reader, NULL, 0, JSON_OBJECT);
    if (take_message(reader, reader->format->root, value, in, length) < 0 || deliver(reader) < 0)
        return -1;
    return gather_next(reader);
}

static int begin_body(struct proto_reader *reader)
{
    if (!is_envelope(reader->bytes.v, reader->bytes.n))
        return error_set(&reader->err, "no Kubernetes protobuf");
    add_value(reader, NULL, 0, JSON_OBJECT);
    return gather_next(reader);
}

/* Length of the buffered field, as far as known; for contents, of their token only. */
static uint64_t field_length(const struct proto_reader *reader, const struct proto_message *message)
{
    const uint8_t *in = reader->bytes.v;
    struct token token;
    const char *fault = read_token(&in, in + reader->bytes.n, &token);
    if (fault)
        return reader->bytes.n + (fault == cut_off);
    const struct proto_field *field = field_of(message, token.field);
    uint64_t size = field && field->type == PROTO_BODY ? 0 : size_behind(token);
    return (uint64_t)(in - reader->bytes.v) + size;
}

/* Processes a field of the envelope or of the contents. */
static int take_streamed(struct proto_reader *reader)
{
    bool in_contents = reader->contents_left > 0;
    uint64_t left = in_contents ? reader->contents_left : UINT64_MAX;
    struct place *place = in_contents ? &reader->contents : &reader->envelope;
    const uint8_t *in = reader->bytes.v;
    size_t n = reader->bytes.n;
    reader->needed = field_length(reader, place->message);
    if (reader->needed <= left && reader->needed > reader->base.limit)
        return error_set(&reader->err, "it is longer than %zu bytes", reader->base.limit);
    if (reader->needed <= left && reader->needed > n)
        return 0;
    if (in_contents)
        reader->contents_left -= n;
    if (take_fields(reader, place, in, in + n, left - n) < 0)
        return -1;
    return gather_next(reader);
}

/* Processes the required bytes. */
static int take_gathered(struct proto_reader *reader)
{
    reader->token = reader->bytes.v;
    if (reader->format->frames)
        return take_frame(reader);
    return reader->at == 0 ? begin_body(reader) : take_streamed(reader);
}

/* Reports the error with the offset of the current token. */
static int fail_stream(struct proto_reader *reader, struct error *err)
{
    uint64_t at = reader->at + (uint64_t)(reader->token - reader->bytes.v);
    if (!reader->stopped)
        return error_set(err, "byte %" PRIu64 ": %s", at, reader->err.text);
    *err = reader->err;
    reader->err = (struct error){0};
    return -1;
}

static int feed(struct value_reader *base, const char *bytes, size_t length, struct error *err)
{
    struct proto_reader *reader = (struct proto_reader *)base;
    while (length > 0) {
        uint64_t missing = reader->needed - reader->bytes.n;
        size_t n = length < missing ? length : (size_t)missing;
        vec_append(&reader->bytes, bytes, n);
        bytes += n;
        length -= n;
        if (n < missing)
            return 0;
        if (take_gathered(reader) < 0)
            return fail_stream(reader, err);
    }
    return 0;
}

static int finish(struct value_reader *base, struct error *err)
{
    struct proto_reader *reader = (struct proto_reader *)base;
    if (reader->bytes.n > 0 || reader->contents_left > 0)
        return error_set(err, "byte %" PRIu64 ": it ends inside a value",
                         reader->at + reader->bytes.n);
    if (reader->format->frames || reader->at == 0)
        return 0;
    close_value(reader, 0);
    return deliver(reader) ? fail_stream(reader, err) : 0;
}

static void release(struct value_reader *base)
{
    struct proto_reader *reader = (struct proto_reader *)base;
    vec_free(&reader->bytes);
    error_clear(&reader->err);
}

struct value_reader *proto_reader_new(const struct proto_format *format, size_t limit, value_fn fn,
                                      void *ctx)
{
    struct proto_reader *reader = reader_new(sizeof(*reader), limit, fn, ctx);
    reader->base.feed = feed;
    reader->base.finish = finish;
    reader->base.release = release;
    reader->format = format;
    reader->needed = format->frames ? FRAME : sizeof(magic);
    reader->envelope.message = format->root;
    return &reader->base;
}
