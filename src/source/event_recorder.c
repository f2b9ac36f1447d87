/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * There are EVENTS_LIMIT entries at most, so all that is asked of them is found by a look at each.
 * They are in the order they came, which is the order they are posted in.
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
/* An event that is not reported for so long is over, and a new one when it comes again (client-go's
 * finishTime). */
#define EVENT_END 360.0
/* One that goes on is posted again, before the server forgets it (client-go's refreshTime). */
#define EVENT_REFRESH 1800.0
#define TRIES 12
#define TIMEOUT 10.0
/* Different refusals that are logged, once each. */
#define LOGGED_LIMIT 32

/* The alerts and filters that there are for kube-proxy's events shall find these. */
#define CONTROLLER "kube-proxy"
/* What the server takes, in bytes: of names of objects, of notes and of reportingInstance. */
#define NAME_LIMIT 253
#define NOTE_LIMIT 1024
#define INSTANCE_LIMIT 128

enum entry_state { ENTRY_QUEUED, ENTRY_WRITING, ENTRY_DONE };

/* An event that is remembered. Times are of clock_monotonic. */
struct entry {
    enum entry_state state;
    uint64_t print, object, namespace; /* fingerprints: of all it says, and of what it is about */
    char *path, *body;                 /* of the request; NULL when it is done */
    unsigned tries;
    double last;   /* it was reported */
    double posted; /* the server took or refused it */
};

struct event_recorder {
    struct ev_loop *loop;
    struct apiserver *apiserver;
    const char *node_name;
    char *instance;
    VEC(struct entry) entries;
    struct api_request *request; /* that of the one entry that is written; NULL: there is none */
    double qps, burst, tokens, tokens_at; /* so many tokens there were at that time */
    struct retry retry;
    VEC(uint64_t) logged; /* fingerprints of refusals of one event */
    double blocked_until; /* the server did not take the last one */
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

/* ---- what is posted ---- */

/* "namespace/name" or "name" in two parts. */
struct object_name {
    char *namespace; /* owned; NULL if there is none: its events are in "default" */
    const char *name;
};

static struct object_name split_id(const char *id)
{
    const char *slash = strchr(id, '/');
    if (!slash)
        return (struct object_name){NULL, id};
    return (struct object_name){xstrndup(id, (size_t)(slash - id)), slash + 1};
}

/* "web.17f3b2": as much of the object's name as there is room for, and, as client-go does it, the
 * time in hexadecimal nanoseconds and the node. What all nodes see is named by what it says. */
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

/* As much of @text, which is freed, as @limit bytes hold. */
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
    /* kube-proxy and kubelet give the node's name for the Node's uid, and kubectl looks for that */
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

/* An event that does not come from all nodes and is not about the Node says which one it is from.
 * The note may quote what is no UTF-8. */
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

/* ---- what is remembered ---- */

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

/* The first one that is in @state; their number if there is none. */
static size_t first_in(const struct event_recorder *r, enum entry_state state)
{
    size_t i = 0;
    while (i < r->entries.n && r->entries.v[i].state != state)
        i++;
    return i;
}

/* Whether one more like @entry may be remembered: by its object, its namespace and all there are.
 * Makes room by forgetting the oldest one that need not be posted any more. */
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

/* Forgets what is over, or was posted so long ago that it is to be posted again. */
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

/* What has no namespace counts as one of its own, though its events are posted to another's. */
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

/* A refusal that says nothing of other events: each reason once. */
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

/* Whether @status is about the server or us, and not about the one event: others would get it too,
 * and all may go well later. */
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
    /* The namespace of what the event is about is on its way out, and the event with it. */
    if (status->code == 403 && strstr(status->message, "because it is being terminated"))
        return false;
    if (!concerns_all(status)) {
        log_refused(r, status);
        return false;
    }
    r->blocked_until = now + retry_write_wait(&r->retry, "create", status, now);
    entry->tries += status->code != 429; /* which is not about this one */
    return entry->tries < TRIES;
}

/* The write of the one entry is over. */
static void finish(struct event_recorder *r, const struct api_status *status)
{
    struct entry *entry = &r->entries.v[first_in(r, ENTRY_WRITING)];
    double now = clock_monotonic();
    bool exists = status->code == 409 && status->exists; /* from another node, or sent twice */
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
    if (!r->request) { /* no credentials: those who read say so */
        struct api_status status = {.message = err.text, .retry_after = -1};
        finish(r, &status);
    }
    error_clear(&err);
}

/* The seconds until one more may be posted. */
static double wait_for_token(struct event_recorder *r, double now)
{
    if (r->qps <= 0)
        return 0;
    r->tokens = fmin(r->tokens + (now - r->tokens_at) * r->qps, r->burst);
    r->tokens_at = now;
    /* sums of fractions may lack something of a whole one */
    return r->tokens >= 1 - 1e-9 ? 0 : (1 - r->tokens) / r->qps;
}

/* Begins the next write if it is time, else lets the timer wait for it. */
static void pump(struct event_recorder *r)
{
    double now = clock_monotonic();
    size_t due = r->request ? r->entries.n : first_in(r, ENTRY_QUEUED);
    ev_timer_stop(r->loop, &r->timer);
    if (due == r->entries.n)
        return;
    double ready = fmax(r->blocked_until, now + wait_for_token(r, now));
    if (ready <= now) {
        begin(r, &r->entries.v[due]); /* its end comes here again */
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
