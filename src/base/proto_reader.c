/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A watch is a row of frames. A body is an envelope around contents, both of which stream: they are
 * taken field by field, and an item of a list is a field. A frame or such a field that is there as
 * a whole is read where it is, message by message; if it is cut, its bytes are kept until it is
 * whole.
 *
 * The values of a list's item stand behind those of the envelope, as their texts do, and both are
 * cut off when the item was given out: the memory is bounded by one envelope and one object.
 */
#include "kube-nftd/base/proto_reader.h"

#include "proto_values.h"
#include "proto_wire.h"

#include <inttypes.h>
#include <stdarg.h>
#include <sys/types.h>

#ifndef FUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION
/* Arrays that are larger are not kept for the next object. */
#define BYTES_KEPT ((size_t)128 * 1024)
#define VALUES_KEPT ((size_t)16 * 1024)
#else /* so little that a fuzzer's objects go beyond */
#define BYTES_KEPT ((size_t)64)
#define VALUES_KEPT ((size_t)16)
#endif

static const char magic[] = "k8s";

/* A message whose fields are read. Tables end, and so it is never deep. */
struct place {
    const struct place *up;          /* the message around it; NULL for an object */
    const struct proto_field *field; /* of that, with this message as its value */
    const struct proto_message *message;
    size_t value;        /* which its fields go to */
    size_t list;         /* the array or map among them that grows, */
    uint32_t list_field; /* its number (0: none grows) */
    uint32_t count;      /* and how many elements it has */
    uint32_t seen;       /* bits by numbers of fields */
    bool in_object;      /* whose faults are its own */
    bool streams;
    bool frames; /* are what its fields are */
};

struct proto_reader {
    const struct proto_format *format;
    size_t limit;
    json_value_fn fn;
    void *ctx;
    bool failed;

    struct proto_values values;
    size_t item, item_text; /* where values and texts of the present item begin; 0: there is none */
    struct error err;       /* what is wrong with the answer, or with the present object */

    const uint8_t *in, *token; /* the bytes that are there, and of them the present field's */
    uint64_t at;               /* how many bytes of the stream are before @in */
    VEC(uint8_t) cut;          /* the begin of a frame or field */
    uint64_t needed;           /* how long that is at least */

    struct place outer, contents; /* frames or an envelope, and what that has */
    uint64_t contents_end;        /* in bytes of the stream; 0: there are none now */
};

/* ---- what is wrong ---- */

/* "spec.ports[1].port": the way from the object to @field of @place. */
static char *path_to(const struct place *place, const struct proto_field *field)
{
    char *up = place->up ? path_to(place->up, place->field) : xstrdup("");
    if (!field || !field->key)
        return up;
    const char *dot = *up ? "." : "";
    bool is_element = place->list_field && field == &place->message->fields[place->list_field];
    char *path = is_element ? xasprintf("%s%s%s[%u]", up, dot, field->key, place->count)
                            : xasprintf("%s%s%s", up, dot, field->key);
    free(up);
    return path;
}

/* Says what is wrong with @field (NULL: some field) of @place. Always -1. */
static int __attribute__((cold, format(printf, 4, 5)))
fault(struct proto_reader *reader, const struct place *place, const struct proto_field *field,
      const char *format, ...)
{
    va_list args;
    va_start(args, format);
    char *what = xvasprintf(format, args);
    va_end(args);
    uint64_t at = reader->at + (uint64_t)(reader->token - reader->in);
    char *where = place->in_object ? path_to(place, field) : xasprintf("byte %" PRIu64, at);
    error_set(&reader->err, "%s%s%s", where, *where ? ": " : "", what);
    free(where);
    free(what);
    return -1;
}

/* ---- messages ---- */

/* Gives out the present item, or else all values, and forgets them. */
static int give(struct proto_reader *reader)
{
    struct proto_values *values = &reader->values;
    bool is_item = reader->item > 0;
    if (is_item)
        values->values.v[0].size = (uint32_t)reader->item;
    bool more = reader->fn(reader->ctx, &values->values.v[reader->item], is_item);
    error_clear(&reader->err);
    values->values.n = reader->item;
    values->text.n = reader->item_text;
    reader->item = reader->item_text = 0;
    return more ? 0 : error_set(&reader->err, "stopped by the reader of the values");
}

