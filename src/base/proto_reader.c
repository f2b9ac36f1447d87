/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * One pass over the bytes, and of a piece nothing is kept but the texts of fields that are used and
 * a token whose end is missing. The messages around the present byte are a stack; each knows where
 * in the stream it ends, and which value its fields go to.
 *
 * The values of a list's item stand behind those of the envelope, as their texts do, and both are
 * cut off when the item was given out: the memory is bounded by one envelope and one object.
 */
#include "kube-nftd/base/proto_reader.h"

#include "json_builder.h"
#include "kube-nftd/base/clock.h"
#include "proto_wire.h"

#include <inttypes.h>
#include <stdio.h>

/* The tables nest some 10 levels deep. */
#define MAX_DEPTH 32

/* What comes next. */
enum state {
    STATE_TOP,   /* a message: of frames, the four bytes of its length */
    STATE_MAGIC, /* the four bytes before an envelope */
    STATE_TOKEN, /* a field, or the end of a message */
    STATE_TEXT,  /* the text of a string */
    STATE_SKIP,  /* what nobody needs */
    STATE_FAILED,
};

/* A message whose end is ahead. */
struct open {
    const struct proto_field *field; /* that it is the value of */
    const struct proto_message *message;
    uint64_t end;        /* in bytes of the stream */
    size_t value;        /* which its fields go to */
    size_t list;         /* the array or map among them that grows, */
    uint32_t list_field; /* and its number; 0: none does */
    uint32_t seen;       /* bits by numbers of fields */
};

struct proto_reader {
    const struct proto_format *format;
    size_t limit;
    size_t value_limit;
    json_value_fn fn;
    void *ctx;

    enum state state;
    const uint8_t *in, *in_end; /* what was not taken of the present piece */
    uint64_t at;                /* how many bytes were taken */
    uint64_t token_at;          /* how many it were before the present token; for messages */
    uint64_t left;              /* of a text, or to be skipped */
    size_t begin;               /* where the present text begins */
    bool is_key;                /* it is a map's key */

    uint8_t carry[PROTO_TOKEN_MOST]; /* the bytes of what was cut */
    size_t n_carry;
    struct proto_token odd; /* the last token that was not a short one, and whole */

    struct open open[MAX_DEPTH];
    size_t depth;
    size_t object; /* the depth of the present object, whose faults are its own; 0: none */

    struct json_builder builder;
    bool in_item;
    size_t base, text_base; /* where the values and texts of the item begin */
};

static const struct proto_field entry_fields[] = {
    [1] = {.type = PROTO_ENTRY_KEY},
    [2] = {.type = PROTO_ENTRY_STRING},
};
static const struct proto_message entry_message = {entry_fields, 3};

static const struct proto_field time_fields[] = {
    [1] = {.key = "seconds", .type = PROTO_NUMBER, .has_presence = true},
};
static const struct proto_message time_message = {time_fields, 2};

struct proto_reader *proto_reader_new(const struct proto_format *format, size_t limit,
                                      json_value_fn fn, void *ctx)
{
    struct proto_reader *reader = xcalloc(1, sizeof(*reader));
    reader->format = format;
    reader->limit = limit < UINT32_MAX ? limit : UINT32_MAX;
    reader->value_limit = JSON_READER_VALUES;
    reader->fn = fn;
    reader->ctx = ctx;
    return reader;
}

void proto_reader_limit_values(struct proto_reader *reader, size_t limit)
{
    reader->value_limit = limit < UINT32_MAX ? limit : UINT32_MAX;
}

void proto_reader_free(struct proto_reader *reader)
{
    if (!reader)
        return;
    json_builder_clear(&reader->builder);
    free(reader);
}

const struct json_value *proto_reader_envelope(const struct proto_reader *reader)
{
    return reader->in_item ? reader->builder.values.v : NULL;
}

static struct open *innermost(struct proto_reader *reader)
{
    return &reader->open[reader->depth - 1];
}

/* So many bytes are taken. */
static void advance(struct proto_reader *reader, size_t n)
{
    reader->in += n;
    reader->at += n;
}

static size_t in_piece(const struct proto_reader *reader)
{
    return (size_t)(reader->in_end - reader->in);
}

static inline int skip(struct proto_reader *reader, uint64_t length)
{
    bool whole = length <= in_piece(reader);
    reader->left = length;
    reader->state = whole ? STATE_TOKEN : STATE_SKIP;
    if (whole)
        advance(reader, (size_t)length);
    return 0;
}

/* ---- failures ---- */

