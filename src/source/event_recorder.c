/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "kube-nftd/source/event_recorder.h"

#include "kube-nftd/base/clock.h"
#include "kube-nftd/base/hash.h"
#include "kube-nftd/base/log.h"
#include "kube-nftd/base/token_bucket.h"
#include "kube-nftd/source/apiserver.h"
#include "kube-nftd/source/event_body.h"
#include "kube-nftd/source/write_trouble.h"

#include <ev.h>
#include <math.h>
#include <string.h>
#include <utlist.h>

#define LOG "events"
/* An event that is not repeated for so long is over (client-go's finishTime). */
#define SERIES_END 360.0
/* A series is written again, so that the server does not forget it (client-go's refreshTime). */
#define SERIES_REFRESH 1800.0
/* Between two looks at what is over. */
#define SWEEP 60.0
#define TRIES 12
#define TIMEOUT 10.0
/* Nodes that all see the same say so within this time, in milliseconds. */
#define EVERYWHERE_SPREAD 300000
/* Different refusals that are said, once each. */
#define SAID_LIMIT 32

/* An object or a namespace that there are events of. */
struct owner {
    UT_hash_handle hh;
    unsigned n; /* of its events that are remembered */
    char key[]; /* kind and id; of a namespace its name */
};

enum entry_state { ENTRY_IDLE, ENTRY_QUEUED, ENTRY_WRITING };

/* An event that is remembered. Times are of clock_monotonic. */
struct entry {
    UT_hash_handle hh;         /* by key; in the order they came */
    struct entry *prev, *next; /* in the queue, or among the idle */
    enum entry_state state;
    struct owner *object, *namespace;
    struct event_record record;
    bool everywhere;
    bool created;          /* the server has it: from now on it is patched */
    bool refused;          /* the server does not want it */
    unsigned written;      /* the count that the server knows */
    unsigned tries;        /* of the present write */
    double not_before;     /* the first try */
    double last, wrote_at; /* reported last; written last */
    char key[];
};

struct event_recorder {
    struct ev_loop *loop;
    struct apiserver *apiserver;
    const char *node_name;
    char *instance;
    struct entry *entries;
    struct owner *objects, *namespaces;
    struct entry *queue;
    struct entry *idle;    /* the others but for the one that is written, the oldest first */
    struct entry *writing; /* it is not in the queue; NULL: no request is open */
    struct api_request *request;
    struct token_bucket bucket;
    struct write_trouble trouble;
    VEC(uint64_t) said;   /* fingerprints of refusals of one event */
    uint64_t last_name;   /* the last event's time in nanoseconds */
    double delay;         /* of what all nodes see, in seconds */
    double blocked_until; /* the server did not take the last one */
    double sweep_at;
    struct event_figures figures;
    ev_timer timer;
};

static void pump(struct event_recorder *r);

/* ---- what is remembered ---- */

/* The one of @key among @owners, made if there is none. */
static struct owner *owner_of(struct owner **owners, const char *key)
{
    size_t length = strlen(key);
    struct owner *owner;
    HASH_FIND(hh, *owners, key, length, owner);
    if (!owner) {
        owner = xcalloc(1, sizeof(*owner) + length + 1);
        memcpy(owner->key, key, length + 1);
        HASH_ADD_KEYPTR(hh, *owners, owner->key, length, owner);
    }
    return owner;
}

static struct owner *object_of(struct event_recorder *r, const struct object_event *event)
{
    char *key = xasprintf("%d %s", (int)event->kind, event->id);
    struct owner *object = owner_of(&r->objects, key);
    free(key);
    return object;
}

static struct owner *namespace_of(struct event_recorder *r, const struct object_event *event)
{
    char *key = xstrndup(event->id, strcspn(event->id, "/"));
    struct owner *namespace = owner_of(&r->namespaces, strchr(event->id, '/') ? key : "");
    free(key);
    return namespace;
}

static void drop_if_unused(struct owner **owners, struct owner *owner)
{
    if (owner->n > 0)
        return;
    HASH_DELETE(hh, *owners, owner);
    free(owner);
}

