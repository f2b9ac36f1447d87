/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "object_reader.h"

#include "api_protocol.h"
#include "kube-nftd/base.h"
#include "kube-nftd/model.h"
#include "kube-nftd/source.h"
#include "messages.h"

#include <stdlib.h>
#include <string.h>

/* One event, item, or page's metadata; etcd rejects objects of more than about 1.5 MB. */
#define VALUE_LIMIT ((size_t)16 * 1024 * 1024)
/* A token contains a version and a key, and goes into a URL. */
#define TOKEN_LIMIT ((size_t)8 * 1024)
/* At 500 objects a page, five times the maximum of a list. */
#define EMPTY_PAGES_LIMIT 10000

/* ---- objects ---- */

/* For a deleted object the name suffices. */
static void decode_object(const struct json_value *json, enum object_kind kind,
                          struct watch_event *event)
{
    struct object *object = &event->object;
    object->kind = kind;
    enum decode_result result = object_decode(json, (int)kind, object, &event->problem);
    if (result == DECODE_OK && object->kind == kind)
        return;
    if (result == DECODE_OTHER) {
        error_set(&event->problem, "an object of an unknown kind instead of a %s",
                  object_kind_name(kind));
    } else if (result == DECODE_OK) {
        error_set(&event->problem, "a %s instead of a %s", object_kind_name(object->kind),
                  object_kind_name(kind));
        object_clear(object);
    }
    object->kind = kind;
    if (event->type == WATCH_REMOVE && object->id)
        error_clear(&event->problem);
    else
        event->type = WATCH_BAD;
}

static void clear_event(struct watch_event *event)
{
    object_clear(&event->object);
    error_clear(&event->problem);
    free(event->version);
}

/* ---- a list ---- */

static int check_kind(const struct object_reader *reader, const struct json_value *json,
                      struct error *err)
{
    const char *expected = collection_resource(reader->kind)->api_version;
    const char *kind = json_string(json_member(json, "kind"));
    const char *version = json_string(json_member(json, "apiVersion"));
    if (kind && object_kind_of_list(kind) == (int)reader->kind &&
        (!version || strcmp(version, expected) == 0))
        return 0;
    return error_set(err, "the response is not a list of %s objects",
                     object_kind_name(reader->kind));
}

static int take_item(struct object_reader *reader, const struct json_value *json,
                     const struct json_value *list, struct error *err)
{
    struct watch_event event = {.type = WATCH_PUT};
    if (!reader->has_item) {
        /* If the kind precedes the items, reject a list of another kind before its first item. */
        if (json_member(list, "kind") && check_kind(reader, list, err) < 0)
            return -1;
        reader->has_item = true;
    }
    decode_object(json, reader->kind, &event);
    int rc = reader->take(reader->ctx, &event, err);
    clear_event(&event);
    return rc;
}

/* An array of items has already been read: anything else in its place would look like an empty
 * list, and of two arrays only the last would count. */
static int check_once(const struct json_value *json, struct error *err)
{
    const struct json_value *items = json_member(json, "items");
    if (items && !json_is(items, JSON_ARRAY))
        return error_set(err, "the list's items are not an array");
    if (json_is_doubled(json, "items"))
        return error_set(err, "the list has items twice");
    if (json_is_doubled(json, "metadata"))
        return error_set(err, "the list has metadata twice");
    return 0;
}

/* Copies metadata's @key into @out, NULL if absent or empty. -1 if not a string or too long. */
static int metadata_string(const struct json_value *json, const char *key, size_t limit, char **out,
                           struct error *err)
{
    const struct json_value *metadata = json_member(json, "metadata");
    const struct json_value *value = json_member(metadata, key);
    const char *text = json_string(value);
    if (value && !text)
        return error_set(err, "the list's %s is not a string", key);
    if (text && strlen(text) > limit)
        return error_set(err, "the list's %s has %zu bytes", key, strlen(text));
    free(*out);
    *out = text && *text ? xstrdup(text) : NULL;
    return 0;
}

/* Each page must lead to a new one, or the list would never end. */
static int take_token(struct object_reader *reader, const struct json_value *json,
                      struct error *err)
{
    char *before = reader->token;
    reader->token = NULL;
    int rc = metadata_string(json, "continue", TOKEN_LIMIT, &reader->token, err);
    reader->empty_pages += !reader->has_item; /* selectors may empty a page */
    if (rc == 0 && reader->token && before && strcmp(reader->token, before) == 0)
        rc = error_set(err, "a page leads to itself");
    else if (rc == 0 && reader->empty_pages > EMPTY_PAGES_LIMIT)
        rc = error_set(err, "more than %d empty pages", EMPTY_PAGES_LIMIT);
    free(before);
    return rc;
}