static int __attribute__((cold))
fail(struct proto_reader *reader, struct error *err, const char *what)
{
    reader->state = STATE_FAILED;
    return error_set(err, "byte %" PRIu64 ": %s", reader->token_at, what);
}

static int __attribute__((cold)) too_big(struct proto_reader *reader, struct error *err,
                                         const char *than, size_t limit, const char *unit)
{
    reader->state = STATE_FAILED;
    return error_set(err, "byte %" PRIu64 ": a value %s than %zu %s", reader->token_at, than, limit,
                     unit);
}

static void close_list(struct proto_reader *reader, struct open *open)
{
    if (open->list_field)
        json_builder_close(&reader->builder, open->list);
    open->list_field = 0;
}

/* What is open in the present object is as long as it is by now. */
static void settle(struct proto_reader *reader)
{
    for (size_t i = reader->object - 1; i < reader->depth; i++) {
        json_builder_close(&reader->builder, reader->open[i].value);
        if (reader->open[i].list_field)
            json_builder_close(&reader->builder, reader->open[i].list);
    }
}

/* Adds "spec.ports[1].port" to the text: the way from the present object to @field (NULL: to the
 * present message). */
static void add_path(struct proto_reader *reader, const struct proto_field *field)
{
    for (size_t i = reader->object; i <= reader->depth; i++) {
        const struct open *around = &reader->open[i - 1];
        const struct proto_field *next = i < reader->depth ? reader->open[i].field : field;
        if (!next || !next->key)
            break;
        if (i > reader->object)
            json_builder_text(&reader->builder, ".", 1);
        json_builder_text(&reader->builder, next->key, strlen(next->key));
        if (around->list_field && next == &around->message->fields[around->list_field]) {
            char index[24];
            snprintf(index, sizeof(index), "[%zu]",
                     json_count(&reader->builder.values.v[around->list]) - (i < reader->depth));
            json_builder_text(&reader->builder, index, strlen(index));
        }
    }
}

/* Something is wrong with the present object, in @field of the present message if that is known:
 * that ends it, with a value that says so. What there is around objects fails. */
static int __attribute__((cold)) fault(struct proto_reader *reader, const struct proto_field *field,
                                       const char *what, struct error *err)
{
    if (reader->object == 0)
        return fail(reader, err, what);
    size_t begin = reader->builder.text.n;
    settle(reader);
    add_path(reader, field);
    if (reader->builder.text.n > begin)
        json_builder_text(&reader->builder, ": ", 2);
    json_builder_text(&reader->builder, what, strlen(what));
    const char *text = json_builder_end_text(&reader->builder, begin);
    reader->depth = reader->object;
    innermost(reader)->list_field = 0;
    json_builder_add(&reader->builder, "", 0, JSON_BROKEN)->string = text;
    return skip(reader, innermost(reader)->end - reader->at);
}

/* ---- values ---- */

/* @named is the field that the value has its key of; NULL: it has none. */
static inline int add_value(struct proto_reader *reader, const struct proto_field *named,
                            enum json_type type, struct error *err)
{
    if (reader->builder.values.n - reader->base == reader->value_limit)
        return too_big(reader, err, "holds more", reader->value_limit, "values");
    json_builder_add(&reader->builder, named ? named->key : NULL, named ? named->key_length : 0,
                     type);
    return 0;
}

static struct json_value *last_value(struct proto_reader *reader)
{
    return &reader->builder.values.v[reader->builder.values.n - 1];
}

/* Gives out the item or top-level value that is whole, and forgets it. */
static int give(struct proto_reader *reader, struct error *err)
{
    bool is_item = reader->in_item;
    if (is_item)
        reader->builder.values.v[0].size = (uint32_t)reader->base;
    if (!reader->fn(reader->ctx, &reader->builder.values.v[reader->base], is_item)) {
        reader->state = STATE_FAILED;
        return err->text ? -1 : error_set(err, "stopped by the reader of the values");
    }
    json_builder_cut(&reader->builder, reader->base, reader->text_base);
    reader->base = reader->text_base = 0;
    reader->in_item = false;
    return 0;
}

/* What was read of a time becomes its text; one that JSON cannot have, its seconds. */
static void end_time(struct proto_reader *reader, size_t value)
{
    char text[CLOCK_RFC3339_SIZE];
    struct json_value *time = &reader->builder.values.v[value];
    bool is_set = value + 1 < reader->builder.values.n;
    time->type = JSON_NULL; /* what the Kubernetes API calls the zero time is empty */
    if (is_set) {
        if (!clock_rfc3339_seconds(time[1].number, text))
            snprintf(text, sizeof(text), "%.0f", time[1].number);
        size_t begin = reader->builder.text.n;
        json_builder_text(&reader->builder, text, strlen(text));
        const char *kept = json_builder_end_text(&reader->builder, begin);
        time->type = JSON_STRING;
        time->string = kept;
    }
    reader->builder.values.n = value + 1;
}

