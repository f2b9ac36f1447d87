/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What is no protobuf, or none that Kubernetes writes: it costs the object alone, which is named,
 * or, where it is around objects, the answer. The whole ones are in test_messages.c. */
#include "kube-nftd/base/proto_reader.h"

#include "proto_writer.h"
#include "source/object_reader.h"
#include "unit.h"

/* Bytes that may hold a NUL. */
struct raw {
    const char *v;
    size_t n;
};
#define RAW(text)                                                                                  \
    {                                                                                              \
        (text), sizeof(text) - 1                                                                   \
    }

#define LIMIT ((size_t)4 * 1024 * 1024)
#define METADATA "\x0a\x0b\x0a\x03web\x1a\x04shop"
#define GOOD "\x0a\x0c\x0a\x04good\x1a\x04shop\x12\x06\x1a\x04None"

/* ---- a watch ---- */

static void put_type(bytes *out, const char *api_version, const char *kind)
{
    bytes type = {0};
    put_text(&type, 1, api_version);
    put_text(&type, 2, kind);
    put_bytes(out, 1, &type);
}

/* An event of a Service that says @object. */
static void put_event(bytes *out, const struct raw *object)
{
    bytes body = {0}, raw = {0};
    put(&raw, object->v, object->n);
    put_envelope(&body, "v1", "Service", &raw);
    put_frame(out, "MODIFIED", &body);
}

static const struct raw good = RAW(GOOD);

static int take_event(void *ctx, struct watch_event *event, struct error *err)
{
    static const char *const types[] = {"put", "remove", "bad", "bookmark", "error"};
    fprintf(ctx, "%s %s%s%s; ", types[event->type], event->object.id ? event->object.id : "-",
            event->problem.text ? ": " : "", event->problem.text ? event->problem.text : "");
    return 0;
}

/* What becomes of the frames, in pieces of @size bytes; the last word is why it was given up. */
static char *watched(const bytes *all, size_t size)
{
    char *text;
    size_t length;
    FILE *out = open_memstream(&text, &length);
    struct error err = {0};
    struct object_reader reader = {.kind = KIND_SERVICE, .take = take_event, .ctx = out};
    object_reader_begin(&reader, ENCODING_PROTOBUF, false);
    int result = 0;
    for (size_t at = 0; at < all->n && result == 0; at += size) {
        size_t n = all->n - at < size ? all->n - at : size;
        char *piece = malloc(n); /* so that a look too far is found */
        memcpy(piece, all->v + at, n);
        result = object_reader_feed(&reader, piece, n, &err);
        free(piece);
    }
    ck_assert_int_eq(result, err.text ? -1 : 0);
    fputs(err.text ? err.text : "open", out);
    error_clear(&err);
    object_reader_reset(&reader);
    fclose(out);
    return text;
}

static void expect_watched(bytes *all, const char *expected)
{
    for (size_t size = 1; size < 2000; size = size * 2 + 1) {
        char *text = watched(all, size);
        ck_assert_msg(strcmp(text, expected) == 0, "in pieces of %zu:\n%s\nnot\n%s", size, text,
                      expected);
        free(text);
    }
    vec_free(all);
}

/* ---- faults of an object ---- */

#define BAD "bad shop/web: Service shop/web: "
#define NINE "\xff\xff\xff\xff\xff\xff\xff\xff\xff"

