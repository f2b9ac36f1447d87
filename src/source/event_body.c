/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "kube-nftd/source/event_body.h"

#include "kube-nftd/base/alloc.h"
#include "kube-nftd/base/clock.h"
#include "kube-nftd/base/utf8.h"
#include "kube-nftd/source/url_escape.h"

#include <cjson/cJSON.h>
#include <stdlib.h>
#include <string.h>

/* The alerts and filters that there are for kube-proxy's events shall find these. */
#define CONTROLLER "kube-proxy"
/* Of names of objects. */
#define NAME_LIMIT 253

static const char *const api_versions[KIND_COUNT] = {
    [KIND_SERVICE] = "v1",
    [KIND_ENDPOINTSLICE] = "discovery.k8s.io/v1",
    [KIND_SERVICECIDR] = "networking.k8s.io/v1",
    [KIND_NODE] = "v1",
};

static void *need(void *p)
{
    if (!p)
        alloc_failed();
    return p;
}

/* How much of @text fits into @limit bytes, cut where a character begins. */
static size_t cut(const char *text, size_t limit)
{
    size_t length = strlen(text);
    if (length <= limit)
        return length;
    while (limit > 0 && ((unsigned char)text[limit] & 0xc0) == 0x80)
        limit--;
    return limit;
}

/* "web.17f3b2": as much of the object's name as there is room for. */
static char *event_name(const char *object, const char *suffix)
{
    size_t length = cut(object, NAME_LIMIT - 1 - strlen(suffix));
    while (length > 0 && strchr("-.", object[length - 1]))
        length--;
    return xasprintf("%.*s.%s", (int)length, object, suffix);
}

/* kube-proxy and kubelet give the node's name for the Node's uid, and kubectl looks for that. */
static char *object_uid(const struct object_event *event)
{
    char text[UID_TEXT_SIZE];
    return xstrdup(event->kind == KIND_NODE ? event->id : uid_format(&event->uid, text));
}

void event_record_init(struct event_record *record, const struct object_event *event,
                       const char *suffix, const char *prefix, double time)
{
    const char *slash = strchr(event->id, '/');
    char *text = xasprintf("%s%s", prefix, event->note);
    char *note = utf8_repair(text); /* it may quote what is none */
    *record = (struct event_record){
        .kind = event->kind,
        .object_namespace = xstrndup(event->id, slash ? (size_t)(slash - event->id) : 0),
        .object_name = xstrdup(slash ? slash + 1 : event->id),
        .object_uid = object_uid(event),
        .type = event->type,
        .reason = event->reason,
        .action = event->action,
        .note = xstrndup(note, cut(note, EVENT_NOTE_LIMIT)),
        .time = time,
        .last_time = time,
        .count = 1,
    };
    record->name = event_name(record->object_name, suffix);
    record->namespace = xstrdup(slash ? record->object_namespace : "default");
    free(note);
    free(text);
}

void event_record_clear(struct event_record *record)
{
    free(record->name);
    free(record->namespace);
    free(record->object_namespace);
    free(record->object_name);
    free(record->object_uid);
    free(record->note);
    *record = (struct event_record){0};
}

char *event_path(const struct event_record *record, bool named)
{
    char *namespace = url_escape(record->namespace), *name = url_escape(record->name);
    char *path = xasprintf("/apis/events.k8s.io/v1/namespaces/%s/events%s%s", namespace,
                           named ? "/" : "", named ? name : "");
    free(namespace);
    free(name);
    return path;
}

static void add(cJSON *object, const char *key, const char *text)
{
    need(cJSON_AddStringToObject(object, key, text));
}

static void add_time(cJSON *object, const char *key, double time)
{
    char text[CLOCK_RFC3339_SIZE];
    clock_micro_time(time, text);
    add(object, key, text);
}

static void add_series(cJSON *event, const struct event_record *record)
{
    cJSON *series = need(cJSON_AddObjectToObject(event, "series"));
    need(cJSON_AddNumberToObject(series, "count", record->count));
    add_time(series, "lastObservedTime", record->last_time);
}

static void add_regarding(cJSON *event, const struct event_record *record)
{
    cJSON *regarding = need(cJSON_AddObjectToObject(event, "regarding"));
    add(regarding, "kind", object_kind_name(record->kind));
    if (*record->object_namespace)
        add(regarding, "namespace", record->object_namespace);
    add(regarding, "name", record->object_name);
    if (*record->object_uid)
        add(regarding, "uid", record->object_uid);
    add(regarding, "apiVersion", api_versions[record->kind]);
}

static char *print(cJSON *json)
{
    char *text = need(cJSON_PrintUnformatted(json));
    cJSON_Delete(json);
    return text;
}

char *event_body(const struct event_record *record, const char *instance)
{
    cJSON *event = need(cJSON_CreateObject());
    char *cut_instance = xstrndup(instance, cut(instance, EVENT_INSTANCE_LIMIT));
    add(event, "kind", "Event");
    add(event, "apiVersion", "events.k8s.io/v1");
    cJSON *metadata = need(cJSON_AddObjectToObject(event, "metadata"));
    add(metadata, "name", record->name);
    add(metadata, "namespace", record->namespace);
    add_time(event, "eventTime", record->time);
    if (record->count > 1)
        add_series(event, record);
    add(event, "reportingController", CONTROLLER);
    add(event, "reportingInstance", cut_instance);
    add(event, "action", record->action);
    add(event, "reason", record->reason);
    add_regarding(event, record);
    add(event, "note", record->note);
    add(event, "type", record->type == EVENT_WARNING ? "Warning" : "Normal");
    free(cut_instance);
    return print(event);
}

char *event_series_patch(const struct event_record *record)
{
    cJSON *patch = need(cJSON_CreateObject());
    add_series(patch, record);
    return print(patch);
}
