/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Lists and watches on their way in: what is no JSON or protobuf that Kubernetes writes costs the
 * object alone, which is named, or, where it is around objects, the answer. Whole ones are in
 * test_messages.c. Cases are in cases/object_reader, in which
 *
 *     2:{3:"None" 4=5} <1b> $web
 *
 * is a message with another one in its field 2, a byte, and what is named below.
 */
#include "kube-nftd/values.h"
#include "proto_writer.h"
#include "script.h"
#include "source/object_reader.h"

#define LIMIT ((size_t)4 * 1024 * 1024)

/* ---- protobuf as text ---- */

static const struct {
    const char *name, *text;
} named[] = {
    {"$web", "1:{1:\"web\" 3:\"shop\"}"},
    {"$good", "1:{1:\"good\" 3:\"shop\"} 2:{3:\"None\"}"},
    {"$type", "1:{1:\"v1\" 2:\"Service\"}"},
};

static const char *put_fields(bytes *out, const char *at);

static const char *put_byte(bytes *out, const char *at)
{
    bool coded = *at == '<' && at[3] == '>';
    put(out, &(char){coded ? (char)strtol(at + 1, NULL, 16) : *at}, 1);
    return at + (coded ? 4 : 1);
}

static const char *put_named(bytes *out, const char *at)
{
    for (int i = 0; i < COUNT(named); i++)
        if (strncmp(named[i].name, at, strlen(named[i].name)) == 0) {
            put_fields(out, named[i].text);
            return at + strlen(named[i].name);
        }
    ck_abort_msg("%s", at);
}

/* N=NUMBER, N:"TEXT" or N:{FIELDS} */
static const char *put_numbered(bytes *out, const char *at)
{
    bytes inner = {0};
    char *end;
    uint32_t number = (uint32_t)strtoul(at, &end, 10);
    if (*end == '=') {
        put_number(out, number, strtoull(end + 1, &end, 10));
        return end;
    }
    ck_assert_msg(*end == ':' && end != at, "%s", at);
    at = end + 2;
    if (end[1] == '{')
        at = put_fields(&inner, at);
    else
        while (*at != '"')
            at = put_byte(&inner, at);
    put_bytes(out, number, &inner);
    return at + 1;
}

static const char *put_fields(bytes *out, const char *at)
{
    while (*at && *at != '}')
        if (*at == ' ')
            at++;
        else if (*at == '<')
            at = put_byte(out, at);
        else if (*at == '$')
            at = put_named(out, at);
        else
            at = put_numbered(out, at);
    return at;
}

/* ---- what comes of it ---- */

static unsigned bad;

static int take_event(void *ctx, struct watch_event *event, struct error *err)
{
    static const char *const types[] = {"put", "remove", "bad", "bookmark"};
    fprintf(ctx, "%s %s%s", types[event->type], event->object.id ? event->object.id : "-",
            event->problem.text ? ": " : "");
    if (event->problem.text)
        write_bytes(ctx, event->problem.text, strlen(event->problem.text));
    fputs("\n", ctx);
    return 0;
}

static int take_item(void *ctx, struct watch_event *event, struct error *err)
{
    if (event->object.id)
        fprintf(ctx, "%s%s ", event->object.id, event->object.payload ? "" : "(bad)");
    bad += event->type == WATCH_BAD;
    return 0;
}

/* How a page ends. */
static void write_page(FILE *out, const struct object_reader *reader, const struct error *err)
{
    if (bad)
        fprintf(out, "bad=%u ", bad);
    if (err->text)
        fprintf(out, "%s\n", err->text);
    else
        fprintf(out, "version=%s%s%s\n", reader->version, reader->token ? " token=" : "",
                reader->token ? reader->token : "");
}

/* All of a list or a watch in pieces of @size bytes, which are copies so that a look too far is
 * found. The last line is why it was given up. */
static char *read_pieces(const bytes *all, enum encoding encoding, bool list, size_t size)
{
    char *text;
    size_t length;
    FILE *out = open_memstream(&text, &length);
    struct error err = {0};
    struct object_reader reader = {
        .kind = KIND_SERVICE, .take = list ? take_item : take_event, .ctx = out};
    object_reader_begin(&reader, encoding, list);
    int result = 0;
    bad = 0;
    for (size_t at = 0; at < all->n && result == 0; at += size) {
        size_t n = all->n - at < size ? all->n - at : size;
        char *piece = malloc(n);
        memcpy(piece, all->v + at, n);
        result = object_reader_feed(&reader, piece, n, &err);
        free(piece);
    }
    if (list && result == 0)
        result = object_reader_end_page(&reader, &err);
    ck_assert_int_eq(result, err.text ? -1 : 0);
    if (list)
        write_page(out, &reader, &err);
    else if (err.text)
        fprintf(out, "%s\n", err.text);
    error_clear(&err);
    object_reader_reset(&reader);
    fclose(out);
    return text;
}

/* However it is cut. Takes the bytes. */
static void write_read(FILE *out, bytes *all, enum encoding encoding, bool list)
{
    char *expected = read_pieces(all, encoding, list, SIZE_MAX / 2);
    for (size_t size = 1; size < 2000; size += size / 2 + 1) {
        char *text = read_pieces(all, encoding, list, size);
        ck_assert_msg(strcmp(text, expected) == 0, "in pieces of %zu: %s", size, text);
        free(text);
    }
    fputs(expected, out);
    free(expected);
    vec_free(all);
}

/* ---- watches in protobuf ---- */

static void put_event(bytes *out, const char *type, const char *fields)
{
    bytes body = {0}, raw = {0};
    put_fields(&raw, fields);
    put_envelope(&body, "v1", "Service", &raw);
    put_frame(out, type, &body);
}

