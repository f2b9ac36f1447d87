/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * List and watch of one collection, for ever (spec 10.2).
 *
 *     LISTING --whole list--> WATCHING --ended, cut--> WATCHING (from the last version seen)
 *        ^                       |
 *        |                       | version too old: at once, the first time
 *        +-----------------------+
 *     both --refused, no answer, garbage--> BACKOFF --time--> the one or the other
 *
 * Owns at most one request, one timer and what it has read so far of a list; what it knows is
 * with the sink. The sink hears of a list only when all its pages are here, and of nothing while
 * the server is away. Trouble is said when it changes and when it is over.
 *
 * All bodies are judged in the request's done, never in data: one place decides what comes next.
 */
#include "kube-nftd/source/reflector.h"

#include "kube-nftd/base/alloc.h"
#include "kube-nftd/base/clock.h"
#include "kube-nftd/base/log.h"
#include "kube-nftd/source/backoff.h"
#include "kube-nftd/source/collection.h"
#include "kube-nftd/source/json_cutter.h"
#include "kube-nftd/source/list_reader.h"
#include "kube-nftd/source/trouble.h"
#include "kube-nftd/source/watch_event.h"

#include <ev.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define LOG "reflector"
#define EVENT_LIMIT ((size_t)16 * 1024 * 1024)
#define LIST_TIMEOUT 300.0
/* The server ends a watch after this many seconds, random so that clients spread. */
#define WATCH_MIN 300
#define WATCH_MAX 600
/* If it does not, its clock or the connection is broken. */
#define WATCH_GRACE 30.0
/* A watch that stays open so long without an event was worth opening. */
#define WATCH_PROOF 1.0
/* Nobody may ask us to wait longer. */
#define RETRY_AFTER_MAX 300.0

enum reflector_state { STATE_NEW, STATE_LISTING, STATE_WATCHING, STATE_BACKOFF };

static const char *const state_names[] = {"new", "listing", "watching", "backing off"};

struct reflector {
    struct ev_loop *loop;
    struct apiserver *apiserver;
    const struct object_sink *sink;
    struct collection collection;

    enum reflector_state state;
    enum reflector_state resume; /* where BACKOFF leads */
    struct api_request *request;
    struct ev_timer timer; /* BACKOFF: its end; WATCHING: the proof */
    struct backoff backoff;

    char *version; /* of the last list or event; NULL before the first list */
    /* The server refused that version: lists ask for the newest state until one succeeds. */
    bool version_unusable;
    bool answered; /* by a list, or by 403 or 404 */
    bool relisted; /* a watch was refused as too old, and no watch has been proven since */
    bool list_limited;
    struct list_reader list;

    struct json_cutter *cutter; /* of the watch */
    bool proven;                /* the watch has lived for a while or brought something */
    bool has_status;            /* the watch ended with an ERROR event */
    struct api_status status;
    size_t bad_objects; /* of watches */

    struct error broken; /* why the body that is coming was given up */
    struct trouble trouble;
};

static void list_begin(struct reflector *r);
static void list_page(struct reflector *r);
static void watch_begin(struct reflector *r);

static const char *resource_of(const struct reflector *r)
{
    return collection_resource(&r->collection);
}

/* The only place that changes the state. */
static void reflector_enter(struct reflector *r, enum reflector_state state)
{
    log_debug(2, LOG, "%s: %s, was %s", resource_of(r), state_names[state], state_names[r->state]);
    r->state = state;
}

/* A number from 0 to 1. */
static double spread(void)
{
    return (double)arc4random() / UINT32_MAX;
}

/* Says what keeps us from @state. */
static void say_trouble(struct reflector *r, enum reflector_state state, const char *what,
                        const char *detail)
{
    trouble_say(&r->trouble, state == STATE_LISTING ? "list" : "watch", resource_of(r), what,
                detail);
}

/* The watch is worth its name: whatever was said before is over. */
static void watch_proven(struct reflector *r)
{
    if (r->proven)
        return;
    r->proven = true;
    r->relisted = false;
    ev_timer_stop(r->loop, &r->timer);
    if (trouble_over(&r->trouble))
        log_info(LOG, "watching again resource=%s", resource_of(r));
}

/* Waits before it goes to @resume: @retry_after seconds if the server asked for that, else (it is 0
 * or less) as long as it is due. */
static void back_off(struct reflector *r, enum reflector_state resume, double retry_after)
{
    double wait;
    if (retry_after > 0)
        wait = fmin(retry_after, RETRY_AFTER_MAX) + spread();
    else
        wait = backoff_next(&r->backoff, clock_monotonic(), spread());
    r->resume = resume;
    reflector_enter(r, STATE_BACKOFF);
    log_debug(2, LOG, "%s: next try in %.1f s", resource_of(r), wait);
    ev_timer_set(&r->timer, wait, 0.);
    ev_timer_start(r->loop, &r->timer);
}

