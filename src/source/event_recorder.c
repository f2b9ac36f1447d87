/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * At most EVENTS_LIMIT events are known, so every lookup is a linear search. They are in order of
 * arrival, which is the order of posting.
 */
#include "kube-nftd/source.h"

#include "api_protocol.h"
#include "kube-nftd/base.h"

#include <cjson/cJSON.h>
#include <ev.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* An event not reported for this long is over; its next report is a new event (client-go's
 * finishTime). */
#define EVENT_END 360.0
/* An ongoing event is posted again before the server expires it (client-go's refreshTime). */
#define EVENT_REFRESH 1800.0
#define TRIES 12
#define TIMEOUT 10.0

/* Existing alerts and filters for kube-proxy's events must match. */
#define CONTROLLER "kube-proxy"
/* The server's limits in bytes for names of objects, notes and reportingInstance. */
#define NAME_LIMIT 253
#define NOTE_LIMIT 1024
#define INSTANCE_LIMIT 128

/* A queued or remembered event. Times are of clock_monotonic. */
struct entry {
    uint64_t print, object; /* fingerprints of the event and its object */
    char *path;             /* of its namespace's events */
    char *body;             /* to be posted; NULL once that is done */
    unsigned tries;
    double last;   /* last reported */
    double posted; /* accepted or rejected by the server */
};

struct event_recorder {
    struct ev_loop *loop;
    struct apiserver *apiserver;
    const char *node_name;
    char *instance;
    VEC(struct entry) entries;
    struct api_request *request; /* posts the first queued entry; NULL: none */
    /* The rate: each post takes @interval seconds, from now or where the last one ends. Posts may
     * run ahead of time by @slack. */
    double interval, slack, taken_until;
    struct retry access;    /* errors of the server or of our access */
    struct retry rejection; /* of single events */
    double blocked_until;   /* until then the server accepts nothing */
    struct event_stats stats;
    ev_timer timer;
};

/* The same on every node. */
static uint64_t fingerprint(const char *text)
{
    return fnv(FNV_START, text, strlen(text));
}

/* ---- the request ---- */

/* "web.17f3b2": the object's name, cut to fit, then as in client-go the time in hexadecimal
 * nanoseconds, and the node. An event of all nodes has a hash of its contents instead. */
static char *event_name(const struct event_recorder *r, const struct object_event *event,
                        const char *object, uint64_t print)
{
    char suffix[32];
    if (event->everywhere) {
        snprintf(suffix, sizeof(suffix), "%llx", (unsigned long long)print);
    } else {
        uint64_t node = fingerprint(r->node_name);
        snprintf(suffix, sizeof(suffix), "%llx%08x", (unsigned long long)clock_nanoseconds(),
                 (unsigned)(node ^ node >> 32));
    }
    size_t length = utf8_cut(object, strlen(object), NAME_LIMIT - 1 - strlen(suffix));
    while (length > 0 && strchr("-.", object[length - 1]))
        length--;
    return xasprintf("%.*s.%s", (int)length, object, suffix);
}

static void add_text(cJSON *object, const char *key, const char *text)
{
    cJSON_AddStringToObject(object, key, text);
}

/* Adds @text cut to @limit bytes, and frees it. */
static void add_cut(cJSON *object, const char *key, char *text, size_t limit)
{
    text[utf8_cut(text, strlen(text), limit)] = '\0';
    add_text(object, key, text);
    free(text);
}

/* Names the node, unless all nodes post the event or it is about the Node. Repairs invalid
 * UTF-8. */
static char *note_of(const struct event_recorder *r, const struct object_event *event)
{
    bool name_node = !event->everywhere && event->kind != KIND_NODE;
    char *text =
        name_node ? xasprintf("node %s: %s", r->node_name, event->note) : xstrdup(event->note);
    char *note = utf8_repair(text);
    free(text);
    return note;
}

/* Events of cluster-scoped objects go to the namespace "default". */
static char *namespace_of(const struct object_event *event)
{
    const char *slash = strchr(event->id, '/');
    return slash ? xstrndup(event->id, (size_t)(slash - event->id)) : xstrdup("default");
}

static char *make_path(const struct object_event *event)
{
    char *namespace = namespace_of(event), *escaped = url_escape(namespace);
    char *path = xasprintf("/apis/events.k8s.io/v1/namespaces/%s/events", escaped);
    free(escaped);
    free(namespace);
    return path;
}