static ssize_t take_fields(struct proto_reader *reader, struct place *place, const uint8_t *bytes,
                           size_t n, uint64_t more);

/* @message, as the value of @field in @around; its fields go to @value. What is wrong with an
 * object ends it, with a value that says so. */
static int take_message(struct proto_reader *reader, const struct place *around,
                        const struct proto_field *field, const struct proto_message *message,
                        size_t value, const uint8_t *in, size_t n)
{
    bool is_object =
        !around->in_object && (field->type == PROTO_BODY || field->type == PROTO_ITEMS);
    struct place place = {.up = is_object ? NULL : around,
                          .field = field,
                          .message = message,
                          .value = value,
                          .in_object = around->in_object || is_object};
    bool bad = take_fields(reader, &place, in, n, 0) < 0;
    if (bad && is_object)
        proto_values_add(&reader->values, "", 0, JSON_BROKEN)->string = reader->err.text;
    proto_values_close(&reader->values, value);
    return bad && !is_object ? -1 : 0;
}

/* A frame, or an item of a list that streams. */
static int take_whole(struct proto_reader *reader, const struct place *around,
                      const struct proto_field *field, size_t value, const uint8_t *in, size_t n)
{
    reader->item = value;
    reader->item_text = reader->values.text.n;
    return take_message(reader, around, field, field->message, value, in, n) ? -1 : give(reader);
}

static int take_envelope(struct proto_reader *reader, const struct place *place,
                         const struct proto_field *field, const uint8_t *in, size_t n)
{
    if (n < sizeof(magic) || memcmp(in, magic, sizeof(magic)) != 0)
        return fault(reader, place, field, "no Kubernetes protobuf");
    return take_message(reader, place, field, field->message, place->value, in + sizeof(magic),
                        n - sizeof(magic));
}

/* What an envelope holds: what that has said before. If it streams, it comes next. */
static int take_body(struct proto_reader *reader, const struct place *place,
                     const struct proto_field *field, const uint8_t *in, size_t n)
{
    static const struct proto_message unknown;
    proto_values_close(&reader->values, place->value);
    const struct json_value *value = &reader->values.values.v[place->value];
    const char *kind = json_string(json_member(value, "kind"));
    if (!kind)
        return fault(reader, place, field, "the contents come before their kind");
    const struct proto_message *message = reader->format->body(kind);
    message = message ? message : &unknown;
    if (!place->streams)
        return take_message(reader, place, field, message, place->value, in, n);
    reader->contents = (struct place){.message = message, .streams = true};
    reader->contents_end = n > 0 ? reader->at + (uint64_t)(in - reader->in) + n : 0;
    return 0;
}

/* ---- fields ---- */

/* A value of @field: @number, or so many bytes at @in. */
static int take_value(struct proto_reader *reader, const struct place *place,
                      const struct proto_field *field, uint64_t number, const uint8_t *in)
{
    struct proto_values *values = &reader->values;
    bool is_own = field->type <= PROTO_FRAME;
    size_t n = (size_t)number, index = is_own ? values->values.n : place->value;
    if (index - reader->item >= JSON_READER_VALUES)
        return fault(reader, place, field, "more than %zu values", JSON_READER_VALUES);
    if (is_own)
        proto_values_add(values, field->list ? NULL : field->key, field->key_length, JSON_OBJECT);
    struct json_value *value = &values->values.v[index];
    switch ((enum proto_type)field->type) {
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
    case PROTO_ENTRY_STRING:
        proto_values_string(values, value, in, n);
        return 0;
    case PROTO_ENTRY_KEY:
        proto_values_key(values, value, in, n);
        return 0;
    case PROTO_MAP:
        value->type = JSON_STRING;
        value->key = value->string = "";
        break;
    case PROTO_TIME:
        value->type = JSON_NULL; /* the zero time, if no seconds come */
        break;
    case PROTO_ITEMS:
    case PROTO_FRAME:
        if (place->streams)
            return take_whole(reader, place, field, index, in, n);
        break;
    case PROTO_ENVELOPE:
        return take_envelope(reader, place, field, in, n);
    case PROTO_BODY:
        return take_body(reader, place, field, in, n);
    case PROTO_EMPTY:
        return n ? fault(reader, place, field, "it is encoded once more") : 0;
    case PROTO_OBJECT:
    case PROTO_INLINE:
    case PROTO_UNUSED:
        break;
    }
    return take_message(reader, place, field, field->message, index, in, n);
}

