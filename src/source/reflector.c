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
 * After a missing answer, a rejection, a cut or garbage, the next request (at once, or after
 * BACKING_OFF) is:
 *
 *     stream  the list, if the server answers but does not stream; else the stream
 *     list    the stream
 *     watch,  the check; the stream, if the server cannot continue from our version
 *     check
 *
 * Owns at most one request, one timer and the contents read so far; all objects are with the sink.
 * The sink gets a stream or list only when complete, and nothing while the server is away. Errors
 * are logged when they change and when they end.
 *
 * Bodies are judged in the request's done, never in data: one place decides what comes next.
 */
#include "reflector_state.h"

#include "kube-nftd/base.h"
#include "server_backoff.h"

#include <math.h>
#include <stdlib.h>

/* About 20 times the largest clusters: more is a server error. */
#define OBJECT_LIMIT ((size_t)1000000)
/* Of an answer to a check: more is a server error. */
#define CHECK_OBJECTS 10
/* The server ends a watch after this many seconds, random so that clients spread. */
#define WATCH_MIN 300
#define WATCH_MAX 600
/* Otherwise its clock or the connection is broken. */
#define WATCH_GRACE 30.0
/* The server may end a watch so many seconds before its time, by another clock. */
#define WATCH_EARLY 1.0
/* A watch whose version is not confirmed is given up after so many seconds without a later one. The
 * server sends a bookmark each minute. */
#define CONFIRM_WITHIN 90.0
/* A healthy server sends the headers of a watch at once. Longer than the connect timeout, so that a
 * failed connection is reported as such. The server itself aborts lists after 60 s. */
#define ANSWER_TIMEOUT 31.0
#define LIST_ANSWER_TIMEOUT 65.0
/* So many times in a row a server may set the wait itself (as in client-go); then waits grow. */
#define RETRY_AFTER_TIMES 10
/* So many watches in a row may end before WATCH_PROOF. */
#define SHORT_WATCHES_LIMIT 10
/* After this many misses, an optional API is requested at this interval in seconds. */
#define ABSENT_TIMES 5
#define ABSENT_SECONDS 300.0
/* A watch of this many seconds allows another relist at once. */
#define WATCH_LONG 60.0
/* A watch open for this many seconds without an event counts as proven. */
#define WATCH_PROOF 1.0
/* Seconds between two bytes of a page or of initial events, and for all of them. */
#define SILENCE_TIMEOUT 60.0
#define CONTENTS_TIMEOUT 300.0
/* Events reported per answer: a server may send a million bad objects. */
#define REPORTED_LIMIT 100

static const char *const purpose_names[] = {"stream", "list", "watch", "check"};
static const char *const state_names[] = {"new",     "connecting", "streaming",
                                          "listing", "watching",   "backing off"};

/* The name for log lines. */
static const char *resource_of(const struct reflector *r)
{
    return r->retry.resource->name;
}

/* Whether the open request is answered by a list. */
static bool is_listing(const struct reflector *r)
{
    return r->purpose == LIST || r->purpose == CHECK;
}

/* The only place that changes the state. */
static void enter(struct reflector *r, enum reflector_state state)
{
    log_debug(2, "source", "%s: %s (%s), was %s", resource_of(r), state_names[state],
              purpose_names[r->purpose], state_names[r->state]);
    r->state = state;
}

static void start_timer(struct reflector *r, double seconds)
{
    ev_timer_stop(r->loop, &r->timer);
    ev_timer_set(&r->timer, seconds, 0.);
    ev_timer_start(r->loop, &r->timer);
}

/* ---- contents ---- */

/* Adds an object or, if @removed, a deletion: takes it and leaves it zeroed. */
static int add_content(struct contents *contents, struct object *object, bool removed,
                       struct error *err)
{
    if (++contents->count > contents->limit)
        return error_set(err, "more than %zu objects", contents->limit);
    if (!object->id) /* a bad one */
        return 0;
    if (removed || contents->changes.n > 0)
        vec_push(&contents->changes, (struct content_change){*object, removed});
    else
        vec_push(&contents->objects, *object);
    *object = (struct object){.kind = object->kind};
    return 0;
}