static char *make_body(const struct event_recorder *r, const struct object_event *event,
                       uint64_t print)
{
    char time[CLOCK_RFC3339_SIZE], text[UID_TEXT_SIZE];
    const char *slash = strchr(event->id, '/'), *name = slash ? slash + 1 : event->id;
    cJSON *json = cJSON_CreateObject();
    add_text(json, "kind", "Event");
    add_text(json, "apiVersion", "events.k8s.io/v1");
    cJSON *metadata = cJSON_AddObjectToObject(json, "metadata");
    add_cut(metadata, "name", event_name(r, event, name, print), NAME_LIMIT);
    add_cut(metadata, "namespace", namespace_of(event), NAME_LIMIT);
    clock_format(clock_realtime(), 6, time);
    add_text(json, "eventTime", time);
    add_text(json, "reportingController", CONTROLLER);
    add_cut(json, "reportingInstance", xstrdup(r->instance), INSTANCE_LIMIT);
    add_text(json, "action", event->action);
    add_text(json, "reason", event->reason);
    cJSON *regarding = cJSON_AddObjectToObject(json, "regarding");
    add_text(regarding, "kind", object_kind_name(event->kind));
    if (slash)
        add_cut(regarding, "namespace", namespace_of(event), SIZE_MAX);
    add_text(regarding, "name", name);
    /* as in kube-proxy and kubelet, the Node's uid is its name: kubectl searches for that */
    const char *uid = event->kind == KIND_NODE ? event->id : uid_format(&event->uid, text);
    if (*uid)
        add_text(regarding, "uid", uid);
    add_text(regarding, "apiVersion", collection_resource(event->kind)->api_version);
    add_cut(json, "note", note_of(r, event), NOTE_LIMIT);
    add_text(json, "type", event->type == EVENT_WARNING ? "Warning" : "Normal");
    char *body = cJSON_PrintUnformatted(json);
    cJSON_Delete(json);
    return body;
}

/* ---- entries ---- */

/* The fingerprint of all that makes two reports the same event. */
static uint64_t print_of(const struct object_event *event)
{
    char uid[UID_TEXT_SIZE];
    char *key = xasprintf("%d %s %s %s %s %016llx", (int)event->kind, event->id,
                          uid_format(&event->uid, uid), event->reason, event->action,
                          (unsigned long long)fingerprint(event->note));
    uint64_t print = fingerprint(key);
    free(key);
    return print;
}

static void drop_entry(struct event_recorder *r, size_t i)
{
    free(r->entries.v[i].path);
    free(r->entries.v[i].body);
    r->entries.n--;
    memmove(&r->entries.v[i], &r->entries.v[i + 1], (r->entries.n - i) * sizeof(*r->entries.v));
}

/* The first entry that is queued, or done; entries.n if none. */
static size_t first(const struct event_recorder *r, bool queued)
{
    size_t i = 0;
    while (i < r->entries.n && (r->entries.v[i].body != NULL) != queued)
        i++;
    return i;
}

/* Whether the limits of its object, its namespace and the total allow another @entry. Makes room by
 * dropping the oldest that is done. */
static bool make_room(struct event_recorder *r, const struct entry *entry)
{
    size_t of_object = 0, of_namespace = 0;
    vec_each (&r->entries, other) {
        of_object += other->object == entry->object;
        of_namespace += strcmp(other->path, entry->path) == 0;
    }
    if (of_object >= EVENTS_PER_OBJECT || of_namespace >= EVENTS_PER_NAMESPACE)
        return false;
    size_t oldest = first(r, false);
    if (r->entries.n == EVENTS_LIMIT && oldest < r->entries.n)
        drop_entry(r, oldest);
    return r->entries.n < EVENTS_LIMIT;
}

/* Drops events that are over, or posted so long ago that they must be posted again. */
static void sweep(struct event_recorder *r, double now)
{
    for (size_t i = r->entries.n; i-- > 0;) {
        const struct entry *entry = &r->entries.v[i];
        if (!entry->body &&
            (now - entry->last >= EVENT_END || now - entry->posted >= EVENT_REFRESH))
            drop_entry(r, i);
    }
}

/* Returns whether @event was already known. */
static bool repeat(struct event_recorder *r, uint64_t print, double now)
{
    vec_each (&r->entries, entry) {
        if (entry->print == print) {
            entry->last = now;
            r->stats.repeated++;
            return true;
        }
    }
    return false;
}

static void pump(struct event_recorder *r);

void event_recorder_report(void *recorder, const struct object_event *event)
{
    struct event_recorder *r = recorder;
    double now = clock_monotonic();
    uint64_t print = print_of(event);
    sweep(r, now);
    if (!repeat(r, print, now)) {
        struct entry entry = {
            .print = print,
            .object = fingerprint(event->id) + (uint64_t)event->kind,
            .path = make_path(event),
            .last = now,
        };
        if (make_room(r, &entry)) {
            entry.body = make_body(r, event, print);
            vec_push(&r->entries, entry);
        } else {
            r->stats.dropped++;
            log_debug(2, "source", "an Event was dropped: too many of=\"%s\" note=\"%s\"",
                      event->id, event->note);
            free(entry.path);
        }
    }
    pump(r);
}

