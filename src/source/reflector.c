/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Reads one collection and then follows its changes, forever (docs/behaviour.md 10.2). At most one
 * of four requests is open; they pass through these states:
 *
 *     stream  CONNECTING --200--> STREAMING --end mark--> WATCHING, in the same answer
 *     list    CONNECTING --200--> LISTING --each page--> CONNECTING ... --last--> the watch
 *     watch   CONNECTING --200--> WATCHING --ended by time--> the watch, from the last version seen
 *                                          --ended, cut--> the check
 *     check   CONNECTING --200--> LISTING --has our version--> the watch
 *                                         --has not--> the stream, without a version
 *
 * A watch from a version that the server does not have is silent, not an error. That is so after
 * its store was restored from a backup or emptied, and at another server that has not come as far.
 * So wherever that may have happened the server's own version is compared with ours before a watch
 * goes on: after every end but that by its time, and if a watch then brings nothing new.
 *
 * What follows in all other cases is decided in next_request.c.
 *
 * Owns at most one request, one timer and the contents read so far; all objects are with the sink.
 * The sink gets a stream or list only when complete, and nothing while the server is away. Errors
 * are logged when they change and when they end.
 *
 * Bodies are judged in the request's done, never in data.
 */
#include "reflector_state.h"

#include "kube-nftd/base.h"
#include "next_request.h"

#include <math.h>
#include <stdlib.h>

/* Of an answer to a check: more is a server error. */
#define CHECK_OBJECTS 10
/* The server ends a watch after this many seconds, random so that clients spread. */
#define WATCH_MIN 300
#define WATCH_MAX 600
/* Otherwise its clock or the connection is broken. */
#define WATCH_GRACE 30.0
/* A watch whose version is not confirmed is given up after so many seconds without a later one. The
 * server sends a bookmark each minute. */
#define CONFIRM_WITHIN 90.0
/* A healthy server sends the headers of a watch at once. Longer than the connect timeout, so that a
 * failed connection is reported as such. The server itself aborts lists after 60 s. */
#define ANSWER_TIMEOUT 31.0
#define LIST_ANSWER_TIMEOUT 65.0
/* Seconds between two bytes of a page or of initial events, and for all of them. */
#define SILENCE_TIMEOUT 60.0
#define CONTENTS_TIMEOUT 300.0
/* Events reported per answer: a server may send a million bad objects. */
#define REPORTED_LIMIT 100

static const char *const purpose_names[] = {"stream", "list", "watch", "check"};
static const char *const state_names[] = {"new",     "connecting", "streaming",
                                          "listing", "watching",   "backing off"};

/* Whether the open request is answered by a list. */
static bool is_listing(const struct reflector *r)
{
    return r->purpose == LIST || r->purpose == CHECK;
}

/* The only place that changes the state. */
static void enter(struct reflector *r, enum reflector_state state)
{
    log_debug(2, "source", "%s: %s (%s), was %s", reflector_resource(r), state_names[state],
              purpose_names[r->purpose], state_names[r->state]);
    r->state = state;
}

static void start_timer(struct reflector *r, double seconds)
{
    ev_timer_stop(r->loop, &r->timer);
    ev_timer_set(&r->timer, seconds, 0.);
    ev_timer_start(r->loop, &r->timer);
}

/* ---- steps ---- */

/* The watch or stream works. For a watch, this ends an error logged before. */
static void prove(struct reflector *r)
{
    if (r->attempt.proven)
        return;
    r->attempt.proven = true;
    r->retry_afters = 0;
    if (r->state == STATE_STREAMING) {
        start_timer(r, SILENCE_TIMEOUT);
        return;
    }
    if (r->trust == VERSION_CONFIRMED)
        ev_timer_stop(r->loop, &r->timer);
    else
        start_timer(r, CONFIRM_WITHIN);
    backoff_reset(&r->retry.backoff, clock_monotonic());
    if (retry_clear(&r->retry))
        log_info("source", "watching again resource=%s", reflector_resource(r));
}

/* A watch was opened, or the initial events are complete. */
static void begin_watching(struct reflector *r)
{
    r->attempt.proven = false;
    r->attempt.opened_at = clock_monotonic();
    enter(r, STATE_WATCHING);
    start_timer(r, WATCH_PROOF);
}