static void clear_contents(struct contents *contents)
{
    object_vec_clear(&contents->objects);
    vec_each (&contents->changes, change)
        object_clear(&change->object);
    vec_free(&contents->changes);
    contents->count = 0;
}

/* Passes the complete contents as of @version, which is taken, to the sink. */
static void take_contents(struct reflector *r, char **version)
{
    const struct object_sink *sink = r->sink;
    struct contents *contents = &r->contents;
    if (r->stats.lists++ == 0)
        log_info("source", "listed resource=%s objects=%zu encoding=%s", resource_of(r),
                 contents->objects.n, r->stats.encoding);
    free(r->version);
    r->version = *version;
    *version = NULL;
    r->version_unusable = false;
    r->confirmed = true;
    r->restreamed = false;
    r->stats.answered = true;
    sink->replace(sink->ctx, r->collection.kind, &contents->objects);
    vec_each (&contents->changes, change) {
        if (change->removed)
            sink->remove(sink->ctx, r->collection.kind, change->object.id);
        else
            sink->put(sink->ctx, &change->object);
    }
    clear_contents(contents);
}

/* ---- steps ---- */

/* How a request ended. */
struct ending {
    enum {
        COMPLETE,   /* the server ended its answer */
        CUT,        /* the answer ended early */
        REJECTED,   /* by @status */
        UNANSWERED, /* or it could not be sent */
        STALLED,    /* we gave up */
        UNREADABLE, /* we abandoned the answer */
        REWOUND,    /* the server's version is below ours */
    } how;
    const struct api_status *status; /* of REJECTED; else NULL */
    bool in_event;                   /* it came as an ERROR event */
    const char *why;                 /* unless COMPLETE or REJECTED */
    double wait;                     /* as in struct api_status */
    bool starting;
};

/* The seconds to wait after @ending: what all requests wait that got no answer, or what the server
 * requests, else the back-off. */
static double wait_after(struct reflector *r, const struct ending *ending)
{
    double asked = ending->status ? ending->status->retry_after : -1;
    if (ending->wait > 0) { /* what was cut was the outage's, not futile */
        backoff_reset(&r->futile, clock_monotonic());
        return ending->wait;
    }
    asked = asked > 0 ? retry_after_wait(asked) : 0;
    if (asked > 0 && ++r->retry_afters <= RETRY_AFTER_TIMES)
        return asked;
    if (ending->starting && ending->status && !ending->in_event)
        return fmax(asked, server_backoff_short(retry_spread()));
    /* That an answer begins is no success yet. */
    struct backoff *backoff = r->state == STATE_CONNECTING ? &r->retry.backoff : &r->futile;
    return fmax(asked, backoff_next(backoff, clock_monotonic(), retry_spread()));
}

/* Waits before the request for @next. */
static void back_off(struct reflector *r, enum purpose next, double wait)
{
    r->purpose = next;
    r->relisted = false;
    clear_contents(&r->contents);
    object_reader_reset(&r->reader);
    enter(r, STATE_BACKING_OFF);
    log_debug(2, "source", "%s: next try in %.1f s", resource_of(r), wait);
    start_timer(r, wait);
}

/* Sends the request for @purpose; for a list, that of its next page. */
static void send_request(struct reflector *r, enum purpose purpose);

/* The watch or stream works. For a watch, this ends an error logged before. */
static void prove(struct reflector *r)
{
    if (r->proven)
        return;
    r->proven = true;
    r->retry_afters = 0;
    if (r->state == STATE_STREAMING) {
        start_timer(r, SILENCE_TIMEOUT);
        return;
    }
    if (r->confirmed)
        ev_timer_stop(r->loop, &r->timer);
    else
        start_timer(r, CONFIRM_WITHIN);
    backoff_reset(&r->retry.backoff, clock_monotonic());
    if (retry_clear(&r->retry))
        log_info("source", "watching again resource=%s", resource_of(r));
}

/* A watch was opened, or the initial events are complete. */
static void begin_watching(struct reflector *r)
{
    r->proven = false;
    r->opened_at = clock_monotonic();
    enter(r, STATE_WATCHING);
    start_timer(r, WATCH_PROOF);
}