/* All that a list holds comes in one run, and all others once: else something would be lost. */
static int begin_field(struct proto_reader *reader, struct place *place,
                       const struct proto_field *field, uint32_t number)
{
    uint32_t bit = UINT32_C(1) << number;
    if (place->seen & bit)
        return fault(reader, place, field, "it is a duplicate");
    place->seen |= bit;
    place->list_field = field->list ? number : 0;
    place->count = 0;
    place->list = reader->values.values.n;
    if (field->list)
        proto_values_add(&reader->values, field->key, field->key_length,
                         field->type == PROTO_MAP ? JSON_OBJECT : JSON_ARRAY);
    return 0;
}

static int take_field(struct proto_reader *reader, struct place *place,
                      const struct proto_field *field, struct proto_token token, const uint8_t *in)
{
    bool is_number =
        field->type == PROTO_NUMBER || field->type == PROTO_BOOL || field->type == PROTO_SECONDS;
    bool may_lack = field->type == PROTO_NUMBER || field->type == PROTO_STRING;
    if (token.wire != (is_number ? PROTO_VARINT : PROTO_LENGTH))
        return fault(reader, place, field, "another wire type was expected");
    if (place->list_field != token.field && begin_field(reader, place, field, token.field))
        return -1;
    if (token.number == 0 && may_lack && !field->has_presence && !field->list)
        return 0; /* Go's zero value, which JSON leaves out */
    int result = take_value(reader, place, field, token.number, in);
    if (field->list)
        proto_values_close(&reader->values, place->list);
    place->count++;
    return result;
}

/* NULL: nobody reads it. */
static const struct proto_field *field_of(const struct proto_message *message, uint32_t number)
{
    const struct proto_field *field = number < message->n ? &message->fields[number] : NULL;
    return field && field->type != PROTO_UNUSED ? field : NULL;
}

/* Takes the fields of @place that are whole in the @n bytes, behind which @more come later. Returns
 * how many bytes that were, up to the contents of a place that streams; -1: there is an error. */
static ssize_t take_fields(struct proto_reader *reader, struct place *place, const uint8_t *bytes,
                           size_t n, uint64_t more)
{
    const uint8_t *in = bytes, *end = bytes + n;
    const char *why = "the end of a field is missing";
    bool at_contents = false;
    while (in < end && !at_contents) {
        struct proto_token token;
        size_t there = (size_t)(end - in);
        int length = place->frames ? proto_frame_read(in, there, &token)
                                   : proto_token_read(in, there, &token, &why);
        reader->token = in;
        reader->needed = there + 1;
        if (length == 0 && more > 0)
            break;
        if (length <= 0)
            return fault(reader, place, NULL, "%s", why);
        const struct proto_field *field = field_of(place->message, token.field);
        uint64_t size = token.wire == PROTO_VARINT ? 0 : token.number;
        there -= (size_t)length;
        at_contents = place->streams && field && field->type == PROTO_BODY;
        if (size > there && size - there > more)
            return fault(reader, place, field, "it is longer than the field that contains it");
        if (place->streams && !at_contents && size > reader->limit)
            return fault(reader, place, field, "it is longer than %zu bytes", reader->limit);
        reader->needed = (uint64_t)length + size;
        if (size > there && !at_contents)
            break;
        in += length;
        if (field && take_field(reader, place, field, token, in))
            return -1;
        in += at_contents ? 0 : size;
    }
    return in - bytes;
}

/* ---- the stream ---- */

static ssize_t begin_body(struct proto_reader *reader, const uint8_t *in, size_t n)
{
    reader->needed = sizeof(magic);
    if (n < sizeof(magic))
        return 0;
    if (memcmp(in, magic, sizeof(magic)) != 0)
        return fault(reader, &reader->outer, NULL, "no Kubernetes protobuf");
    proto_values_add(&reader->values, NULL, 0, JSON_OBJECT);
    return sizeof(magic);
}

