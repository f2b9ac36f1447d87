/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "watch_reader.h"

#include "kube-nftd/base/alloc.h"
#include "kube-nftd/base/log.h"
#include "kube-nftd/model/decode.h"

#include <stdlib.h>
#include <string.h>

/* etcd takes no object of more than about 1.5 MB. */
#define EVENT_LIMIT ((size_t)16 * 1024 * 1024)

/* ---- one event ---- */

static const struct {
    const char *name;
    enum watch_event_type type;
} types[] = {
    {"ADDED", WATCH_PUT},         {"MODIFIED", WATCH_PUT}, {"DELETED", WATCH_REMOVE},
    {"BOOKMARK", WATCH_BOOKMARK}, {"ERROR", WATCH_ERROR},
};

static int find_type(const struct json_value *json, enum watch_event_type *type, struct error *err)
{
    const char *name = json_string(json_member(json, "type"));
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

int watch_object_decode(const struct json_value *json, enum object_kind kind, struct object *object,
                        struct error *err)
{
    *object = (struct object){.kind = kind};
    switch (object_decode(json, (int)kind, object, err)) {
    case DECODE_OK:
        if (object->kind == kind)
            return 0;
        error_set(err, "a %s instead of a %s", object_kind_name(object->kind),
                  object_kind_name(kind));
        object_clear(object);
        break;
    case DECODE_OTHER:
        error_set(err, "an object of an unknown kind instead of a %s", object_kind_name(kind));
        break;
    case DECODE_BAD:
        break;
    }
    object->kind = kind;
    return -1;
}

static void decode_object(const struct json_value *json, enum object_kind kind,
                          struct watch_event *event)
{
    if (watch_object_decode(json, kind, &event->object, &event->problem) == 0)
        return;
    /* What goes needs no more than a name. */
    if (event->type == WATCH_REMOVE && event->object.id)
        error_clear(&event->problem);
    else
        event->type = WATCH_BAD;
}

/* Where the server says that it has sent all there is. */
static bool is_initial_end(const struct json_value *metadata)
{
    const struct json_value *annotations = json_member(metadata, "annotations");
    const char *value = json_string(json_member(annotations, "k8s.io/initial-events-end"));
    return value && strcmp(value, "true") == 0;
}

static int decode_version(const struct json_value *metadata, struct watch_event *event,
                          struct error *err)
{
    const char *version = json_string(json_member(metadata, "resourceVersion"));
    if (!version || !*version)
        return 0;
    if (strlen(version) > RESOURCE_VERSION_LIMIT)
        return error_set(err, "a resourceVersion of %zu bytes", strlen(version));
    event->version = xstrdup(version);
    return 0;
}

static int decode_event(const struct json_value *json, enum object_kind kind,
                        struct watch_event *event, struct error *err)
{
    *event = (struct watch_event){0};
    const struct json_value *object = json_member(json, "object");
    if (find_type(json, &event->type, err) < 0)
        return -1;
    if (!json_is(object, JSON_OBJECT))
        return error_set(err, "an event without an object");
    if (event->type == WATCH_ERROR) {
        api_status_from_json(object, &event->status);
        return 0;
    }
    if (!object_may_be(object, kind))
        return error_set(err, "an event about something other than a %s", object_kind_name(kind));
    const struct json_value *metadata = json_member(object, "metadata");
    if (event->type == WATCH_BOOKMARK && json_fault(object))
        return error_set(err, "a bookmark: %s", json_fault(object));
    if (decode_version(metadata, event, err) < 0)
        return -1;
    if (event->type == WATCH_BOOKMARK)
        event->initial_end = is_initial_end(metadata);
    else
        decode_object(object, kind, event);
    return 0;
}

static void clear_event(struct watch_event *event)
{
    object_clear(&event->object);
    api_status_clear(&event->status);
    error_clear(&event->problem);
    free(event->version);
    event->version = NULL;
}

/* ---- many ---- */

static bool on_event(void *ctx, const struct json_value *json, bool is_item)
{
    struct watch_reader *reader = ctx;
    struct watch_event event;
    int rc = 0;
    if (is_item) {
        error_set(&reader->broken, "a list instead of an event");
        return false;
    }
    if (decode_event(json, reader->kind, &event, &reader->broken) < 0)
        return false;
    reader->refused = event.type == WATCH_ERROR;
    if (reader->refused) {
        reader->status = event.status;
        event.status = (struct api_status){0};
    } else {
        rc = reader->take(reader->ctx, &event, &reader->broken);
    }
    clear_event(&event);
    return rc == 0 && !reader->refused;
}

void watch_reader_begin(struct watch_reader *reader, enum encoding encoding)
{
    watch_reader_clear(reader);
    body_reader_begin(&reader->body, encoding, true, EVENT_LIMIT, on_event, reader);
}

int watch_reader_feed(struct watch_reader *reader, const char *bytes, size_t length,
                      struct error *err)
{
    if (body_reader_feed(&reader->body, bytes, length, err) == 0)
        return 0;
    if (reader->refused)
        error_clear(err);
    else if (reader->broken.text)
        error_set(err, "%s", reader->broken.text);
    return -1;
}

void watch_reader_clear(struct watch_reader *reader)
{
    body_reader_clear(&reader->body);
    api_status_clear(&reader->status);
    reader->refused = false;
    error_clear(&reader->broken);
}

/* ---- objects that cannot be decoded ---- */

#define LOG "reflector"
/* So many events of one answer: a server may send a million bad objects. */
#define REPORTED_LIMIT 100

void bad_objects_begin(struct bad_objects *bad)
{
    bad->reported = 0;
}

/* All nodes are sent the same object. */
static void report(const struct bad_objects *bad, const struct object *object,
                   const struct error *why)
{
    static const struct uid unknown;
    const struct object_event event = {
        .kind = object->kind,
        .id = object->id,
        .uid = object->uid ? *object->uid : unknown,
        .type = EVENT_WARNING,
        .reason = "InvalidObject",
        .action = "Read",
        .note = why->text,
        .everywhere = true,
    };
    if (object->id)
        event_report(bad->events, &event);
}

void bad_objects_add(struct bad_objects *bad, const struct object *object, struct error *why)
{
    bad->total++;
    log_warn(LOG, "bad object: %s", why->text);
    if (bad->reported < REPORTED_LIMIT) {
        bad->reported++;
        report(bad, object, why);
    }
    error_clear(why);
}