/* Passes the complete contents as of @version, which is taken, to the sink. */
static void take_contents(struct reflector *r, char **version)
{
    if (r->stats.lists++ == 0)
        log_info("source", "listed resource=%s objects=%zu encoding=%s", reflector_resource(r),
                 r->contents.objects.n, r->stats.encoding);
    free(r->version);
    r->version = *version;
    *version = NULL;
    r->trust = VERSION_CONFIRMED;
    r->restreamed = false;
    r->stats.answered = true;
    contents_pass_on(&r->contents, r->collection.kind, r->sink);
}

/* ---- events ---- */

/* Only the version of the end mark is kept: those of initial events are unordered. After the mark,
 * the same answer continues as the watch. */
static int take_initial_event(struct reflector *r, struct watch_event *event, struct error *err)
{
    prove(r);
    if (event->type != WATCH_BOOKMARK)
        return contents_add(&r->contents, &event->object, event->type == WATCH_REMOVE, err);
    if (!event->initial_end)
        return 0;
    if (!event->version)
        return error_set(err, "the end of the initial events has no resourceVersion");
    take_contents(r, &event->version);
    r->purpose = WATCH;
    begin_watching(r);
    return 0;
}

/* Takes the version of an event. */
static void move_on(struct reflector *r, char **version)
{
    if (r->trust != VERSION_CONFIRMED && strcmp(*version, r->version) != 0) {
        r->trust = VERSION_CONFIRMED;
        if (r->attempt.proven)
            ev_timer_stop(r->loop, &r->timer);
    }
    free(r->version);
    r->version = *version;
    *version = NULL;
}

static int take_change(struct reflector *r, struct watch_event *event)
{
    struct object *object = &event->object;
    if (event->version && server_is_rewound(r, event->version)) {
        r->attempt.rewound = true;
        return -1;
    }
    if (event->type != WATCH_BOOKMARK)
        r->stats.events++;
    if (event->type == WATCH_REMOVE)
        r->sink->remove(r->sink->ctx, object->kind, object->id);
    else if (object->id)
        r->sink->put(r->sink->ctx, object);
    if (event->version)
        move_on(r, &event->version);
    prove(r);
    return 0;
}

/* A bad object affects only itself. All nodes get the same one. */
static void report_bad(struct reflector *r, const struct watch_event *event)
{
    static const struct uid unknown;
    const struct object *object = &event->object;
    const struct object_event report = {
        .kind = object->kind,
        .id = object->id,
        .uid = object->uid ? *object->uid : unknown,
        .type = EVENT_WARNING,
        .reason = "InvalidObject",
        .action = "Read",
        .note = event->problem.text,
        .everywhere = true,
    };
    r->stats.bad_objects++;
    log_warn("source", "bad object: %s", event->problem.text);
    if (r->bad_reported++ < REPORTED_LIMIT && object->id)
        event_report(r->events, &report);
}

/* A watch_event_fn. */
static int take_event(void *ctx, struct watch_event *event, struct error *err)
{
    struct reflector *r = ctx;
    if (r->purpose == CHECK) /* only the version of the list counts */
        return ++r->contents.count <= CHECK_OBJECTS
                   ? 0
                   : error_set(err, "more than %d objects instead of one", CHECK_OBJECTS);
    if (event->type == WATCH_BAD)
        report_bad(r, event);
    if (r->purpose == LIST)
        return contents_add(&r->contents, &event->object, false, err);
    if (r->state == STATE_STREAMING)
        return take_initial_event(r, event, err);
    return take_change(r, event);
}

/* ---- answers ---- */

static void on_opened(void *ctx, enum encoding encoding)
{
    struct reflector *r = ctx;
    struct attempt *attempt = &r->attempt;
    attempt->opened_at = clock_monotonic();
    attempt->full_time = attempt->opened_at + attempt->watch_seconds;
    attempt->encoding = encoding;
    r->stats.encoding = encoding_name(encoding);
    object_reader_begin(&r->reader, encoding, is_listing(r));
    if (is_listing(r)) {
        enter(r, STATE_LISTING);
        start_timer(r, SILENCE_TIMEOUT);
    } else if (r->purpose == STREAM) {
        enter(r, STATE_STREAMING);
        start_timer(r, WATCH_PROOF);
    } else {
        r->stats.resumes += !r->listed;
        r->listed = false;
        begin_watching(r);
    }
}

