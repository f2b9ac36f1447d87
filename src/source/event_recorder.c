/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * At most EVENTS_LIMIT entries exist, so every lookup is a linear search. Entries are in order of
 * arrival, which is the order of posting.
 */
#include "kube-nftd/source.h"

#include "kube-nftd/base.h"
#include "pace.h"

#include <cjson/cJSON.h>
#include <ev.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define LOG "events"
/* An event not reported for this long is over; its next report is a new event (client-go's
 * finishTime). */
#define EVENT_END 360.0
/* An ongoing event is posted again before the server expires it (client-go's refreshTime). */
#define EVENT_REFRESH 1800.0
#define TRIES 12
#define TIMEOUT 10.0
/* Distinct rejections that are logged, once each. */
#define LOGGED_LIMIT 32

/* Existing alerts and filters for kube-proxy's events must match. */
#define CONTROLLER "kube-proxy"
/* The server's limits in bytes for names of objects, notes and reportingInstance. */
#define NAME_LIMIT 253
#define NOTE_LIMIT 1024
#define INSTANCE_LIMIT 128

enum entry_state { ENTRY_QUEUED, ENTRY_WRITING, ENTRY_DONE };

/* A queued or remembered event. Times are of clock_monotonic. */
struct entry {
    enum entry_state state;
    uint64_t print, object, namespace; /* fingerprints of the event, its object and its namespace */
    char *path, *body;                 /* of the request; NULL once done */
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
    struct api_request *request;          /* for the entry in ENTRY_WRITING; NULL: none */
    double qps, burst, tokens, tokens_at; /* @tokens were left at @tokens_at */
    struct retry retry;
    VEC(uint64_t) logged; /* fingerprints of logged rejections */
    double blocked_until; /* until then the server accepts nothing */
    struct event_stats stats;
    ev_timer timer;
};

/* FNV-1a: the same on every node. */
static uint64_t fingerprint(const char *text)
{
    uint64_t hash = 14695981039346656037U;
    for (; *text; text++)
        hash = (hash ^ (unsigned char)*text) * 1099511628211U;
    return hash;
}

/* ---- the request ---- */

/* "namespace/name" or "name" in two parts. */
struct object_name {
    char *namespace; /* owned; NULL: none, its events go to "default" */
    const char *name;
};

static struct object_name split_id(const char *id)
{
    const char *slash = strchr(id, '/');
    if (!slash)
        return (struct object_name){NULL, id};
    return (struct object_name){xstrndup(id, (size_t)(slash - id)), slash + 1};
}

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
    size_t length = text_cut(object, strlen(object), NAME_LIMIT - 1 - strlen(suffix));
    while (length > 0 && strchr("-.", object[length - 1]))
        length--;
    return xasprintf("%.*s.%s", (int)length, object, suffix);
}

static void add(cJSON *object, const char *key, const char *text)
{
    cJSON_AddStringToObject(object, key, text);
}

/* Adds @text cut to @limit bytes, and frees it. */
static void add_cut(cJSON *object, const char *key, char *text, size_t limit)
{
    text[text_cut(text, strlen(text), limit)] = '\0';
    add(object, key, text);
    free(text);
}

