/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * All of one collection and then its changes, for ever (docs/behaviour.md 10.2). Three requests, of
 * which one is open at most, and the states that it goes through:
 *
 *     stream  CONNECTING --200--> STREAMING --end mark--> WATCHING, in the same answer
 *     list    CONNECTING --200--> LISTING --each page--> CONNECTING ... --last--> the watch
 *     watch   CONNECTING --200--> WATCHING --ended, cut--> the watch, from the last version seen
 *
 * What is not answered, refused, cut or garbage leads here (at once, or through BACKING_OFF):
 *
 *     stream  the list, if the server answers but does not stream; else the stream
 *     list    the stream
 *     watch   the watch; the stream, if the server says that it cannot go on from that version
 *
 * Owns at most one request, one timer and what it has read so far; what it knows is with the sink.
 * The sink hears of a stream or list only when it is whole, and of nothing while the server is
 * away. Trouble is said when it changes and when it is over.
 *
 * All bodies are judged in the request's done, never in data: one place decides what comes next.
 */
#include "reflector_parts.h"

#include "kube-nftd/base/alloc.h"
#include "kube-nftd/base/clock.h"
#include "kube-nftd/base/log.h"

#include <math.h>
#include <stdlib.h>

#define LOG "reflector"
/* Some 20 times what any cluster has: a list beyond that is a server gone wrong. */
#define OBJECT_LIMIT ((size_t)1000000)
/* The server ends a watch after this many seconds, random so that clients spread. */
#define WATCH_MIN 300
#define WATCH_MAX 600
/* If it does not, its clock or the connection is broken. */
#define WATCH_GRACE 30.0
/* The headers of a watch come at once, if the server is well. More than a connection may take,
 * since one that cannot be made is worth telling apart. Lists the server gives up itself
 * after 60 s. */
#define ANSWER_TIMEOUT 31.0
#define LIST_ANSWER_TIMEOUT 65.0
/* Nobody may ask us to wait longer. */
#define RETRY_AFTER_MAX 300.0
/* So often in a row a server may say itself when it is to be asked again (as for client-go); then
 * the waits grow. */
#define RETRY_AFTER_TIMES 10

static const char *const purpose_names[] = {"stream", "list", "watch"};
static const char *const state_names[] = {"new",     "connecting", "streaming",
                                          "listing", "watching",   "backing off"};

void reflector_enter(struct reflector *r, enum reflector_state state)
{
    log_debug(2, LOG, "%s: %s (%s), was %s", resource_of(r), state_names[state],
              purpose_names[r->purpose], state_names[r->state]);
    r->state = state;
}

/* A number from 0 to 1. */
static double spread(void)
{
    return (double)arc4random() / UINT32_MAX;
}

void reflector_start_timer(struct reflector *r, double seconds)
{
    ev_timer_stop(r->loop, &r->timer);
    ev_timer_set(&r->timer, seconds, 0.);
    ev_timer_start(r->loop, &r->timer);
}

void reflector_back_off(struct reflector *r, enum purpose next, double retry_after)
{
    double wait = 0;
    if (retry_after > 0) {
        wait = fmin(retry_after, RETRY_AFTER_MAX);
        wait += spread() * fmax(wait / 10, 1);
    }
    if (wait == 0 || ++r->told_to_wait > RETRY_AFTER_TIMES)
        wait = fmax(wait, backoff_next(&r->backoff, clock_monotonic(), spread()));
    r->purpose = next;
    r->relisted = false;
    initial_events_reset(&r->initial);
    list_reader_reset(&r->list);
    reflector_enter(r, STATE_BACKING_OFF);
    log_debug(2, LOG, "%s: next try in %.1f s", resource_of(r), wait);
    reflector_start_timer(r, wait);
}

/* ------------------------------------------------------------------ asking */

/* The path of the request, and in @timeout how long all of it may take. */
static char *prepare(struct reflector *r, double *timeout)
{
    unsigned seconds = WATCH_MIN + arc4random_uniform(WATCH_MAX - WATCH_MIN + 1);
    const char *version = r->version_unusable ? NULL : r->version;
    *timeout = seconds + WATCH_GRACE;
    switch (r->purpose) {
    case STREAM:
        r->received = 0;
        initial_events_reset(&r->initial);
        return collection_stream_path(&r->collection, version, seconds);
    case WATCH:
        return collection_watch_path(&r->collection, r->version, seconds);
    case LIST:
        break;
    }
    *timeout = LIST_ANSWER_TIMEOUT + CONTENTS_TIMEOUT;
    if (!version && !r->version_unusable)
        version = "0";
    version = r->list.token ? NULL : version;
    return collection_list_path(&r->collection, version, r->list_limited, r->list.token);
}

/* ------------------------------------------------------- request and timer */

/* Only now it is known how to read what comes. */
static void begin_body(struct reflector *r, enum encoding encoding)
{
    if (r->purpose == LIST)
        list_reader_begin_page(&r->list, encoding);
    else
        watch_reader_begin(&r->watch, encoding);
    r->figures.encoding = encoding;
    r->figures.has_encoding = true;
}