static int end_message(struct proto_reader *reader, struct error *err)
{
    struct open *open = innermost(reader);
    close_list(reader, open);
    if (open->field->type == PROTO_TIME)
        end_time(reader, open->value);
    json_builder_close(&reader->builder, open->value);
    if (reader->object == reader->depth)
        reader->object = 0;
    if (--reader->depth > 0 && open->field->type != PROTO_ITEMS)
        return 0;
    reader->state = reader->depth > 0 ? STATE_TOKEN : STATE_TOP;
    return give(reader, err);
}

/* ---- strings ---- */

static void end_string(struct proto_reader *reader)
{
    if (reader->is_key)
        json_builder_end_key(&reader->builder, reader->begin);
    else
        json_builder_end_string(&reader->builder, reader->begin);
    reader->state = STATE_TOKEN;
}

/* More of a text, or of what is skipped. */
static void take_bytes(struct proto_reader *reader)
{
    size_t n = in_piece(reader);
    n = n < reader->left ? n : (size_t)reader->left;
    if (reader->state == STATE_TEXT)
        json_builder_text(&reader->builder, reader->in, n);
    advance(reader, n);
    reader->left -= n;
    if (reader->left > 0)
        return;
    if (reader->state == STATE_TEXT)
        end_string(reader);
    reader->state = STATE_TOKEN;
}

/* The string of the value that was added last, or its key. */
static inline int take_string(struct proto_reader *reader, uint64_t length, bool is_key,
                              struct error *err)
{
    if (length > reader->limit)
        return too_big(reader, err, "is longer", reader->limit, "bytes");
    if (length <= in_piece(reader) && !is_key) { /* as nearly always */
        json_builder_string(&reader->builder, reader->in, (size_t)length);
        advance(reader, (size_t)length);
        return 0;
    }
    reader->begin = reader->builder.text.n;
    reader->left = length;
    reader->is_key = is_key;
    reader->state = STATE_TEXT;
    take_bytes(reader);
    return 0;
}

/* ---- fields ---- */

/* The value of @field, whose fields go to @value. */
static int begin_message(struct proto_reader *reader, const struct proto_field *field,
                         const struct proto_message *message, size_t value, uint64_t end,
                         struct error *err)
{
    if (reader->depth == MAX_DEPTH)
        return fault(reader, field, "nested too deep", err);
    reader->open[reader->depth++] =
        (struct open){.field = field, .message = message, .end = end, .value = value};
    if (field->type != PROTO_ENVELOPE)
        return 0;
    reader->state = STATE_MAGIC;
    return end - reader->at < 4 ? fail(reader, err, "no Kubernetes protobuf") : 0;
}

/* The message that was opened last is an object of its own. */
static int begin_object(struct proto_reader *reader, uint64_t length, struct error *err)
{
    reader->object = reader->depth;
    return length > reader->limit ? too_big(reader, err, "is longer", reader->limit, "bytes") : 0;
}

/* What an envelope holds: what that has said before it. */
static int begin_body(struct proto_reader *reader, const struct proto_field *field, uint64_t length,
                      struct error *err)
{
    size_t value = innermost(reader)->value;
    const struct json_value *around = &reader->builder.values.v[value];
    json_builder_close(&reader->builder, value);
    const char *kind = json_string(json_member(around, "kind"));
    if (!kind)
        return fail(reader, err, "the contents come before their kind");
    const struct proto_message *message = reader->format->body(kind);
    if (!message)
        return skip(reader, length);
    if (begin_message(reader, field, message, value, reader->at + length, err))
        return -1;
    return reader->format->frames ? begin_object(reader, length, err) : 0;
}

static int add_number(struct proto_reader *reader, const struct proto_field *named, uint64_t number,
                      struct error *err)
{
    if (add_value(reader, named, JSON_NUMBER, err))
        return -1;
    last_value(reader)->number = (double)(int64_t)number;
    last_value(reader)->integer = true;
    return 0;
}

/* An object that may hold fields; of a map, a string. */
static int add_message(struct proto_reader *reader, const struct proto_field *field,
                       const struct proto_field *named, const struct proto_message *message,
                       uint64_t length, struct error *err)
{
    bool is_entry = field->type == PROTO_MAP;
    if (add_value(reader, named, is_entry ? JSON_STRING : JSON_OBJECT, err))
        return -1;
    if (is_entry)
        last_value(reader)->key = last_value(reader)->string = "";
    return begin_message(reader, field, message, reader->builder.values.n - 1, reader->at + length,
                         err);
}