static int on_data(void *ctx, const char *bytes, size_t length)
{
    struct reflector *r = ctx;
    struct attempt *attempt = &r->attempt;
    bool streaming = r->state == STATE_STREAMING && attempt->proven;
    r->stats.received[attempt->encoding] += length;
    if (is_listing(r) || streaming) {
        double left = attempt->opened_at + CONTENTS_TIMEOUT - clock_monotonic();
        start_timer(r, fmax(fmin(left, SILENCE_TIMEOUT), 0));
    }
    if ((is_listing(r) || r->state == STATE_STREAMING) &&
        contents_receive(&r->contents, length, &attempt->broken))
        return -1;
    if (object_reader_feed(&r->reader, bytes, length, &attempt->broken) < 0)
        return -1;
    return r->state == STATE_STREAMING;
}

/* How the request ended. Takes an ERROR event, which the next answer would clear, into @event. */
static struct ending judge(struct reflector *r, const struct api_status *status,
                           struct api_status *event)
{
    const struct attempt *attempt = &r->attempt;
    if (attempt->rewound)
        return (struct ending){.how = REWOUND, .why = "the server's history went back"};
    if (!is_listing(r) && r->reader.rejected) {
        *event = r->reader.status;
        r->reader.status = (struct api_status){0};
        return (struct ending){.how = REJECTED, .status = event, .in_event = true};
    }
    if (attempt->broken.text)
        return (struct ending){.how = UNREADABLE, .why = attempt->broken.text};
    if (status->code == 0)
        return (struct ending){.how = UNANSWERED,
                               .why = status->transport ? status->transport : "no answer"};
    if (status->code != 200)
        return (struct ending){.how = REJECTED, .status = status};
    if (status->transport)
        return (struct ending){.how = CUT, .why = status->transport};
    if (r->purpose == STREAM)
        return (struct ending){.how = CUT, .why = "it ended before all objects were sent"};
    return (struct ending){.how = COMPLETE};
}

static void go_on(struct reflector *r, struct next next);

static void on_done(void *ctx, const struct api_status *status)
{
    struct reflector *r = ctx;
    struct api_status event = {0};
    r->attempt.request = NULL;
    ev_timer_stop(r->loop, &r->timer);
    if (is_listing(r) && status->code == 200 && !status->transport)
        object_reader_end_page(&r->reader, &r->attempt.broken);
    struct ending ending = judge(r, status, &event);
    ending.wait = status->wait;
    ending.starting = status->starting;
    if (r->purpose == LIST && ending.how == COMPLETE && !r->reader.token) {
        take_contents(r, &r->reader.version);
        r->listed = true;
    }
    go_on(r, next_request(r, &ending));
    api_status_clear(&event);
}

/* ---- requests and timeouts ---- */

/* Returns the path of the request, and its total timeout in @timeout. */
static char *prepare(struct reflector *r, double *timeout)
{
    const unsigned seconds = WATCH_MIN + arc4random_uniform(WATCH_MAX - WATCH_MIN + 1);
    const char *version = r->trust == VERSION_REJECTED ? NULL : r->version;
    const char *token = r->reader.token;
    r->attempt.watch_seconds = seconds;
    *timeout = seconds + WATCH_GRACE;
    if (!is_listing(r))
        return collection_watch_path(&r->collection, version, seconds, r->purpose == STREAM);
    *timeout = LIST_ANSWER_TIMEOUT;
    if (r->purpose == CHECK)
        return collection_version_path(&r->collection);
    *timeout += CONTENTS_TIMEOUT;
    if (!r->version && r->trust != VERSION_REJECTED)
        version = "0";
    /* A limit with a version other than 0 would request exactly that version. */
    return collection_list_path(&r->collection, token ? NULL : version, !r->version, token);
}

/* Forgets what came of another one. */
static void begin_answer(struct reflector *r)
{
    contents_clear(&r->contents);
    object_reader_reset(&r->reader);
    r->bad_reported = 0;
}