/* ---- posting ---- */

/* Whether @status is about the server or our access rather than this event: other events would fail
 * too, and a retry may succeed. */
static bool concerns_all(const struct api_status *status)
{
    long code = status->code; /* 0: no answer */
    return code == 0 || code == 401 || code == 429 || (code >= 502 && code <= 504) ||
           api_status_lacks_right(status);
}

static void log_rejection(struct event_recorder *r, const struct api_status *status)
{
    char *why = api_status_explain(status, "create", r->rejection.resource);
    retry_log(&r->rejection, LOG_LEVEL_WARN, xasprintf("an Event was dropped: %s", why),
              status->message);
    free(why);
}

/* The posting of the first queued entry ended. */
static void on_done(void *ctx, const struct api_status *status)
{
    struct event_recorder *r = ctx;
    struct entry *entry = &r->entries.v[first(r, true)];
    double now = clock_monotonic();
    bool retry = false;
    r->request = NULL;
    if (status->code == 200 || status->code == 201 || (status->code == 409 && status->exists)) {
        /* it exists: posted by another node, or sent twice */
        retry_write_done(&r->access, now);
        r->stats.posted++;
    } else if (concerns_all(status)) {
        r->blocked_until = now + retry_write_wait(&r->access, "create", status, now);
        entry->tries += status->code != 429; /* not this event's fault */
        retry = entry->tries < TRIES;
        r->stats.failed += !retry;
    } else {
        r->stats.failed++;
        /* events of a namespace that is being deleted vanish with it */
        if (!strstr(status->message, "because it is being terminated"))
            log_rejection(r, status);
    }
    if (!retry) {
        entry->posted = now;
        free(entry->body);
        entry->body = NULL;
    }
    pump(r);
}

static void post(struct event_recorder *r, const struct entry *entry)
{
    static const struct api_request_ops ops = {.done = on_done};
    const struct api_write write = {
        .method = "POST", .content_type = "application/json", .body = entry->body};
    struct error err = {0};
    r->taken_until = fmax(r->taken_until, clock_monotonic()) + r->interval;
    r->request = apiserver_send(r->apiserver, entry->path, &write, TIMEOUT, &ops, r, &err);
    if (!r->request) { /* no credentials: the reflectors log that */
        const struct api_status status = {.message = err.text, .retry_after = -1};
        on_done(r, &status);
    }
    error_clear(&err);
}

/* Posts the next event if it is due, else sets the timer for it. */
static void pump(struct event_recorder *r)
{
    double now = clock_monotonic();
    size_t due = first(r, true);
    ev_timer_stop(r->loop, &r->timer);
    if (r->request || due == r->entries.n)
        return;
    double ready = fmax(r->blocked_until, r->taken_until - r->slack);
    if (ready <= now) {
        post(r, &r->entries.v[due]); /* on_done() calls pump() again */
        return;
    }
    ev_timer_set(&r->timer, ready - now, 0.);
    ev_timer_start(r->loop, &r->timer);
}

static void on_post_timer(struct ev_loop *loop, ev_timer *timer, int events)
{
    (void)loop;
    (void)events;
    pump(timer->data);
}

/* ---- public ---- */

struct event_recorder *event_recorder_new(struct ev_loop *loop, struct apiserver *apiserver,
                                          const char *node_name, const char *host_name, double qps,
                                          double burst)
{
    static const struct api_resource resource = {"events", "events", "events.k8s.io",
                                                 "events.k8s.io/v1"};
    struct event_recorder *r = xcalloc(1, sizeof(*r));
    double now = clock_monotonic();
    r->loop = loop;
    r->apiserver = apiserver;
    r->node_name = node_name;
    r->instance = xasprintf("kube-proxy-%s", host_name);
    r->interval = qps > 0 ? 1 / qps : 0;
    r->slack = r->interval * (fmax(burst, 1) - 1);
    retry_init(&r->access, &resource, now);
    retry_init(&r->rejection, &resource, now);
    ev_init(&r->timer, on_post_timer);
    r->timer.data = r;
    return r;
}

void event_recorder_free(struct event_recorder *r)
{
    if (!r)
        return;
    if (r->request)
        apiserver_cancel(r->request);
    ev_timer_stop(r->loop, &r->timer);
    while (r->entries.n > 0)
        drop_entry(r, r->entries.n - 1);
    vec_free(&r->entries);
    retry_clear(&r->access);
    retry_clear(&r->rejection);
    free(r->instance);
    free(r);
}

bool event_recorder_is_idle(const struct event_recorder *r)
{
    return !r->request && (clock_monotonic() < r->blocked_until || first(r, true) == r->entries.n);
}

struct event_stats event_recorder_stats(const struct event_recorder *r)
{
    return r->stats;
}