static void on_timer(struct ev_loop *loop, struct ev_timer *timer, int events)
{
    struct reflector *r = timer->data;
    (void)loop;
    (void)events;
    if (r->state == STATE_WATCHING)
        watch_proven(r);
    else if (r->resume == STATE_WATCHING)
        watch_begin(r);
    else
        list_begin(r);
}

/* Gets @path, which it takes, in the state that it was made for. */
static void get(struct reflector *r, char *path, double timeout, const struct api_request_ops *ops)
{
    struct error err = {0};
    error_clear(&r->broken);
    r->request = apiserver_get(r->apiserver, path, timeout, ops, r, &err);
    free(path);
    if (r->request)
        return;
    say_trouble(r, r->state, err.text, "");
    error_clear(&err);
    back_off(r, r->state, -1);
}

/* What an answer other than 200, or none, says. The caller clears @status. */
static void read_refusal(const struct api_result *result, const char *body,
                         struct api_status *status)
{
    api_status_from_body(result->status, body, status);
    if (result->retry_after >= 0)
        status->retry_after = result->retry_after;
}

/* ------------------------------------------------------------------ lists */

static int list_data(void *ctx, const char *bytes, size_t length)
{
    struct reflector *r = ctx;
    return list_reader_feed(&r->list, bytes, length, &r->broken);
}

static void list_complete(struct reflector *r)
{
    bool first = !r->version;
    free(r->version);
    r->version = r->list.version;
    r->list.version = NULL;
    r->version_unusable = false;
    r->answered = true;
    if (first)
        log_info(LOG, "listed resource=%s objects=%zu", resource_of(r), r->list.objects.n);
    r->sink->replace(r->sink->ctx, r->collection.kind, &r->list.objects);
    list_reader_reset(&r->list);
    watch_begin(r);
}

/* Asks once more at once where that can help: without the version that the server refused, or
 * without pages that it no longer has. */
static bool list_otherwise(struct reflector *r, const struct api_status *status)
{
    if (!status->expired && !status->too_large)
        return false;
    if (r->list.token) {
        if (!r->list_limited)
            return false;
        free(r->version);
        r->version = r->list.version;
        r->list.version = NULL;
    } else {
        if (r->version_unusable)
            return false;
        r->version_unusable = true;
    }
    list_begin(r);
    return true;
}

static void list_refused(struct reflector *r, const struct api_result *result, const char *body)
{
    struct api_status status;
    read_refusal(result, body, &status);
    r->answered = r->answered || status.code == 403 || status.code == 404;
    if (!list_otherwise(r, &status)) {
        trouble_say_refused(&r->trouble, "list", resource_of(r), &status);
        back_off(r, STATE_LISTING, status.retry_after);
    }
    api_status_clear(&status);
}

static void list_done(void *ctx, const struct api_result *result, const char *body)
{
    struct reflector *r = ctx;
    r->request = NULL;
    if (result->status != 200 && result->status != 0) {
        list_refused(r, result, body);
        return;
    }
    if (!r->broken.text && result->transport) {
        say_trouble(r, STATE_LISTING, result->transport, "");
        back_off(r, STATE_LISTING, -1);
    } else if (r->broken.text || list_reader_end_page(&r->list, &r->broken) < 0) {
        say_trouble(r, STATE_LISTING, "the answer cannot be read", r->broken.text);
        back_off(r, STATE_LISTING, -1);
    } else if (r->list.token) {
        list_page(r);
    } else {
        list_complete(r);
    }
}

static const struct api_request_ops list_ops = {.data = list_data, .done = list_done};

/* Asks for the first page, or for the one behind the last. */
static void list_page(struct reflector *r)
{
    const char *version = NULL;
    if (!r->list.token && !r->version_unusable)
        version = r->version ? r->version : "0";
    list_reader_begin_page(&r->list);
    get(r, collection_list_path(&r->collection, version, r->list_limited, r->list.token),
        LIST_TIMEOUT, &list_ops);
}

static void list_begin(struct reflector *r)
{
    reflector_enter(r, STATE_LISTING);
    list_reader_reset(&r->list);
    /* A limit together with a version other than 0 would ask for exactly that version. */
    r->list_limited = !r->version;
    list_page(r);
}

/* ---------------------------------------------------------------- watches */

static void take_event(struct reflector *r, struct watch_event *event)
{
    struct object *object = &event->object;
    if (event->type == WATCH_BAD) {
        log_warn(LOG, "bad object: %s", event->problem.text);
        r->bad_objects++;
    }
    if (event->type == WATCH_REMOVE)
        r->sink->remove(r->sink->ctx, object->kind, object->id);
    else if (object->id)
        r->sink->put(r->sink->ctx, object);
    if (event->version) {
        free(r->version);
        r->version = event->version;
        event->version = NULL;
    }
    watch_proven(r);
}