/* Whether @event's object and namespace may have one more. */
static bool is_allowed(struct event_recorder *r, const struct object_event *event)
{
    struct owner *object = object_of(r, event), *namespace = namespace_of(r, event);
    bool allowed = object->n < EVENTS_PER_OBJECT && namespace->n < EVENTS_PER_NAMESPACE;
    drop_if_unused(&r->objects, object);
    drop_if_unused(&r->namespaces, namespace);
    return allowed;
}

/* Takes @entry from where it is. */
static void leave(struct event_recorder *r, struct entry *entry)
{
    if (entry->state == ENTRY_QUEUED)
        DL_DELETE(r->queue, entry);
    else if (entry->state == ENTRY_IDLE)
        DL_DELETE(r->idle, entry);
}

static void rest(struct event_recorder *r, struct entry *entry)
{
    entry->state = ENTRY_IDLE;
    DL_APPEND(r->idle, entry);
}

static void entry_free(struct event_recorder *r, struct entry *entry)
{
    leave(r, entry);
    HASH_DELETE(hh, r->entries, entry);
    entry->object->n--;
    drop_if_unused(&r->objects, entry->object);
    entry->namespace->n--;
    drop_if_unused(&r->namespaces, entry->namespace);
    event_record_clear(&entry->record);
    free(entry);
}

static void enqueue(struct event_recorder *r, struct entry *entry)
{
    if (entry->state != ENTRY_IDLE || entry->refused)
        return;
    leave(r, entry);
    entry->state = ENTRY_QUEUED;
    entry->tries = 0;
    DL_APPEND(r->queue, entry);
}

/* Makes room by forgetting the oldest one that need not be written any more. */
static bool make_room(struct event_recorder *r)
{
    if (HASH_COUNT(r->entries) < EVENTS_LIMIT)
        return true;
    if (!r->idle)
        return false;
    entry_free(r, r->idle);
    return true;
}

/* FNV-1a: the same on every node. */
static uint64_t fingerprint(const char *text)
{
    uint64_t hash = 14695981039346656037U;
    for (; *text; text++)
        hash = (hash ^ (unsigned char)*text) * 1099511628211U;
    return hash;
}

/* As client-go names its events: by the time, in hexadecimal nanoseconds, and by the node. One from
 * everywhere by what it says. */
static char *suffix_of(struct event_recorder *r, const struct object_event *event, const char *key)
{
    if (event->everywhere)
        return xasprintf("%llx", (unsigned long long)fingerprint(key));
    uint64_t time = clock_nanoseconds(), node = fingerprint(r->node_name);
    r->last_name = time > r->last_name ? time : r->last_name + 1;
    return xasprintf("%llx%08x", (unsigned long long)r->last_name, (unsigned)(node ^ node >> 32));
}

static void add_entry(struct event_recorder *r, const struct object_event *event, const char *key,
                      double now)
{
    size_t length = strlen(key);
    struct entry *entry = xcalloc(1, sizeof(*entry) + length + 1);
    bool name_node = !event->everywhere && event->kind != KIND_NODE;
    double time = clock_realtime();
    char *suffix = suffix_of(r, event, key);
    char *prefix = name_node ? xasprintf("node %s: ", r->node_name) : xstrdup("");
    event_record_init(&entry->record, event, suffix, prefix, time);
    free(suffix);
    free(prefix);
    memcpy(entry->key, key, length + 1);
    entry->everywhere = event->everywhere;
    entry->not_before = now + (event->everywhere ? r->delay : 0);
    entry->last = now;
    entry->object = object_of(r, event);
    entry->object->n++;
    entry->namespace = namespace_of(r, event);
    entry->namespace->n++;
    HASH_ADD_KEYPTR(hh, r->entries, entry->key, length, entry);
    rest(r, entry);
    enqueue(r, entry);
}

static void repeat(struct event_recorder *r, struct entry *entry, double now)
{
    r->figures.repeated++;
    entry->last = now;
    if (entry->everywhere)
        return;
    entry->record.last_time = clock_realtime();
    if (++entry->record.count == 2)
        enqueue(r, entry);
}