/* An event with that Service; the next event comes as if nothing had been. */
COMMAND(object)
{
    bytes all = {0};
    put_event(&all, "MODIFIED", words);
    put_event(&all, "MODIFIED", "$good");
    write_read(out, &all, ENCODING_PROTOBUF, false);
}

COMMAND(event)
{
    bytes all = {0};
    const char *type = script_word(&words);
    put_event(&all, type, words);
    write_read(out, &all, ENCODING_PROTOBUF, false);
}

/* What is around an object. */
COMMAND(envelope)
{
    bytes all = {0}, body = {0};
    put(&body, "k8s", 4);
    put_fields(&body, words);
    put_frame(&all, "ADDED", &body);
    write_read(out, &all, ENCODING_PROTOBUF, false);
}

COMMAND(frame)
{
    bytes all = {0}, frame = {0};
    put_fields(&frame, words);
    uint32_t length = htobe32((uint32_t)frame.n);
    put(&all, &length, sizeof(length));
    put(&all, frame.v, frame.n);
    vec_free(&frame);
    write_read(out, &all, ENCODING_PROTOBUF, false);
}

COMMAND(bytes)
{
    bytes all = {0};
    put(&all, words, script_bytes(words));
    write_read(out, &all, ENCODING_PROTOBUF, false);
}

/* ---- lists ---- */

/* "apiVersion kind FIELDS" */
static bytes list_of(char *words)
{
    bytes all = {0}, raw = {0};
    const char *api_version = script_word(&words), *kind = script_word(&words);
    put_fields(&raw, words);
    put_envelope(&all, api_version, kind, &raw);
    return all;
}

COMMAND(list)
{
    bytes all = list_of(words);
    write_read(out, &all, ENCODING_PROTOBUF, true);
}

/* Its bytes, behind those that each protobuf of Kubernetes begins with. */
COMMAND(list_bytes)
{
    bytes all = {0};
    if (*words)
        put(&all, "k8s", 4);
    put_fields(&all, words);
    write_read(out, &all, ENCODING_PROTOBUF, true);
}

/* The text, with ' for ", and a Service for each @name. */
COMMAND(json)
{
    bytes all = {0};
    for (const char *at = words; *at; at++)
        if (*at == '@') {
            const char *name = ++at;
            at += strcspn(at, ",]") - 1;
            char *item = xasprintf("{\"metadata\":{\"name\":\"%.*s\"},"
                                   "\"spec\":{\"clusterIP\":\"None\"}}",
                                   (int)(at + 1 - name), name);
            put(&all, item, strlen(item));
            free(item);
        } else {
            put(&all, *at == '\'' ? "\"" : at, 1);
        }
    write_read(out, &all, ENCODING_JSON, true);
}

CASES("object_reader")

/* Wherever a list is cut off, it is not taken for a shorter one. */
TEST(lists_that_end_early)
{
    bytes all = list_of((char[]){"v1 ServiceList 1:{2:\"7\"} 2:{$good} 2:{$web<1b>} 2:{$good}"});
    for (size_t n = 1; n < all.n; n++) {
        bytes cut = {.v = all.v, .n = n};
        char *text = read_pieces(&cut, ENCODING_PROTOBUF, true, SIZE_MAX / 2);
        bool whole = n >= all.n - 4 && (all.n - n) % 2 == 0; /* the two empty fields at its end */
        ck_assert_msg((strstr(text, "bad=1 version=7") != NULL) == whole, "%zu of %zu: %s", n,
                      all.n, text);
        free(text);
    }
    vec_free(&all);
}

/* ---- limits ---- */

static const struct proto_field texts_fields[] = {
    [1] = {.key = "s", .key_length = 1, .type = PROTO_STRING, .list = true},
};
static const struct proto_message texts = {texts_fields, 2};
static const struct proto_format texts_format = {.frames = true, .root = &texts};

static int count_values(void *ctx, const struct json_value *value, const struct json_value *list,
                        struct error *err)
{
    ck_assert_ptr_null(list);
    *(size_t *)ctx = value->size;
    return 0;
}

/* How many values come of a frame of @n texts, of which the last one has @length bytes, or why none
 * do. */
static size_t values_of(size_t n, size_t length, struct error *err)
{
    size_t values = 0;
    bytes message = {0};
    char *text = xcalloc(length, 1);
    for (size_t i = 1; i < n; i++)
        put_text(&message, 1, "");
    put_data(&message, 1, text, length);
    struct value_reader *reader = proto_reader_new(&texts_format, LIMIT, count_values, &values);
    uint32_t size = htobe32((uint32_t)message.n);
    int result = value_reader_feed(reader, (const char *)&size, 4, err);
    if (result == 0)
        result = value_reader_feed(reader, message.v, message.n, err);
    ck_assert_int_eq(result, err->text ? -1 : 0);
    if (result < 0) { /* for good */
        struct error again = {0};
        ck_assert_int_eq(value_reader_feed(reader, "", 1, &again), -1);
        error_clear(&again);
    }
    value_reader_free(reader);
    vec_free(&message);
    free(text);
    return values;
}

TEST(limits)
{
    struct error err = {0};
    ck_assert_uint_eq(values_of(VALUES_LIMIT - 2, 0, &err), VALUES_LIMIT);
    values_of(VALUES_LIMIT - 1, 0, &err);
    ck_assert_str_eq(err.text, "byte 2000000: more than 1000000 values");
    error_clear(&err);
    ck_assert_uint_eq(values_of(1, LIMIT - 5, &err), 3);
    values_of(1, LIMIT - 4, &err);
    ck_assert_str_eq(err.text, "byte 0: it is longer than 4194304 bytes");
    error_clear(&err);
}