static ssize_t take_outer_fields(struct proto_reader *reader, const uint8_t *in, size_t n)
{
    bool in_contents = reader->contents_end > 0;
    uint64_t left = in_contents ? reader->contents_end - reader->at : UINT64_MAX;
    n = n < left ? n : (size_t)left;
    ssize_t taken =
        take_fields(reader, in_contents ? &reader->contents : &reader->outer, in, n, left - n);
    if (in_contents && (uint64_t)taken == left)
        reader->contents_end = 0;
    return taken;
}

/* Takes what is whole of the @n bytes. Returns how many that were; 0: as many as the reader needs
 * must be there; -1: there is an error. All texts in them have room, with what they take beside. */
static ssize_t take_next(struct proto_reader *reader, const uint8_t *in, size_t n)
{
    reader->in = reader->token = in;
    proto_values_reserve(&reader->values, n);
    bool begins = reader->at == 0 && !reader->outer.frames;
    ssize_t taken = begins ? begin_body(reader, in, n) : take_outer_fields(reader, in, n);
    reader->at += taken > 0 ? (uint64_t)taken : 0;
    return taken;
}

/* The next @n bytes, or as many of them as are needed for what is cut. Returns how many it took. */
static ssize_t feed(struct proto_reader *reader, const uint8_t *in, size_t n)
{
    size_t before = reader->cut.n;
    if (before > 0) {
        n = n < reader->needed - before ? n : (size_t)(reader->needed - before);
        vec_append(&reader->cut, in, n);
        in = reader->cut.v;
    }
    ssize_t taken = take_next(reader, in, before + n);
    if (taken > 0 && before > 0)
        vec_clear(&reader->cut);
    if (taken == 0 && before == 0)
        vec_append(&reader->cut, in, n);
    return taken > 0 && before == 0 ? taken : taken < 0 ? -1 : (ssize_t)n;
}

/* ---- the reader ---- */

struct proto_reader *proto_reader_new(const struct proto_format *format, size_t limit,
                                      json_value_fn fn, void *ctx)
{
    struct proto_reader *reader = xcalloc(1, sizeof(*reader));
    reader->format = format;
    reader->limit = limit;
    reader->fn = fn;
    reader->ctx = ctx;
    reader->outer = (struct place){.message = format->root, .streams = true};
    reader->outer.frames = format->frames;
    reader->outer.list_field = format->frames; /* each may be followed by another one */
    return reader;
}

void proto_reader_free(struct proto_reader *reader)
{
    if (!reader)
        return;
    vec_free(&reader->values.values);
    vec_free(&reader->values.text);
    error_clear(&reader->err);
    vec_free(&reader->cut);
    free(reader);
}

const struct json_value *proto_reader_envelope(const struct proto_reader *reader)
{
    return reader->item > 0 ? reader->values.values.v : NULL;
}

/* Much memory that nothing is in. */
static void give_back(struct proto_reader *reader)
{
    if (reader->cut.n == 0 && reader->cut.cap > BYTES_KEPT)
        vec_free(&reader->cut);
    if (reader->values.text.n == 0 && reader->values.text.cap > BYTES_KEPT)
        vec_free(&reader->values.text);
    if (reader->values.values.n == 0 && reader->values.values.cap > VALUES_KEPT)
        vec_free(&reader->values.values);
}

static int give_up(struct proto_reader *reader, struct error *err)
{
    reader->failed = true;
    return error_set(err, "%s", reader->err.text);
}

int proto_reader_feed(struct proto_reader *reader, const char *bytes, size_t length,
                      struct error *err)
{
    if (reader->failed)
        return error_set(err, "what came before was not usable");
    while (length > 0) {
        ssize_t taken = feed(reader, (const uint8_t *)bytes, length);
        if (taken < 0)
            return give_up(reader, err);
        bytes += taken;
        length -= (size_t)taken;
    }
    give_back(reader);
    return 0;
}

int proto_reader_finish(struct proto_reader *reader, struct error *err)
{
    if (reader->failed)
        return error_set(err, "what came before was not usable");
    reader->failed = true;
    if (reader->cut.n > 0 || reader->contents_end > 0)
        return error_set(err, "byte %" PRIu64 ": it ends inside a value",
                         reader->at + reader->cut.n);
    if (reader->format->frames || reader->at == 0)
        return 0;
    proto_values_close(&reader->values, 0);
    return give(reader) ? give_up(reader, err) : 0;
}