static void on_opened(void *ctx, enum encoding encoding)
{
    struct reflector *r = ctx;
    r->opened_at = clock_monotonic();
    begin_body(r, encoding);
    if (r->purpose == LIST) {
        reflector_enter(r, STATE_LISTING);
        reflector_start_timer(r, SILENCE_TIMEOUT);
    } else if (r->purpose == STREAM) {
        reflector_enter(r, STATE_STREAMING);
        reflector_start_timer(r, WATCH_PROOF);
    } else {
        r->figures.resumes += !r->listed;
        r->listed = false;
        reflector_begin_watching(r);
    }
}

static int on_data(void *ctx, const char *bytes, size_t length)
{
    struct reflector *r = ctx;
    bool streaming = r->state == STATE_STREAMING && r->proven;
    r->figures.received[r->figures.encoding] += length;
    if (r->purpose == LIST || streaming) {
        double left = r->opened_at + CONTENTS_TIMEOUT - clock_monotonic();
        reflector_start_timer(r, fmax(fmin(left, SILENCE_TIMEOUT), 0));
    }
    if (r->purpose == LIST || r->state == STATE_STREAMING) {
        r->received += length;
        if (r->received > CONTENTS_LIMIT)
            return error_set(&r->broken, "it has more than %zu MiB", CONTENTS_LIMIT >> 20);
    }
    if (r->purpose == LIST)
        return list_reader_feed(&r->list, bytes, length, &r->broken);
    return watch_reader_feed(&r->watch, bytes, length, &r->broken);
}

static void on_refusal(struct reflector *r, const struct api_result *result, const char *body)
{
    struct api_status status;
    api_status_from_body(result->status, body, result->length, &status);
    if (result->retry_after >= 0)
        status.retry_after = result->retry_after;
    reflector_refused(r, &status, false);
    api_status_clear(&status);
}

static void on_error_event(struct reflector *r)
{
    /* The reader's own goes when the next answer begins. */
    struct api_status status = r->watch.status;
    r->watch.status = (struct api_status){0};
    reflector_refused(r, &status, true);
    api_status_clear(&status);
}

static void on_done(void *ctx, const struct api_result *result, const char *body)
{
    struct reflector *r = ctx;
    r->request = NULL;
    ev_timer_stop(r->loop, &r->timer);
    if (r->purpose != LIST && r->watch.refused)
        on_error_event(r);
    else if (r->broken.text)
        reflector_unreadable(r);
    else if (result->status == 0)
        reflector_failed(r, result->transport ? result->transport : "no answer");
    else if (result->status != 200)
        on_refusal(r, result, body);
    else
        reflector_ended(r, result->transport);
}

/* The server takes too long. */
static void give_up(struct reflector *r)
{
    apiserver_cancel(r->request);
    r->request = NULL;
    reflector_stalled(r, r->state == STATE_CONNECTING ? "no answer in time" : "the answer stalled");
}

static void on_timer(struct ev_loop *loop, struct ev_timer *timer, int events)
{
    struct reflector *r = timer->data;
    (void)loop;
    (void)events;
    if (r->state == STATE_BACKING_OFF)
        reflector_ask(r, r->purpose);
    else if (r->state == STATE_WATCHING || (r->state == STATE_STREAMING && !r->proven))
        reflector_prove(r);
    else
        give_up(r);
}

static const struct api_request_ops ops = {.opened = on_opened, .data = on_data, .done = on_done};

void reflector_ask(struct reflector *r, enum purpose purpose)
{
    struct error err = {0};
    double timeout;
    r->purpose = purpose;
    r->proven = false;
    r->watch.refused = false;
    error_clear(&r->broken);
    if (purpose != LIST || !r->list.token) /* the pages of a list are one answer */
        bad_objects_begin(&r->bad);
    reflector_enter(r, STATE_CONNECTING);
    char *path = prepare(r, &timeout);
    r->request = apiserver_get(r->apiserver, path, timeout, &ops, r, &err);
    free(path);
    if (r->request)
        reflector_start_timer(r, purpose == LIST ? LIST_ANSWER_TIMEOUT : ANSWER_TIMEOUT);
    else
        reflector_failed(r, err.text);
    error_clear(&err);
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
    r->list = (struct list_reader){.kind = kind, .limit = OBJECT_LIMIT, .bad = &r->bad};
    r->initial = (struct initial_events){.limit = OBJECT_LIMIT};
    r->watch = (struct watch_reader){.kind = kind, .take = reflector_take_event, .ctx = r};
    backoff_init(&r->backoff, clock_monotonic());
    ev_init(&r->timer, on_timer);
    /* Behind what has come meanwhile: after a long pause of our own, the server is not the one that
     * was slow. */
    ev_set_priority(&r->timer, EV_MINPRI);
    r->timer.data = r;
    reflector_ask(r, STREAM);
    return r;
}

void reflector_set_events(struct reflector *r, const struct event_sink *events)
{
    r->bad.events = events;
}

void reflector_free(struct reflector *r)
{
    if (!r)
        return;
    if (r->request)
        apiserver_cancel(r->request);
    ev_timer_stop(r->loop, &r->timer);
    list_reader_reset(&r->list);
    initial_events_reset(&r->initial);
    watch_reader_clear(&r->watch);
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

void reflector_figures(const struct reflector *r, struct reflector_figures *out)
{
    *out = r->figures;
    out->bad_objects = r->bad.total;
    out->resource = resource_of(r);
    out->state = state_names[r->state];
    out->trouble = r->trouble.said;
}