static const struct {
    struct raw object; /* behind its metadata */
    const char *said;
} faults[] = {
    {RAW("\x1b"), "a group, which Kubernetes does not use"},
    {RAW("\x1c"), "a group, which Kubernetes does not use"},
    {RAW("\x3e"), "a field of an unknown wire type"},
    {RAW("\x3f"), "a field of an unknown wire type"},
    {RAW("\x02\x01x"), "a field with no valid number"},
    {RAW("\xff\xff\xff\xff\xff\x01"), "a field with no valid number"},
    {RAW("\xf8\xff\xff\xff\x1f"), "a field with no valid number"},
    {RAW("\x38" NINE "\xff\x01"), "a number of more than 64 bits"},
    {RAW("\x38" NINE "\x02"), "a number of more than 64 bits"},
    {RAW("\x12" NINE "\x01"), "spec: it is longer than the field that contains it"},
    {RAW("\x12\x01"), "spec: it is longer than the field that contains it"},
    {RAW("\x3a\x7f"), "it is longer than the field that contains it"},
    {RAW("\x39\x01\x02\x03"), "it is longer than the field that contains it"},
    {RAW("\x12"), "the end of a field is missing"},
    {RAW("\x3a\xff"), "the end of a field is missing"},
    {RAW("\x10\x05"), "spec: another wire type was expected"},
    {RAW("\x15\x01\x02\x03\x04\x12\x00"), "spec: another wire type was expected"},
    {RAW("\x12\x04\x0a\x02\x18\x50\x10\x05"), "spec: another wire type was expected"},
    {RAW("\x12\x00\x12\x00"), "spec: it is a duplicate"},
    {RAW("\x12\x06\x1a\x01x\x1a\x01y"), "spec.clusterIP: it is a duplicate"},
    {RAW("\x12\x07\x0a\x00\x1a\x01x\x0a\x00"), "spec.ports: it is a duplicate"},
    {RAW("\x12\x07\x0a\x05\x18\x50\x1a\x01x"),
     "spec.ports[0].port: another wire type was expected"},
    {RAW("\x12\x0a\x0a\x02\x18\x50\x0a\x04\x18\x50\x18\x51"),
     "spec.ports[1].port: it is a duplicate"},
    {RAW("\x12\x06\x0a\x02\x18\x50\x08\x01"), "spec.ports[1]: another wire type was expected"},
    {RAW("\x12\x01\x0a"), "spec: the end of a field is missing"},
    {RAW("\x12\x04\x0a\x02\x1b\x00"), "spec.ports[0]: a group, which Kubernetes does not use"},
    {RAW("\x12\x03\x22\x01\xff"), "spec.type: \"\xff\" is not UTF-8"},
    {RAW("\x12\x05\x1a\x03"
         "a\0b"),
     "spec.clusterIP: \"a\xc0\x80\" has a NUL"},
    {RAW("\x12\x04\x1a\x02"
         "a\0"),
     "spec.clusterIP: \"a\xc0\x80\" has a NUL"},
    {RAW("\x12\x0a\x0a\x02\x18\x50\x1a\x04"
         "10.0"),
     "spec.clusterIP: \"10.0\" is not an IP address"},
};

/* The next event comes as if nothing had been. */
TEST_ROWS(fault, faults)
{
    bytes all = {0}, object = {0};
    put(&object, METADATA, strlen(METADATA));
    put(&object, row->object.v, row->object.n);
    put_event(&all, &(struct raw){object.v, object.n});
    put_event(&all, &good);
    vec_free(&object);
    char *expected = xasprintf(BAD "%s; put shop/good; open", row->said);
    expect_watched(&all, expected);
    free(expected);
}

/* Where the name is what cannot be read. */
TEST(fault_in_metadata)
{
    static const struct raw objects[] = {RAW("\x0a\x02\x0a\x05"), RAW("\x0a\x02\x08\x05"),
                                         RAW("\x0a\x01\x0b")};
    static const char *const said[] = {
        "metadata.name: it is longer than the field that contains it",
        "metadata.name: another wire type was expected",
        "metadata: a group, which Kubernetes does not use",
    };
    for (size_t i = 0; i < sizeof(objects) / sizeof(*objects); i++) {
        bytes all = {0};
        put_event(&all, &objects[i]);
        put_event(&all, &good);
        char *expected = xasprintf("bad -: Service (no name): %s; put shop/good; open", said[i]);
        expect_watched(&all, expected);
        free(expected);
    }
}

/* What goes needs no more than its name; what a bookmark says must be right. */
TEST(fault_by_event_type)
{
    static const char *const types[] = {"DELETED", "BOOKMARK"};
    static const char *const seen[] = {
        "remove shop/web; open",
        "a bookmark: a group, which Kubernetes does not use",
    };
    for (size_t i = 0; i < 2; i++) {
        bytes all = {0}, body = {0}, raw = {0};
        put(&raw, METADATA "\x1b", strlen(METADATA) + 1);
        put_envelope(&body, "v1", "Service", &raw);
        put_frame(&all, types[i], &body);
        expect_watched(&all, seen[i]);
    }
}

/* Fields that nobody knows, of all wire types; a number in more bytes than it takes. */
TEST(what_is_skipped)
{
    static const struct raw object =
        RAW(GOOD "\x39\x01\x02\x03\x04\x05\x06\x07\x08\x3d\x01\x02\x03\x04\x38\x81\x00"
                 "\x3a\x80\x00\x82\xff\xff\xff\x0f\x01x");
    bytes all = {0};
    put_event(&all, &object);
    expect_watched(&all, "put shop/good; open");
}