static int add_item(struct proto_reader *reader, const struct proto_field *field, uint64_t length,
                    struct error *err)
{
    reader->in_item = true;
    reader->base = reader->builder.values.n;
    reader->text_base = reader->builder.text.n;
    if (add_message(reader, field, NULL, field->message, length, err))
        return -1;
    return begin_object(reader, length, err);
}

/* The value of @field; @number is it, or its length. */
static int add_field(struct proto_reader *reader, const struct proto_field *field,
                     const struct proto_field *named, uint64_t number, struct error *err)
{
    switch ((enum proto_type)field->type) {
    case PROTO_NUMBER:
        return add_number(reader, named, number, err);
    case PROTO_BOOL:
        return add_value(reader, named, number ? JSON_TRUE : JSON_FALSE, err);
    case PROTO_STRING:
        return add_value(reader, named, JSON_STRING, err) ? -1
                                                          : take_string(reader, number, false, err);
    case PROTO_ENTRY_KEY:
    case PROTO_ENTRY_STRING:
        return take_string(reader, number, field->type == PROTO_ENTRY_KEY, err);
    case PROTO_OBJECT:
        return add_message(reader, field, named, field->message, number, err);
    case PROTO_MAP:
        return add_message(reader, field, named, &entry_message, number, err);
    case PROTO_TIME:
        return add_message(reader, field, named, &time_message, number, err);
    case PROTO_ITEMS:
        return add_item(reader, field, number, err);
    case PROTO_INLINE:
    case PROTO_ENVELOPE:
        return begin_message(reader, field, field->message, innermost(reader)->value,
                             reader->at + number, err);
    case PROTO_BODY:
        return begin_body(reader, field, number, err);
    case PROTO_EMPTY:
        return number ? fail(reader, err, "it is encoded once more") : 0;
    case PROTO_UNUSED:
        break;
    }
    return 0;
}

static bool is_list(const struct proto_field *field)
{
    return field->list || field->type == PROTO_MAP || field->type == PROTO_ITEMS;
}

static enum proto_wire wire_of(const struct proto_field *field)
{
    return field->type == PROTO_NUMBER || field->type == PROTO_BOOL ? PROTO_VARINT : PROTO_LENGTH;
}

/* NULL: nobody reads it. */
static const struct proto_field *field_of(const struct proto_message *message, uint32_t number)
{
    const struct proto_field *field = number < message->n ? &message->fields[number] : NULL;
    return field && field->type != PROTO_UNUSED ? field : NULL;
}

/* Whether JSON leaves the field out, as Go's zero value. */
static bool is_left_out(const struct proto_field *field, uint64_t number)
{
    return number == 0 && !field->has_presence &&
           (field->type == PROTO_STRING || field->type == PROTO_NUMBER);
}

/* All that a list holds comes in one run, and all others once: else something would be lost. */
static inline int take_field(struct proto_reader *reader, const struct proto_field *field,
                             struct proto_token token, struct error *err)
{
    struct open *open = innermost(reader);
    uint32_t bit = UINT32_C(1) << token.field;
    if (token.wire != wire_of(field))
        return fault(reader, field, "another wire type was expected", err);
    if (open->list_field == token.field)
        return add_field(reader, field, NULL, token.number, err);
    if (open->seen & bit)
        return fault(reader, field, "it is a duplicate", err);
    open->seen |= bit;
    close_list(reader, open);
    if (is_list(field)) {
        open->list = reader->builder.values.n;
        open->list_field = token.field;
        enum json_type type = field->type == PROTO_MAP ? JSON_OBJECT : JSON_ARRAY;
        return add_value(reader, field, type, err)
                   ? -1
                   : add_field(reader, field, NULL, token.number, err);
    }
    return is_left_out(field, token.number) ? 0
                                            : add_field(reader, field, field, token.number, err);
}

/* The field whose token was read. */
static inline int take_token(struct proto_reader *reader, struct proto_token token,
                             struct error *err)
{
    const struct open *open = innermost(reader);
    const struct proto_field *field = field_of(open->message, token.field);
    bool has_bytes = token.wire != PROTO_VARINT;
    if (has_bytes && token.number > open->end - reader->at)
        return fault(reader, field, "it is longer than the field that contains it", err);
    if (field)
        return take_field(reader, field, token, err);
    return has_bytes ? skip(reader, token.number) : 0;
}

/* ---- the stream ---- */