static int take_envelope(struct object_reader *reader, const struct json_value *json,
                         struct error *err)
{
    if (check_kind(reader, json, err) < 0)
        return -1;
    if (reader->has_envelope)
        return error_set(err, "the response continues after the list");
    reader->has_envelope = true;
    if (check_once(json, err) < 0 || take_token(reader, json, err) < 0)
        return -1;
    if (!reader->version &&
        metadata_string(json, "resourceVersion", RESOURCE_VERSION_LIMIT, &reader->version, err) < 0)
        return -1;
    if (!reader->version)
        return error_set(err, "the list has no resourceVersion");
    return 0;
}

/* ---- a watch ---- */

static int find_type(const char *name, enum watch_event_type *type, struct error *err)
{
    static const struct {
        const char *name;
        enum watch_event_type type;
    } types[] = {{"ADDED", WATCH_PUT},
                 {"MODIFIED", WATCH_PUT},
                 {"DELETED", WATCH_REMOVE},
                 {"BOOKMARK", WATCH_BOOKMARK}};
    if (!name)
        return error_set(err, "an event without a type");
    for (size_t i = 0; i < sizeof(types) / sizeof(*types); i++) {
        if (strcmp(types[i].name, name) == 0) {
            *type = types[i].type;
            return 0;
        }
    }
    return error_set(err, "an event of the unknown type \"%.40s\"", name);
}

static int decode_version(const struct json_value *metadata, struct watch_event *event,
                          struct error *err)
{
    const char *version = json_string(json_member(metadata, "resourceVersion"));
    if (version && strlen(version) > RESOURCE_VERSION_LIMIT)
        return error_set(err, "a resourceVersion of %zu bytes", strlen(version));
    event->version = version && *version ? xstrdup(version) : NULL;
    return 0;
}

static int decode_event(const struct json_value *object, enum object_kind kind,
                        struct watch_event *event, struct error *err)
{
    const struct json_value *metadata = json_member(object, "metadata");
    if (!object_may_be(object, kind))
        return error_set(err, "an event about something other than a %s", object_kind_name(kind));
    if (event->type == WATCH_BOOKMARK && json_fault(object))
        return error_set(err, "a bookmark: %s", json_fault(object));
    if (decode_version(metadata, event, err) < 0)
        return -1;
    if (event->type == WATCH_BOOKMARK) {
        const struct json_value *annotations = json_member(metadata, "annotations");
        const char *end = json_string(json_member(annotations, "k8s.io/initial-events-end"));
        event->initial_end = end && strcmp(end, "true") == 0;
    } else {
        decode_object(object, kind, event);
    }
    return 0;
}

static int take_event(struct object_reader *reader, const struct json_value *json,
                      struct error *err)
{
    struct watch_event event = {0};
    const char *type = json_string(json_member(json, "type"));
    const struct json_value *object = json_member(json, "object");
    bool rejected = type && strcmp(type, "ERROR") == 0;
    if (!rejected && find_type(type, &event.type, err) < 0)
        return -1;
    if (!json_is(object, JSON_OBJECT))
        return error_set(err, "an event without an object");
    if (rejected) {
        reader->rejected = true;
        api_status_from_json(object, 0, &reader->status);
        return -1;
    }
    int rc = decode_event(object, reader->kind, &event, err);
    if (rc == 0)
        rc = reader->take(reader->ctx, &event, err);
    clear_event(&event);
    return rc;
}

/* ---- answers ---- */

static int on_value(void *ctx, const struct json_value *json, const struct json_value *list,
                    struct error *err)
{
    struct object_reader *reader = ctx;
    if (reader->is_list)
        return list ? take_item(reader, json, list, err) : take_envelope(reader, json, err);
    return list ? error_set(err, "a list instead of an event") : take_event(reader, json, err);
}

static void clear_body(struct object_reader *reader)
{
    value_reader_free(reader->values);
    reader->values = NULL;
    api_status_clear(&reader->status);
    reader->rejected = reader->has_envelope = reader->has_item = false;
}

void object_reader_begin(struct object_reader *reader, enum encoding encoding, bool is_list)
{
    clear_body(reader);
    reader->is_list = is_list;
    reader->values = encoding == ENCODING_PROTOBUF
                         ? proto_reader_new(is_list ? &message_body : &message_watch, VALUE_LIMIT,
                                            on_value, reader)
                         : json_reader_new(VALUE_LIMIT, on_value, reader);
}

int object_reader_feed(struct object_reader *reader, const char *bytes, size_t length,
                       struct error *err)
{
    return value_reader_feed(reader->values, bytes, length, err);
}

int object_reader_end_page(struct object_reader *reader, struct error *err)
{
    if (value_reader_finish(reader->values, err) < 0)
        return -1;
    return reader->has_envelope ? 0 : error_set(err, "the response is empty");
}

void object_reader_reset(struct object_reader *reader)
{
    clear_body(reader);
    free(reader->version);
    free(reader->token);
    reader->version = reader->token = NULL;
    reader->empty_pages = 0;
}