/* ---- what is around objects ---- */

TEST(frames)
{
    static const struct {
        struct raw bytes;
        const char *said;
    } cases[] = {
        {RAW("\xff\xff\xff\xff"), "byte 0: it is longer than 16777216 bytes"},
        {RAW("\0\0\0\0"), "an event without a type"},
        {RAW("\0\0\0\1\x0b"), "byte 4: a group, which Kubernetes does not use"},
        {RAW("\0\0\0\2\x0a\x05"), "byte 4: it is longer than the field that contains it"},
        {RAW("\0\0\0\7\x0a\x05"
             "ADDED"),
         "an event without an object"},
        {RAW("\0\0\0\x0e\x0a\x05"
             "ADDED\x0a\x05"
             "ADDED"),
         "byte 11: it is a duplicate"},
        {RAW("\0\0\0\x0b\x0a\x05"
             "ADDED\x12\x02\x0a\x00"),
         "byte 13: no Kubernetes protobuf"},
        {RAW("\0\0\0\x10\x0a\x05"
             "ADDED\x12\x07\x0a\x05k8s\x01\x0a"),
         "byte 13: no Kubernetes protobuf"},
        {RAW("{\"type\":\"ADDED\",\"object\":{}}"), "byte 0: it is longer than 16777216 bytes"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        bytes all = {0};
        put(&all, cases[i].bytes.v, cases[i].bytes.n);
        expect_watched(&all, cases[i].said);
    }
}

/* @put writes the envelope around a good Service. */
static void expect_envelope(void (*put_around)(bytes *out), const char *expected)
{
    bytes all = {0}, body = {0};
    put(&body, "k8s", 4);
    put_around(&body);
    put_frame(&all, "ADDED", &body);
    expect_watched(&all, expected);
}

static void encoded(bytes *out)
{
    put_type(out, "v1", "Service");
    put_data(out, 2, good.v, good.n);
    put_text(out, 3, "gzip");
}

static void of_another_kind(bytes *out)
{
    put_type(out, "v1", "Pod");
    put_data(out, 2, good.v, good.n);
}

static void of_another_version(bytes *out)
{
    put_type(out, "v2", "Service");
    put_data(out, 2, good.v, good.n);
}

static void without_a_kind(bytes *out)
{
    put_data(out, 2, good.v, good.n);
}

static void with_the_kind_behind(bytes *out)
{
    put_data(out, 2, good.v, good.n);
    put_type(out, "v1", "Service");
}

static void twice(bytes *out)
{
    put_type(out, "v1", "Service");
    put_data(out, 2, good.v, good.n);
    put_data(out, 2, good.v, good.n);
}

static void within_itself(bytes *out)
{
    bytes inner = {0};
    put(&inner, "k8s", 4);
    put_type(&inner, "v1", "Service");
    put_data(&inner, 2, good.v, good.n);
    put_type(out, "v1", "Service");
    put_bytes(out, 2, &inner);
}

TEST(envelopes)
{
    expect_envelope(encoded, "byte 58: it is encoded once more");
    expect_envelope(of_another_kind, "an event about something other than a Service");
    expect_envelope(of_another_version, "an event about something other than a Service");
    expect_envelope(without_a_kind, "byte 19: the contents come before their kind");
    expect_envelope(with_the_kind_behind, "byte 19: the contents come before their kind");
    expect_envelope(twice, "byte 58: it is a duplicate");
    expect_envelope(within_itself, "bad -: Service (no name): a group, which Kubernetes does not "
                                   "use; open");
}

/* ---- lists ---- */

static int bad;

static int take_item(void *ctx, struct watch_event *event, struct error *err)
{
    if (event->object.id)
        fprintf(ctx, "%s%s ", event->object.id, event->object.payload ? "" : "(bad)");
    bad += event->type == WATCH_BAD;
    return 0;
}

static char *listed(const bytes *all, size_t size)
{
    char *text;
    size_t length;
    FILE *out = open_memstream(&text, &length);
    struct error err = {0};
    struct object_reader reader = {.kind = KIND_SERVICE, .take = take_item, .ctx = out};
    object_reader_begin(&reader, ENCODING_PROTOBUF, true);
    bad = 0;
    int result = 0;
    for (size_t at = 0; at < all->n && result == 0; at += size) {
        size_t n = all->n - at < size ? all->n - at : size;
        result = object_reader_feed(&reader, all->v + at, n, &err);
    }
    if (result == 0)
        result = object_reader_end_page(&reader, &err);
    fprintf(out, "bad=%d %s", bad, err.text ? err.text : reader.version);
    error_clear(&err);
    object_reader_reset(&reader);
    fclose(out);
    return text;
}

static void expect_listed(bytes *all, const char *expected)
{
    for (size_t size = 1; size < 2000; size = size * 2 + 1) {
        char *text = listed(all, size);
        ck_assert_str_eq(text, expected);
        free(text);
    }
    vec_free(all);
}

/* The list that @raw says, which it takes. */
static bytes list_of(const char *api_version, const char *kind, bytes *raw)
{
    bytes all = {0};
    put_envelope(&all, api_version, kind, raw);
    return all;
}

static bytes some_list(void)
{
    bytes raw = {0}, metadata = {0};
    put_text(&metadata, 2, "7");
    put_bytes(&raw, 1, &metadata);
    put_data(&raw, 2, good.v, good.n);
    put_data(&raw, 2, METADATA "\x1b", strlen(METADATA) + 1);
    put_data(&raw, 2, good.v, good.n);
    return list_of("v1", "ServiceList", &raw);
}

TEST(lists)
{
    bytes all = some_list();
    expect_listed(&all, "shop/good shop/web(bad) shop/good bad=1 7");
    all = list_of("v1", "PodList", &(bytes){0});
    expect_listed(&all, "bad=0 the response is not a list of Service objects");
    all = list_of("v1", "Service", &(bytes){0});
    expect_listed(&all, "bad=0 the response is not a list of Service objects");
    all = list_of("v2", "ServiceList", &(bytes){0});
    expect_listed(&all, "bad=0 the response is not a list of Service objects");
    all = list_of("v1", "ServiceList", &(bytes){0});
    expect_listed(&all, "bad=0 the list has no resourceVersion");
    all = (bytes){0};
    expect_listed(&all, "bad=0 the response is empty");
    put(&all, "k8s", 4);
    put_data(&all, 2, good.v, good.n);
    put_type(&all, "v1", "ServiceList");
    expect_listed(&all, "bad=0 byte 4: the contents come before their kind");
}

/* Wherever a list is cut off, it is not taken for a shorter one. */
TEST(lists_that_end_early)
{
    bytes all = some_list();
    for (size_t n = 1; n < all.n; n++) {
        bytes cut = {.v = all.v, .n = n};
        char *text = listed(&cut, SIZE_MAX / 2);
        bool whole = n >= all.n - 4 && (all.n - n) % 2 == 0; /* the two empty fields at its end */
        ck_assert_msg((strstr(text, "bad=1 7") != NULL) == whole, "%zu of %zu: %s", n, all.n, text);
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

static bool count_values(void *ctx, const struct json_value *value, bool is_item)
{
    ck_assert(!is_item);
    *(size_t *)ctx = value->size;
    return true;
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
    struct proto_reader *reader = proto_reader_new(&texts_format, LIMIT, count_values, &values);
    uint32_t size = htobe32((uint32_t)message.n);
    int result = proto_reader_feed(reader, (const char *)&size, 4, err);
    if (result == 0)
        result = proto_reader_feed(reader, message.v, message.n, err);
    ck_assert_int_eq(result, err->text ? -1 : 0);
    if (result < 0) { /* for good */
        struct error again = {0};
        ck_assert_int_eq(proto_reader_feed(reader, "", 1, &again), -1);
        error_clear(&again);
    }
    proto_reader_free(reader);
    vec_free(&message);
    free(text);
    return values;
}

TEST(limits)
{
    struct error err = {0};
    ck_assert_uint_eq(values_of(JSON_READER_VALUES - 2, 0, &err), JSON_READER_VALUES);
    values_of(JSON_READER_VALUES - 1, 0, &err);
    ck_assert_str_eq(err.text, "byte 2000000: more than 1000000 values");
    error_clear(&err);
    ck_assert_uint_eq(values_of(1, LIMIT - 5, &err), 3);
    values_of(1, LIMIT - 4, &err);
    ck_assert_str_eq(err.text, "byte 0: it is longer than 4194304 bytes");
    error_clear(&err);
}