/* Collects four bytes in the carry. Whether they are there. */
static bool collect_four(struct proto_reader *reader)
{
    while (reader->n_carry < 4 && reader->in < reader->in_end)
        reader->carry[reader->n_carry++] = *reader->in++;
    if (reader->n_carry < 4)
        return false;
    reader->n_carry = 0;
    reader->at += 4;
    return true;
}

static int begin_top(struct proto_reader *reader, struct error *err)
{
    const struct proto_field *root = reader->format->root;
    uint64_t end = UINT64_MAX;
    if (reader->format->frames) {
        uint32_t length;
        if (!collect_four(reader))
            return 0;
        memcpy(&length, reader->carry, sizeof(length));
        length = be32toh(length);
        end = reader->at + length;
        if (length > reader->limit)
            return too_big(reader, err, "is longer", reader->limit, "bytes");
    }
    reader->state = STATE_TOKEN;
    if (add_value(reader, NULL, JSON_OBJECT, err))
        return -1;
    return begin_message(reader, root, root->message, 0, end, err);
}

static int take_magic(struct proto_reader *reader, struct error *err)
{
    if (!collect_four(reader))
        return 0;
    if (memcmp(reader->carry, "k8s", 4) != 0)
        return fail(reader, err, "no Kubernetes protobuf");
    reader->state = STATE_TOKEN;
    return 0;
}

/* A token that is long, cut, or wrong: what is there of it goes to the carry. Returns whether all
 * of it is, in reader->odd; -1 if it is wrong. */
static int read_odd_token(struct proto_reader *reader, struct error *err)
{
    const char *why = "the end of a field is missing";
    uint64_t most = innermost(reader)->end - reader->at; /* of the message */
    size_t carried = reader->n_carry, n = in_piece(reader);
    n = n < PROTO_TOKEN_MOST - carried ? n : PROTO_TOKEN_MOST - carried;
    memcpy(reader->carry + carried, reader->in, n);
    n += carried;
    n = n < most ? n : (size_t)most;
    int length = proto_token_read(reader->carry, n, &reader->odd, &why);
    if (length == 0 && n < most) {
        reader->n_carry = n;
        reader->in = reader->in_end;
        return 0;
    }
    reader->n_carry = 0;
    reader->in -= carried; /* not a place, but so it is behind the token then */
    advance(reader, length > 0 ? (size_t)length : carried);
    return length > 0 ? 1 : fault(reader, NULL, why, err);
}

static inline int take_next_token(struct proto_reader *reader, struct error *err)
{
    struct proto_token token;
    bool has_short = reader->n_carry == 0 && in_piece(reader) >= PROTO_SHORT_TOKEN;
    size_t length = has_short ? proto_short_token(reader->in, &token) : 0;
    if (length == 0 || length > innermost(reader)->end - reader->at) {
        int whole = read_odd_token(reader, err);
        if (whole <= 0)
            return whole;
        token = reader->odd;
    } else {
        advance(reader, length);
    }
    return take_token(reader, token, err);
}

static int take_some(struct proto_reader *reader, struct error *err)
{
    reader->token_at = reader->at;
    switch (reader->state) {
    case STATE_TOKEN:
        return take_next_token(reader, err);
    case STATE_TEXT:
    case STATE_SKIP:
        take_bytes(reader);
        return 0;
    case STATE_TOP:
        return begin_top(reader, err);
    case STATE_MAGIC:
        return take_magic(reader, err);
    case STATE_FAILED:
        break;
    }
    return error_set(err, "what came before was not usable");
}

int proto_reader_feed(struct proto_reader *reader, const char *bytes, size_t length,
                      struct error *err)
{
    reader->in = (const uint8_t *)bytes;
    reader->in_end = reader->in + length;
    while (reader->in < reader->in_end) {
        if (take_some(reader, err))
            return -1;
        while (reader->state == STATE_TOKEN && innermost(reader)->end == reader->at)
            if (end_message(reader, err))
                return -1;
    }
    return 0;
}

int proto_reader_finish(struct proto_reader *reader, struct error *err)
{
    if (reader->state == STATE_FAILED)
        return error_set(err, "what came before was not usable");
    reader->token_at = reader->at;
    bool frames = reader->format->frames, began = reader->at > 0 || reader->n_carry > 0;
    bool whole =
        reader->n_carry == 0 &&
        (frames ? reader->state == STATE_TOP : reader->state == STATE_TOKEN && reader->depth == 1);
    if (began && !whole)
        return fail(reader, err, "it ends inside a value");
    int result = began && !frames ? end_message(reader, err) : 0;
    reader->state = STATE_FAILED;
    return result;
}