static void add_regarding(cJSON *json, const struct object_event *event,
                          const struct object_name *object)
{
    char text[UID_TEXT_SIZE];
    /* as in kube-proxy and kubelet, the Node's uid is its name: kubectl searches for that */
    const char *uid = event->kind == KIND_NODE ? event->id : uid_format(&event->uid, text);
    cJSON *regarding = cJSON_AddObjectToObject(json, "regarding");
    add(regarding, "kind", object_kind_name(event->kind));
    if (object->namespace)
        add(regarding, "namespace", object->namespace);
    add(regarding, "name", object->name);
    if (*uid)
        add(regarding, "uid", uid);
    add(regarding, "apiVersion", collection_resource(event->kind)->api_version);
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

static void make_request(const struct event_recorder *r, struct entry *entry,
                         const struct object_event *event)
{
    char time[CLOCK_RFC3339_SIZE];
    struct object_name object = split_id(event->id);
    const char *namespace = object.namespace ? object.namespace : "default";
    char *escaped = url_escape(namespace);
    entry->path = xasprintf("/apis/events.k8s.io/v1/namespaces/%s/events", escaped);
    free(escaped);
    cJSON *json = cJSON_CreateObject();
    add(json, "kind", "Event");
    add(json, "apiVersion", "events.k8s.io/v1");
    cJSON *metadata = cJSON_AddObjectToObject(json, "metadata");
    add_cut(metadata, "name", event_name(r, event, object.name, entry->print), NAME_LIMIT);
    add_cut(metadata, "namespace", xstrdup(namespace), NAME_LIMIT);
    clock_format(clock_realtime(), 6, time);
    add(json, "eventTime", time);
    add(json, "reportingController", CONTROLLER);
    add_cut(json, "reportingInstance", xstrdup(r->instance), INSTANCE_LIMIT);
    add(json, "action", event->action);
    add(json, "reason", event->reason);
    add_regarding(json, event, &object);
    add_cut(json, "note", note_of(r, event), NOTE_LIMIT);
    add(json, "type", event->type == EVENT_WARNING ? "Warning" : "Normal");
    entry->body = cJSON_PrintUnformatted(json);
    cJSON_Delete(json);
    free(object.namespace);
}

/* ---- entries ---- */

static void clear_request(struct entry *entry)
{
    free(entry->path);
    free(entry->body);
    entry->path = entry->body = NULL;
}

static void forget(struct event_recorder *r, size_t i)
{
    clear_request(&r->entries.v[i]);
    r->entries.n--;
    memmove(&r->entries.v[i], &r->entries.v[i + 1], (r->entries.n - i) * sizeof(*r->entries.v));
}

/* The first entry in @state; entries.n if none. */
static size_t first_in(const struct event_recorder *r, enum entry_state state)
{
    size_t i = 0;
    while (i < r->entries.n && r->entries.v[i].state != state)
        i++;
    return i;
}

/* Whether the limits of its object, its namespace and the total allow another @entry. Makes room by
 * dropping the oldest finished one. */
static bool make_room(struct event_recorder *r, const struct entry *entry)
{
    size_t of_object = 0, of_namespace = 0, oldest = first_in(r, ENTRY_DONE);
    vec_each (&r->entries, other) {
        of_object += other->object == entry->object;
        of_namespace += other->namespace == entry->namespace;
    }
    if (of_object >= EVENTS_PER_OBJECT || of_namespace >= EVENTS_PER_NAMESPACE)
        return false;
    if (r->entries.n < EVENTS_LIMIT)
        return true;
    if (oldest == r->entries.n)
        return false;
    forget(r, oldest);
    return true;
}

/* Drops events that are over, or posted so long ago that they must be posted again. */
static void sweep(struct event_recorder *r, double now)
{
    for (size_t i = r->entries.n; i-- > 0;) {
        const struct entry *entry = &r->entries.v[i];
        if (entry->state == ENTRY_DONE &&
            (now - entry->last >= EVENT_END || now - entry->posted >= EVENT_REFRESH))
            forget(r, i);
    }
}

static struct entry *find(const struct event_recorder *r, uint64_t print)
{
    vec_each (&r->entries, entry) {
        if (entry->print == print)
            return entry;
    }
    return NULL;
}

/* Cluster-scoped objects count as one namespace, although their events are posted to "default". */
static struct entry entry_of(const struct object_event *event, double now)
{
    char uid[UID_TEXT_SIZE];
    char *key = xasprintf("%d %s %s %s %s %016llx", (int)event->kind, event->id,
                          uid_format(&event->uid, uid), event->reason, event->action,
                          (unsigned long long)fingerprint(event->note));
    struct object_name object = split_id(event->id);
    const struct entry entry = {
        .print = fingerprint(key),
        .object = fingerprint(event->id) + (uint64_t)event->kind,
        .namespace = fingerprint(object.namespace ? object.namespace : ""),
        .last = now,
    };
    free(object.namespace);
    free(key);
    return entry;
}

static void pump(struct event_recorder *r);

void event_recorder_report(void *recorder, const struct object_event *event)
{
    struct event_recorder *r = recorder;
    double now = clock_monotonic();
    sweep(r, now);
    struct entry fresh = entry_of(event, now), *known = find(r, fresh.print);
    if (known) {
        r->stats.repeated++;
        known->last = now;
    } else if (!make_room(r, &fresh)) {
        r->stats.dropped++;
        log_debug(2, LOG, "dropped: too many of=\"%s\" note=\"%s\"", event->id, event->note);
    } else {
        make_request(r, &fresh, event);
        vec_push(&r->entries, fresh);
    }
    pump(r);
}

/* ---- posting ---- */

/* Logs the rejection of a single event, each reason once. */
static void log_refused(struct event_recorder *r, const struct api_status *status)
{
    char *why = api_status_explain(status, "create", r->retry.resource);
    uint64_t print = fingerprint(why);
    bool known = r->logged.n >= LOGGED_LIMIT;
    vec_each (&r->logged, logged)
        known |= *logged == print;
    if (known) {
        log_debug(2, LOG, "one more dropped: %s message=\"%s\"", why, status->message);
    } else {
        log_warn(LOG, "cannot create events, dropped (logged once): %s message=\"%s\"", why,
                 status->message);
        vec_push(&r->logged, print);
    }
    free(why);
}

/* Whether @status is about the server or our access rather than this event: other events would fail
 * too, and a retry may succeed. */
static bool concerns_all(const struct api_status *status)
{
    long code = status->code; /* 0: no answer */
    return code == 0 || code == 401 || code == 429 || (code >= 502 && code <= 504) ||
           api_status_lacks_right(status);
}

/* Returns whether @entry is to be tried again. */
static bool is_worth_a_try(struct event_recorder *r, struct entry *entry,
                           const struct api_status *status, double now)
{
    /* The namespace is being deleted, and its events with it. */
    if (status->code == 403 && strstr(status->message, "because it is being terminated"))
        return false;
    if (!concerns_all(status)) {
        log_refused(r, status);
        return false;
    }
    r->blocked_until = now + retry_write_wait(&r->retry, "create", status, now);
    entry->tries += status->code != 429; /* not this event's fault */
    return entry->tries < TRIES;
}

/* The entry in ENTRY_WRITING was answered. */
static void finish(struct event_recorder *r, const struct api_status *status)
{
    struct entry *entry = &r->entries.v[first_in(r, ENTRY_WRITING)];
    double now = clock_monotonic();
    bool exists = status->code == 409 && status->exists; /* by another node, or sent twice */
    r->request = NULL;
    entry->state = ENTRY_DONE;
    entry->posted = now;
    if (status->code == 200 || status->code == 201 || exists) {
        retry_write_done(&r->retry, now);
        r->stats.posted++;
    } else if (is_worth_a_try(r, entry, status, now)) {
        entry->state = ENTRY_QUEUED;
    } else {
        r->stats.failed++;
    }
    if (entry->state == ENTRY_DONE)
        clear_request(entry);
    pump(r);
}

static void on_done(void *ctx, const struct api_result *result, const char *body)
{
    struct api_status status;
    api_status_from_result(result, body, &status);
    finish(ctx, &status);
    api_status_clear(&status);
}

static void begin(struct event_recorder *r, struct entry *entry)
{
    static const struct api_request_ops ops = {.done = on_done};
    const struct api_write write = {
        .method = "POST", .content_type = "application/json", .body = entry->body};
    struct error err = {0};
    entry->state = ENTRY_WRITING;
    r->tokens -= 1;
    r->request = apiserver_send(r->apiserver, entry->path, &write, TIMEOUT, &ops, r, &err);
    if (!r->request) { /* no credentials: the reflectors log that */
        struct api_status status = {.message = err.text, .retry_after = -1};
        finish(r, &status);
    }
    error_clear(&err);
}

/* Seconds until the next event may be posted. */
static double wait_for_token(struct event_recorder *r, double now)
{
    if (r->qps <= 0)
        return 0;
    r->tokens = fmin(r->tokens + (now - r->tokens_at) * r->qps, r->burst);
    r->tokens_at = now;
    /* rounding may leave slightly less than one token */
    return r->tokens >= 1 - 1e-9 ? 0 : (1 - r->tokens) / r->qps;
}

/* Starts the next write if it is due, else sets the timer for it. */
static void pump(struct event_recorder *r)
{
    double now = clock_monotonic();
    size_t due = r->request ? r->entries.n : first_in(r, ENTRY_QUEUED);
    ev_timer_stop(r->loop, &r->timer);
    if (due == r->entries.n)
        return;
    double ready = fmax(r->blocked_until, now + wait_for_token(r, now));
    if (ready <= now) {
        begin(r, &r->entries.v[due]); /* finish() calls pump() again */
        return;
    }
    ev_timer_set(&r->timer, ready - now, 0.);
    ev_timer_start(r->loop, &r->timer);
}

static void on_timer(struct ev_loop *loop, ev_timer *timer, int events)
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
    r->qps = qps;
    r->burst = r->tokens = fmax(burst, 1);
    r->tokens_at = now;
    retry_init(&r->retry, LOG, &resource, now);
    ev_init(&r->timer, on_timer);
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
    vec_each (&r->entries, entry)
        clear_request(entry);
    vec_free(&r->entries);
    retry_clear(&r->retry);
    vec_free(&r->logged);
    free(r->instance);
    free(r);
}

bool event_recorder_is_settled(const struct event_recorder *r)
{
    return !r->request &&
           (clock_monotonic() < r->blocked_until || first_in(r, ENTRY_QUEUED) == r->entries.n);
}

struct event_stats event_recorder_stats(const struct event_recorder *r)
{
    return r->stats;
}