/* ---- events ---- */

/* Only the version of the end mark is kept: those of initial events are unordered. After the mark,
 * the same answer continues as the watch. */
static int take_initial_event(struct reflector *r, struct watch_event *event, struct error *err)
{
    prove(r);
    if (event->type != WATCH_BOOKMARK)
        return add_content(&r->contents, &event->object, event->type == WATCH_REMOVE, err);
    if (!event->initial_end)
        return 0;
    if (!event->version)
        return error_set(err, "the end of the initial events has no resourceVersion");
    take_contents(r, &event->version);
    r->purpose = WATCH;
    begin_watching(r);
    return 0;
}

/* Whether the server's history is not the one that our version is of; logs it. */
static bool is_rewound(struct reflector *r, const char *version)
{
    if (version_order(version, r->version) != VERSION_BEFORE)
        return false;
    log_warn("source",
             "the server's history went back: reading everything again resource=%s version=%s "
             "before=%s",
             resource_of(r), version, r->version);
    return true;
}

/* Takes the version of an event. */
static void move_on(struct reflector *r, char **version)
{
    bool was_confirmed = r->confirmed;
    r->confirmed |= strcmp(*version, r->version) != 0;
    free(r->version);
    r->version = *version;
    *version = NULL;
    if (r->confirmed && !was_confirmed && r->proven)
        ev_timer_stop(r->loop, &r->timer);
}