static void take_note(struct event_recorder *r, const struct object_event *event, const char *key)
{
    double now = clock_monotonic();
    struct entry *entry;
    HASH_FIND_STR(r->entries, key, entry);
    if (entry) {
        repeat(r, entry, now);
        return;
    }
    if (!is_allowed(r, event) || !make_room(r)) {
        r->figures.dropped++;
        log_debug(2, LOG, "dropped: too many key=\"%s\"", key);
        return;
    }
    if (!r->entries)
        r->sweep_at = now + SWEEP;
    add_entry(r, event, key, now);
}

void event_recorder_report(void *recorder, const struct object_event *event)
{
    struct event_recorder *r = recorder;
    char uid[UID_TEXT_SIZE];
    char *key = xasprintf("%d %s %s %s %s %016llx", (int)event->kind, event->id,
                          uid_format(&event->uid, uid), event->reason, event->action,
                          (unsigned long long)fingerprint(event->note));
    take_note(r, event, key);
    free(key);
    pump(r);
}

/* ---- what is over ---- */

static void sweep_entry(struct event_recorder *r, struct entry *entry, double now)
{
    bool over = now - entry->last >= SERIES_END;
    if (entry->state != ENTRY_IDLE)
        return;
    if (entry->record.count > entry->written && entry->created && !entry->refused &&
        (over || now - entry->wrote_at >= SERIES_REFRESH))
        enqueue(r, entry);
    else if (over)
        entry_free(r, entry);
}

static void sweep(struct event_recorder *r, double now)
{
    struct entry *entry, *next;
    if (now < r->sweep_at)
        return;
    r->sweep_at = now + SWEEP;
    HASH_ITER(hh, r->entries, entry, next)
    {
        sweep_entry(r, entry, now);
    }
}

/* ---- writing ---- */

static void written(struct event_recorder *r, struct entry *entry, double now)
{
    write_trouble_over(&r->trouble, now);
    r->figures.posted++;
    entry->created = true;
    entry->wrote_at = now;
    if (entry->record.count > 1 && entry->written == 1)
        enqueue(r, entry); /* the second time came while the first was on its way */
}

static void again(struct event_recorder *r, struct entry *entry)
{
    leave(r, entry);
    entry->state = ENTRY_QUEUED;
    DL_PREPEND(r->queue, entry);
}

static void give_up(struct event_recorder *r, struct entry *entry)
{
    r->figures.failed++;
    entry->refused = true;
}

/* A refusal that says nothing of other events: each reason once. */
static void say_refused(struct event_recorder *r, const char *verb, const struct api_status *status)
{
    char *why = api_status_explain(status, verb, &r->trouble.resource);
    uint64_t print = fingerprint(why);
    bool known = r->said.n >= SAID_LIMIT;
    vec_each (&r->said, said)
        known |= *said == print;
    if (known) {
        log_debug(2, LOG, "one more dropped: %s message=\"%s\"", why, status->message);
    } else {
        log_warn(LOG, "cannot %s events, dropped (said once): %s message=\"%s\"", verb, why,
                 status->message);
        vec_push(&r->said, print);
    }
    free(why);
}

/* The namespace of what the event is about is on its way out, and the event with it. */
static bool is_terminating(const struct api_status *status)
{
    return status->code == 403 && strstr(status->message, "because it is being terminated");
}

static void refused(struct event_recorder *r, struct entry *entry, const struct api_status *status,
                    double now)
{
    const char *verb = entry->created ? "patch" : "create";
    if (status->code == 409 && status->exists) { /* from another node, or sent twice */
        written(r, entry, now);
    } else if (status->code == 404 && entry->created) { /* the server has forgotten it by now */
        entry->created = false;
        again(r, entry);
    } else if (is_terminating(status)) {
        give_up(r, entry);
    } else if (!write_concerns_all(status)) {
        say_refused(r, verb, status);
        give_up(r, entry);
    } else {
        r->blocked_until = now + write_trouble_wait(&r->trouble, verb, status, now);
        entry->tries += status->code != 429; /* which is not about this one */
        if (entry->tries < TRIES)
            again(r, entry);
        else
            give_up(r, entry);
    }
}

/* The write of the one entry is over. */
static void finish(struct event_recorder *r, const struct api_status *status)
{
    struct entry *entry = r->writing;
    double now = clock_monotonic();
    r->writing = NULL;
    r->request = NULL;
    rest(r, entry);
    if (status->code == 200 || status->code == 201)
        written(r, entry, now);
    else
        refused(r, entry, status, now);
    pump(r);
}