static bool on_event(void *ctx, const char *text, size_t length, bool is_item)
{
    struct reflector *r = ctx;
    struct watch_event event;
    (void)is_item; /* an event has no items */
    if (watch_event_decode(text, length, r->collection.kind, &event, &r->broken) < 0)
        return false;
    r->has_status = event.type == WATCH_ERROR;
    if (r->has_status) {
        r->status = event.status;
        event.status = (struct api_status){0};
    } else {
        take_event(r, &event);
    }
    watch_event_clear(&event);
    return !r->has_status;
}

static void watch_opened(void *ctx)
{
    struct reflector *r = ctx;
    ev_timer_set(&r->timer, WATCH_PROOF, 0.);
    ev_timer_start(r->loop, &r->timer);
}

static int watch_data(void *ctx, const char *bytes, size_t length)
{
    struct reflector *r = ctx;
    struct error err = {0};
    if (json_cutter_feed(r->cutter, bytes, length, &err) == 0)
        return 0;
    if (!r->broken.text && !r->has_status)
        error_set(&r->broken, "%s", err.text);
    error_clear(&err);
    return -1;
}

/* Whether a watch that was refused so may be tried again as it was; else a list comes first. */
static bool may_watch_again(const struct api_status *status, bool in_event)
{
    if (in_event)
        return status->code == 429;
    return status->code == 401 || status->code == 403 || status->code == 404 ||
           status->code == 429 || status->code >= 500;
}

static void watch_refused(struct reflector *r, const struct api_status *status, bool in_event)
{
    if (status->too_large)
        r->version_unusable = true;
    if ((status->expired || status->too_large) && !r->relisted) {
        r->relisted = true;
        list_begin(r);
        return;
    }
    bool again = !status->expired && !status->too_large && may_watch_again(status, in_event);
    trouble_say_refused(&r->trouble, "watch", resource_of(r), status);
    back_off(r, again ? STATE_WATCHING : STATE_LISTING, status->retry_after);
}

/* There is no answer to judge: no connection, or what came was no watch. */
static void watch_failed(struct reflector *r, const char *why, const char *detail,
                         enum reflector_state resume)
{
    say_trouble(r, STATE_WATCHING, why, detail);
    back_off(r, resume, -1);
}

static void watch_done(void *ctx, const struct api_result *result, const char *body)
{
    struct reflector *r = ctx;
    const char *transport = result->transport ? result->transport : "";
    r->request = NULL;
    ev_timer_stop(r->loop, &r->timer);
    if (r->has_status) {
        watch_refused(r, &r->status, true);
        api_status_clear(&r->status);
    } else if (r->broken.text) {
        watch_failed(r, "an event cannot be read", r->broken.text, STATE_LISTING);
    } else if (result->status == 0) {
        watch_failed(r, transport, "", STATE_WATCHING);
    } else if (result->status != 200) {
        struct api_status status;
        read_refusal(result, body, &status);
        watch_refused(r, &status, false);
        api_status_clear(&status);
    } else if (!r->proven) {
        watch_failed(r, "it ended at once, without an event", transport, STATE_WATCHING);
    } else {
        log_debug(2, LOG, "%s: the watch ended %s", resource_of(r), transport);
        watch_begin(r);
    }
}

static const struct api_request_ops watch_ops = {
    .opened = watch_opened, .data = watch_data, .done = watch_done};

static void watch_begin(struct reflector *r)
{
    unsigned seconds = WATCH_MIN + arc4random_uniform(WATCH_MAX - WATCH_MIN + 1);
    reflector_enter(r, STATE_WATCHING);
    json_cutter_free(r->cutter);
    r->cutter = json_cutter_new(EVENT_LIMIT, on_event, r);
    r->proven = false;
    r->has_status = false;
    get(r, collection_watch_path(&r->collection, r->version, seconds), seconds + WATCH_GRACE,
        &watch_ops);
}

/* ----------------------------------------------------------------- public */

struct reflector *reflector_start(struct ev_loop *loop, struct apiserver *apiserver,
                                  enum object_kind kind, const char *node_name,
                                  const struct object_sink *sink)
{
    struct reflector *r = xcalloc(1, sizeof(*r));
    r->loop = loop;
    r->apiserver = apiserver;
    r->sink = sink;
    r->collection.kind = kind;
    r->collection.node_name = kind == KIND_NODE ? xstrdup(node_name) : NULL;
    r->list.kind = kind;
    backoff_init(&r->backoff, clock_monotonic());
    ev_init(&r->timer, on_timer);
    r->timer.data = r;
    list_begin(r);
    return r;
}

void reflector_free(struct reflector *r)
{
    if (!r)
        return;
    if (r->request)
        apiserver_cancel(r->request);
    ev_timer_stop(r->loop, &r->timer);
    list_reader_reset(&r->list);
    json_cutter_free(r->cutter);
    api_status_clear(&r->status);
    error_clear(&r->broken);
    free(r->collection.node_name);
    free(r->version);
    trouble_over(&r->trouble);
    free(r);
}

bool reflector_has_answer(const struct reflector *r)
{
    return r->answered;
}

size_t reflector_bad_objects(const struct reflector *r)
{
    return r->bad_objects + r->list.bad_objects;
}