static int take_change(struct reflector *r, struct watch_event *event)
{
    struct object *object = &event->object;
    if (event->version && is_rewound(r, event->version)) {
        r->rewound = true;
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
        return add_content(&r->contents, &event->object, false, err);
    if (r->state == STATE_STREAMING)
        return take_initial_event(r, event, err);
    return take_change(r, event);
}

/* ---- the end of a request and the next one ---- */

static const char *verb_of(const struct reflector *r)
{
    return r->purpose == WATCH ? "watch" : "list";
}

/* Whether the server is only too old for an optional API. */
static bool is_harmless(const struct reflector *r, const struct ending *ending)
{
    return ending->status && ending->status->code == 404 && r->collection.kind == KIND_SERVICECIDR;
}

/* Whether the server has forgotten our resource version, or has not reached it. */
static bool is_version_error(const struct ending *ending)
{
    return ending->how == REWOUND ||
           (ending->status && (ending->status->expired || ending->status->too_large));
}

static void log_ending(struct reflector *r, const struct ending *ending)
{
    if (is_harmless(r, ending))
        retry_log(&r->retry, LOG_LEVEL_INFO,
                  xasprintf("the server has no %s of %s, which Kubernetes has since 1.33: traffic "
                            "to unallocated cluster IPs is not dropped",
                            r->retry.resource->plural, r->retry.resource->api_version),
                  "");
    else if (ending->status)
        retry_log_rejected(&r->retry, verb_of(r), ending->status);
    else if (ending->how == UNREADABLE)
        retry_log_failed(&r->retry, verb_of(r),
                         r->purpose == WATCH ? "an event cannot be read"
                                             : "the answer cannot be read",
                         ending->why);
    else
        retry_log_failed(&r->retry, verb_of(r), ending->why, "");
}

static void log_and_back_off(struct reflector *r, enum purpose next, const struct ending *ending)
{
    log_ending(r, ending);
    back_off(r, next, wait_after(r, ending));
}

/* Starts a list from its first page. */
static void list_begin(struct reflector *r)
{
    clear_contents(&r->contents);
    object_reader_reset(&r->reader);
    r->received = 0;
    /* A limit with a version other than 0 would request exactly that version. */
    r->list_limited = !r->version;
    send_request(r, LIST);
}

/* Whether a list would end like the stream did. */
static bool concerns_list(const struct reflector *r, const struct ending *ending)
{
    switch (ending->how) {
    case REJECTED:
        return is_version_error(ending) || ending->status->code == 429 ||
               ending->status->retry_after > 0;
    case UNREADABLE: /* it would be as long */
        return r->contents.count > r->contents.limit || r->received > CONTENTS_LIMIT;
    case CUT:
        return r->proven;
    default:
        return ending->how == UNANSWERED;
    }
}

/* The stream ended before its end mark. */
static void after_stream(struct reflector *r, const struct ending *ending)
{
    bool has_version = r->version && !r->version_unusable;
    r->version_unusable |= is_version_error(ending);
    if (has_version && r->version_unusable) {
        send_request(r, STREAM);
    } else if (ending->how == CUT && r->proven && !r->restreamed) {
        r->restreamed = true;
        send_request(r, STREAM);
    } else if (concerns_list(r, ending)) {
        log_and_back_off(r, STREAM, ending);
    } else { /* the list will show the cause, if any */
        log_debug(2, "source", "%s: no streamed list: %s", resource_of(r),
                  ending->status ? ending->status->message : ending->why);
        list_begin(r);
    }
}

/* Retries at once if that can help: without the version that the server rejected, or without pages
 * that have expired. */
static bool list_otherwise(struct reflector *r, const struct ending *ending)
{
    bool later_page = r->reader.token;
    bool can_help = later_page ? r->list_limited : !r->version_unusable;
    if (!can_help || !is_version_error(ending))
        return false;
    if (later_page) {
        free(r->version);
        r->version = r->reader.version;
        r->reader.version = NULL;
    } else {
        r->version_unusable = true;
    }
    list_begin(r);
    return true;
}

static void after_list(struct reflector *r, const struct ending *ending)
{
    long code = ending->status ? ending->status->code : 0;
    r->stats.answered |= code == 403 || code == 404;
    if (ending->how == COMPLETE && r->reader.token) {
        send_request(r, LIST);
    } else if (ending->how == COMPLETE) {
        take_contents(r, &r->reader.version);
        object_reader_reset(&r->reader);
        r->listed = true;
        send_request(r, WATCH);
    } else if (!list_otherwise(r, ending)) {
        /* The server may not understand the version. */
        r->version_unusable |= code == 400 || code == 422;
        if (is_harmless(r, ending) && ++r->absent > ABSENT_TIMES) {
            log_ending(r, ending);
            back_off(r, STREAM, retry_after_wait(ABSENT_SECONDS));
        } else {
            log_and_back_off(r, STREAM, ending);
        }
    }
}

/* Whether a watch that ended like this may be retried unchanged. */
static bool may_watch_again(const struct ending *ending)
{
    long code = ending->status ? ending->status->code : 0;
    if (is_version_error(ending))
        return false;
    if (!ending->status)
        return ending->how != UNREADABLE;
    if (ending->in_event)
        return code == 429;
    return code == 401 || code == 403 || code == 404 || code == 429 || code >= 500;
}

/* The watch cannot go on, or the check has no answer. */
static void without_watch(struct reflector *r, const struct ending *ending)
{
    r->version_unusable |= ending->how == REWOUND || (ending->status && ending->status->too_large);
    if (is_version_error(ending) && !r->relisted) {
        r->relisted = true;
        send_request(r, STREAM);
    } else {
        log_and_back_off(r, may_watch_again(ending) ? CHECK : STREAM, ending);
    }
}

/* The end that tells nothing of the server: its next answer will be by the same history, if nothing
 * else happens at the same time. The next watch must confirm that. */
static bool ended_by_time(struct reflector *r, const struct ending *ending)
{
    bool by_time = ending->how == COMPLETE && clock_monotonic() >= r->full_time - WATCH_EARLY;
    r->confirmed &= !by_time;
    return by_time;
}

static void after_watch(struct reflector *r, const struct ending *ending)
{
    double lasted = clock_monotonic() - r->opened_at;
    if (r->proven && lasted >= WATCH_LONG) /* contents may be requested at once again */
        r->relisted = false;
    if (ending->how == COMPLETE || ending->how == CUT) {
        const char *why = ending->why ? ending->why : "";
        r->short_watches = lasted >= WATCH_PROOF ? 0 : r->short_watches + 1;
        if (!r->proven)
            retry_log_failed(&r->retry, verb_of(r), "it ended at once without an event", why);
        else
            log_debug(2, "source", "%s: the watch ended %s", resource_of(r), why);
        if (!r->proven || r->short_watches > SHORT_WATCHES_LIMIT)
            back_off(r, CHECK, wait_after(r, ending));
        else
            send_request(r, ended_by_time(r, ending) ? WATCH : CHECK);
    } else {
        without_watch(r, ending);
    }
}

static void after_check(struct reflector *r, const struct ending *ending)
{
    static const struct ending rewound = {.how = REWOUND, .why = "the server's history went back"};
    static const struct ending unknown = {.how = REWOUND, .why = "its version is not a number"};
    if (ending->how != COMPLETE) {
        without_watch(r, ending);
    } else if (is_rewound(r, r->reader.version)) {
        without_watch(r, &rewound);
    } else if (version_order(r->reader.version, r->version) == VERSION_UNKNOWN) {
        without_watch(r, &unknown);
    } else {
        r->confirmed = true;
        send_request(r, WATCH);
    }
}

/* Sends the next request, at once or later. */
static void proceed(struct reflector *r, const struct ending *ending)
{
    if (ending->how == UNREADABLE)
        r->stats.bad_answers++;
    else if (ending->how != COMPLETE && !is_harmless(r, ending))
        r->stats.failures++;
    if (r->purpose == STREAM)
        after_stream(r, ending);
    else if (r->purpose == LIST)
        after_list(r, ending);
    else if (r->purpose == CHECK)
        after_check(r, ending);
    else
        after_watch(r, ending);
}

/* ---- requests and timeouts ---- */

/* Returns the path of the request, and its total timeout in @timeout. */
static char *prepare(struct reflector *r, double *timeout)
{
    unsigned seconds = WATCH_MIN + arc4random_uniform(WATCH_MAX - WATCH_MIN + 1);
    const char *version = r->version_unusable ? NULL : r->version;
    *timeout = seconds + WATCH_GRACE;
    r->watch_seconds = seconds;
    switch (r->purpose) {
    case STREAM:
        r->received = 0;
        clear_contents(&r->contents);
        return collection_watch_path(&r->collection, version, seconds, true);
    case WATCH:
        return collection_watch_path(&r->collection, r->version, seconds, false);
    case CHECK:
        r->received = 0;
        clear_contents(&r->contents);
        object_reader_reset(&r->reader);
        *timeout = LIST_ANSWER_TIMEOUT;
        return collection_version_path(&r->collection);
    case LIST:
        break;
    }
    *timeout = LIST_ANSWER_TIMEOUT + CONTENTS_TIMEOUT;
    if (!version && !r->version_unusable)
        version = "0";
    version = r->reader.token ? NULL : version;
    return collection_list_path(&r->collection, version, r->list_limited, r->reader.token);
}

static void on_opened(void *ctx, enum encoding encoding)
{
    struct reflector *r = ctx;
    r->opened_at = clock_monotonic();
    r->encoding = encoding;
    r->stats.encoding = encoding_name(encoding);
    r->full_time = r->opened_at + r->watch_seconds;
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
    bool streaming = r->state == STATE_STREAMING && r->proven;
    r->stats.received[r->encoding] += length;
    if (is_listing(r) || streaming) {
        double left = r->opened_at + CONTENTS_TIMEOUT - clock_monotonic();
        start_timer(r, fmax(fmin(left, SILENCE_TIMEOUT), 0));
    }
    if (is_listing(r) || r->state == STATE_STREAMING) {
        r->received += length;
        if (r->received > CONTENTS_LIMIT)
            return error_set(&r->broken, "it has more than %zu MiB", CONTENTS_LIMIT >> 20);
    }
    if (object_reader_feed(&r->reader, bytes, length, &r->broken) < 0)
        return -1;
    return r->state == STATE_STREAMING;
}

static void on_done(void *ctx, const struct api_status *status)
{
    struct reflector *r = ctx;
    struct ending ending = {.how = COMPLETE};
    struct api_status event = {0};
    r->request = NULL;
    ev_timer_stop(r->loop, &r->timer);
    if (is_listing(r) && status->code == 200 && !status->transport)
        object_reader_end_page(&r->reader, &r->broken);
    if (r->rewound) {
        ending = (struct ending){.how = REWOUND, .why = "the server's history went back"};
    } else if (!is_listing(r) && r->reader.rejected) {
        event = r->reader.status; /* the next answer clears the reader's own */
        r->reader.status = (struct api_status){0};
        ending = (struct ending){.how = REJECTED, .status = &event, .in_event = true};
    } else if (r->broken.text) {
        ending = (struct ending){.how = UNREADABLE, .why = r->broken.text};
    } else if (status->code == 0) {
        ending = (struct ending){.how = UNANSWERED,
                                 .why = status->transport ? status->transport : "no answer"};
    } else if (status->code != 200) {
        ending = (struct ending){.how = REJECTED, .status = status};
    } else if (status->transport) {
        ending = (struct ending){.how = CUT, .why = status->transport};
    } else if (r->purpose == STREAM) {
        ending = (struct ending){.how = CUT, .why = "it ended before all objects were sent"};
    }
    ending.wait = status->wait;
    ending.starting = status->starting;
    proceed(r, &ending);
    api_status_clear(&event);
}

static void on_retry(struct ev_loop *loop, struct ev_timer *timer, int events)
{
    struct reflector *r = timer->data;
    (void)loop;
    (void)events;
    if (r->state == STATE_BACKING_OFF)
        send_request(r, r->purpose);
    else if (!r->proven && (r->state == STATE_WATCHING || r->state == STATE_STREAMING))
        prove(r);
    else if (r->state == STATE_WATCHING) {
        apiserver_cancel(r->request);
        send_request(r, CHECK);
    } else {
        const struct ending ending = {.how = STALLED,
                                      .why = r->state == STATE_CONNECTING ? "no answer in time"
                                                                          : "the answer stalled"};
        apiserver_cancel(r->request);
        r->request = NULL;
        proceed(r, &ending);
    }
}

static const struct api_request_ops ops = {.opened = on_opened, .data = on_data, .done = on_done};

static void send_request(struct reflector *r, enum purpose purpose)
{
    struct error err = {0};
    double timeout;
    r->purpose = purpose;
    r->proven = false;
    r->reader.rejected = false;
    r->rewound = false;
    error_clear(&r->broken);
    if (purpose != LIST || !r->reader.token) /* the pages of a list are one answer */
        r->bad_reported = 0;
    enter(r, STATE_CONNECTING);
    char *path = prepare(r, &timeout);
    r->request = apiserver_send(r->apiserver, path, NULL, timeout, &ops, r, &err);
    free(path);
    if (r->request) {
        start_timer(r, is_listing(r) ? LIST_ANSWER_TIMEOUT : ANSWER_TIMEOUT);
    } else {
        const struct ending ending = {.how = UNANSWERED, .why = err.text};
        proceed(r, &ending);
    }
    error_clear(&err);
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
    r->contents.limit = OBJECT_LIMIT;
    r->reader = (struct object_reader){.kind = kind, .take = take_event, .ctx = r};
    retry_init(&r->retry, collection_resource(kind), clock_monotonic());
    backoff_reset(&r->futile, clock_monotonic());
    ev_init(&r->timer, on_retry);
    /* Runs after pending input: after a pause of the daemon, the server was not the slow one. */
    ev_set_priority(&r->timer, EV_MINPRI);
    r->timer.data = r;
    send_request(r, STREAM);
    return r;
}

void reflector_free(struct reflector *r)
{
    if (!r)
        return;
    if (r->request)
        apiserver_cancel(r->request);
    ev_timer_stop(r->loop, &r->timer);
    object_reader_reset(&r->reader);
    clear_contents(&r->contents);
    error_clear(&r->broken);
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
        stats.resource = resource_of(r);
        stats.state = state_names[r->state];
        stats.error = r->retry.logged;
        stats.error_age = stats.error ? clock_monotonic() - r->retry.failed_at : 0;
        if (r->state == STATE_BACKING_OFF)
            stats.next_try = ev_timer_remaining(r->loop, (struct ev_timer *)&r->timer);
    }
    return stats;
}