static void on_done(void *ctx, const struct api_result *result, const char *body)
{
    struct api_status status;
    write_status(result, body, &status);
    finish(ctx, &status);
    api_status_clear(&status);
}

static const struct api_request_ops ops = {.done = on_done};

static struct api_request *send(struct event_recorder *r, struct entry *entry, struct error *err)
{
    bool patch = entry->created;
    char *path = event_path(&entry->record, patch);
    char *body =
        patch ? event_series_patch(&entry->record) : event_body(&entry->record, r->instance);
    const struct api_write write = {
        .method = patch ? "PATCH" : "POST",
        .content_type = patch ? "application/strategic-merge-patch+json" : "application/json",
        .body = body,
    };
    struct api_request *request = apiserver_send(r->apiserver, path, &write, TIMEOUT, &ops, r, err);
    free(path);
    free(body);
    return request;
}

static void begin(struct event_recorder *r, struct entry *entry)
{
    struct error err = {0};
    leave(r, entry);
    entry->state = ENTRY_WRITING;
    entry->written = entry->record.count;
    r->writing = entry;
    token_bucket_take(&r->bucket, clock_monotonic());
    r->request = send(r, entry, &err);
    if (!r->request) { /* no credentials: those who read say so */
        struct api_status status = {.message = err.text, .retry_after = -1};
        finish(r, &status);
    }
    error_clear(&err);
}

/* ---- time ---- */

/* The first one that may go now, else NULL, and in @next when one may. */
static struct entry *find_due(const struct event_recorder *r, double now, double *next)
{
    struct entry *entry;
    DL_FOREACH(r->queue, entry)
    {
        if (entry->not_before <= now)
            return entry;
        *next = fmin(*next, entry->not_before);
    }
    return NULL;
}

/* Begins the next write if it is time, else lets the timer wait for it. */
static void pump(struct event_recorder *r)
{
    double now = clock_monotonic(), next = INFINITY;
    sweep(r, now);
    struct entry *due = r->writing ? NULL : find_due(r, now, &next);
    double ready = fmax(r->blocked_until, now + token_bucket_wait(&r->bucket, now));
    ev_timer_stop(r->loop, &r->timer);
    if (due && ready <= now) {
        begin(r, due); /* its end comes here again */
        return;
    }
    if (due)
        next = ready;
    if (r->entries)
        next = fmin(next, r->sweep_at);
    if (isinf(next))
        return;
    ev_timer_set(&r->timer, fmax(next - now, 0), 0.);
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
                                          const struct event_recorder_config *config)
{
    static const struct api_resource resource = {"events", "events.k8s.io", "events.k8s.io/v1"};
    struct event_recorder *r = xcalloc(1, sizeof(*r));
    double now = clock_monotonic();
    r->loop = loop;
    r->apiserver = apiserver;
    r->node_name = config->node_name;
    r->instance = xasprintf("kube-proxy-%s", config->host_name);
    r->delay = (double)(fingerprint(r->node_name) % EVERYWHERE_SPREAD) / 1000;
    token_bucket_init(&r->bucket, config->qps, config->burst, now);
    write_trouble_init(&r->trouble, LOG, &resource, now);
    ev_init(&r->timer, on_timer);
    r->timer.data = r;
    return r;
}

void event_recorder_free(struct event_recorder *r)
{
    struct entry *entry, *next;
    if (!r)
        return;
    if (r->request)
        apiserver_cancel(r->request);
    ev_timer_stop(r->loop, &r->timer);
    HASH_ITER(hh, r->entries, entry, next)
    {
        entry_free(r, entry);
    }
    write_trouble_clear(&r->trouble);
    vec_free(&r->said);
    free(r->instance);
    free(r);
}

bool event_recorder_is_settled(const struct event_recorder *r)
{
    double now = clock_monotonic(), next = INFINITY;
    return !r->writing && (now < r->blocked_until || !find_due(r, now, &next));
}

struct event_figures event_recorder_figures(const struct event_recorder *r)
{
    return r->figures;
}