/* Sends the request for @purpose; for a list, that of its next page. */
static bool send_request(struct reflector *r, enum purpose purpose, struct error *err)
{
    static const struct api_request_ops ops = {on_opened, on_data, on_done};
    double timeout;
    error_clear(&r->attempt.broken);
    r->attempt = (struct attempt){.request = NULL};
    r->purpose = purpose;
    if (purpose != LIST || !r->reader.token)
        begin_answer(r);
    enter(r, STATE_CONNECTING);
    char *path = prepare(r, &timeout);
    r->attempt.request = apiserver_send(r->apiserver, path, NULL, timeout, &ops, r, err);
    free(path);
    if (!r->attempt.request)
        return false;
    start_timer(r, is_listing(r) ? LIST_ANSWER_TIMEOUT : ANSWER_TIMEOUT);
    return true;
}

static void back_off(struct reflector *r, struct next next)
{
    r->purpose = next.purpose;
    begin_answer(r);
    enter(r, STATE_BACKING_OFF);
    log_debug(2, "source", "%s: next try in %.1f s", reflector_resource(r), next.wait);
    start_timer(r, next.wait);
}

/* Sends the request for @next, at once or later. One that cannot be sent is one without answer. */
static void go_on(struct reflector *r, struct next next)
{
    struct error err = {0};
    while (next.wait <= 0 && !send_request(r, next.purpose, &err)) {
        next = next_request(r, &(struct ending){.how = UNANSWERED, .why = err.text});
        error_clear(&err);
    }
    if (next.wait > 0)
        back_off(r, next);
}

/* The open request has had its time. What follows? */
static struct next give_up(struct reflector *r)
{
    const char *why = r->state == STATE_CONNECTING ? "no answer in time" : "the answer stalled";
    apiserver_cancel(r->attempt.request);
    r->attempt.request = NULL;
    if (r->state == STATE_WATCHING) /* nothing confirmed its version */
        return (struct next){.purpose = CHECK};
    return next_request(r, &(struct ending){.how = STALLED, .why = why});
}

static void on_retry(struct ev_loop *loop, struct ev_timer *timer, int events)
{
    struct reflector *r = timer->data;
    (void)loop;
    (void)events;
    if (r->state == STATE_BACKING_OFF)
        go_on(r, (struct next){.purpose = r->purpose});
    else if (!r->attempt.proven && (r->state == STATE_WATCHING || r->state == STATE_STREAMING))
        prove(r);
    else
        go_on(r, give_up(r));
}

/* ---- public ---- */

struct reflector *reflector_start(struct ev_loop *loop, struct apiserver *apiserver,
                                  enum object_kind kind, const char *node_name,
                                  const struct object_sink *sink, const struct event_sink *events)
{
    struct reflector *r = xcalloc(1, sizeof(*r));
    r->loop = loop;
    r->apiserver = apiserver;
    r->sink = sink;
    r->events = events;
    r->collection.kind = kind;
    r->collection.node_name = kind == KIND_NODE ? xstrdup(node_name) : NULL;
    r->contents.limit = CONTENTS_OBJECTS;
    r->reader = (struct object_reader){.kind = kind, .take = take_event, .ctx = r};
    retry_init(&r->retry, collection_resource(kind), clock_monotonic());
    backoff_reset(&r->futile, clock_monotonic());
    ev_init(&r->timer, on_retry);
    /* Runs after pending input: after a pause of the daemon, the server was not the slow one. */
    ev_set_priority(&r->timer, EV_MINPRI);
    r->timer.data = r;
    go_on(r, (struct next){.purpose = STREAM});
    return r;
}

void reflector_free(struct reflector *r)
{
    if (!r)
        return;
    if (r->attempt.request)
        apiserver_cancel(r->attempt.request);
    ev_timer_stop(r->loop, &r->timer);
    begin_answer(r);
    error_clear(&r->attempt.broken);
    free(r->collection.node_name);
    free(r->version);
    retry_clear(&r->retry);
    free(r);
}

struct reflector_stats reflector_stats(const struct reflector *r)
{
    struct reflector_stats stats = {0};
    if (r) {
        stats = r->stats;
        stats.resource = reflector_resource(r);
        stats.state = state_names[r->state];
        stats.error = r->retry.logged;
        stats.error_age = stats.error ? clock_monotonic() - r->retry.failed_at : 0;
        if (r->state == STATE_BACKING_OFF)
            stats.next_try = ev_timer_remaining(r->loop, (struct ev_timer *)&r->timer);
    }
    return stats;
}
