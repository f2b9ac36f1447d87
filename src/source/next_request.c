/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "next_request.h"

#include "server_backoff.h"

#include <math.h>
#include <stdlib.h>

/* The server may end a watch so many seconds before its time, by another clock. */
#define WATCH_EARLY 1.0
/* So many times in a row a server may set the wait itself (as in client-go); then waits grow. */
#define RETRY_AFTER_TIMES 10
/* So many watches in a row may end before WATCH_PROOF. */
#define SHORT_WATCHES_LIMIT 10
/* After this many misses, an optional API is requested at this interval in seconds. */
#define ABSENT_TIMES 5
#define ABSENT_SECONDS 300.0
/* A watch of this many seconds allows another relist at once. */
#define WATCH_LONG 60.0

/* ---- judging ---- */

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

bool server_is_rewound(const struct reflector *r, const char *version)
{
    if (version_order(version, r->version) != VERSION_BEFORE)
        return false;
    log_warn("source",
             "the server's history went back: reading everything again resource=%s version=%s "
             "before=%s",
             reflector_resource(r), version, r->version);
    return true;
}

/* ---- logs and waits ---- */

const char *reflector_resource(const struct reflector *r)
{
    return r->retry.resource->name;
}

static const char *verb_of(const struct reflector *r)
{
    return r->purpose == WATCH ? "watch" : "list";
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

static struct next at_once(enum purpose purpose)
{
    return (struct next){.purpose = purpose};
}

static struct next after_a_wait(struct reflector *r, enum purpose purpose, double wait)
{
    r->relisted = false;
    return (struct next){.purpose = purpose, .wait = wait};
}

static struct next after_an_error(struct reflector *r, enum purpose purpose,
                                  const struct ending *ending)
{
    log_ending(r, ending);
    return after_a_wait(r, purpose, wait_after(r, ending));
}

/* ---- contents ---- */

/* Whether a list would end like the stream did. */
static bool concerns_list(const struct reflector *r, const struct ending *ending)
{
    switch (ending->how) {
    case REJECTED:
        return is_version_error(ending) || ending->status->code == 429 ||
               ending->status->retry_after > 0;
    case UNREADABLE: /* it would be as long */
        return contents_are_too_many(&r->contents);
    case CUT:
        return r->attempt.proven;
    default:
        return ending->how == UNANSWERED;
    }
}

/* The stream ended before its end mark. */
static struct next after_stream(struct reflector *r, const struct ending *ending)
{
    const bool had_version = r->version && r->trust != VERSION_REJECTED;
    if (is_version_error(ending)) {
        r->trust = VERSION_REJECTED;
        if (had_version)
            return at_once(STREAM);
    }
    if (ending->how == CUT && r->attempt.proven && !r->restreamed) {
        r->restreamed = true;
        return at_once(STREAM);
    }
    if (concerns_list(r, ending))
        return after_an_error(r, STREAM, ending);
    /* the list will show the cause, if any */
    log_debug(2, "source", "%s: no streamed list: %s", reflector_resource(r),
              ending->status ? ending->status->message : ending->why);
    return at_once(LIST);
}

/* Whether another list can help at once: without the version that the server rejected, or without
 * pages that have expired. */
static bool list_otherwise(struct reflector *r, const struct ending *ending)
{
    if (!is_version_error(ending))
        return false;
    if (r->reader.token) { /* a later page: the same contents again, if there were pages */
        if (r->version)
            return false;
        r->version = r->reader.version;
        r->reader.version = NULL;
    } else if (r->trust == VERSION_REJECTED) {
        return false;
    } else {
        r->trust = VERSION_REJECTED;
    }
    object_reader_reset(&r->reader);
    return true;
}

static struct next after_list(struct reflector *r, const struct ending *ending)
{
    const long code = ending->status ? ending->status->code : 0;
    r->stats.answered |= code == 403 || code == 404;
    if (ending->how == COMPLETE)
        return at_once(r->reader.token ? LIST : WATCH);
    if (list_otherwise(r, ending))
        return at_once(LIST);
    if (code == 400 || code == 422) /* it may not understand the version */
        r->trust = VERSION_REJECTED;
    if (!is_harmless(r, ending) || ++r->absent <= ABSENT_TIMES)
        return after_an_error(r, STREAM, ending);
    log_ending(r, ending);
    return after_a_wait(r, STREAM, retry_after_wait(ABSENT_SECONDS));
}

/* ---- changes ---- */

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
static struct next without_watch(struct reflector *r, const struct ending *ending)
{
    if (ending->how == REWOUND || (ending->status && ending->status->too_large))
        r->trust = VERSION_REJECTED;
    if (is_version_error(ending) && !r->relisted) {
        r->relisted = true;
        return at_once(STREAM);
    }
    return after_an_error(r, may_watch_again(ending) ? CHECK : STREAM, ending);
}

/* The end that tells nothing of the server: its next answer will be by the same history, if nothing
 * else happens at the same time. The next watch must confirm that. */
static bool ended_by_time(struct reflector *r, const struct ending *ending)
{
    bool by_time =
        ending->how == COMPLETE && clock_monotonic() >= r->attempt.full_time - WATCH_EARLY;
    if (by_time)
        r->trust = VERSION_ASSUMED;
    return by_time;
}

static struct next after_watch(struct reflector *r, const struct ending *ending)
{
    const struct attempt *watch = &r->attempt;
    double lasted = clock_monotonic() - watch->opened_at;
    if (watch->proven && lasted >= WATCH_LONG) /* contents may be requested at once again */
        r->relisted = false;
    if (ending->how != COMPLETE && ending->how != CUT)
        return without_watch(r, ending);
    const char *why = ending->why ? ending->why : "";
    r->short_watches = lasted >= WATCH_PROOF ? 0 : r->short_watches + 1;
    if (!watch->proven)
        retry_log_failed(&r->retry, verb_of(r), "it ended at once without an event", why);
    else
        log_debug(2, "source", "%s: the watch ended %s", reflector_resource(r), why);
    if (!watch->proven || r->short_watches > SHORT_WATCHES_LIMIT)
        return after_a_wait(r, CHECK, wait_after(r, ending));
    return at_once(ended_by_time(r, ending) ? WATCH : CHECK);
}

static struct next after_check(struct reflector *r, const struct ending *ending)
{
    static const struct ending rewound = {.how = REWOUND, .why = "the server's history went back"};
    static const struct ending unknown = {.how = REWOUND, .why = "its version is not a number"};
    if (ending->how != COMPLETE)
        return without_watch(r, ending);
    if (server_is_rewound(r, r->reader.version))
        return without_watch(r, &rewound);
    if (version_order(r->reader.version, r->version) == VERSION_UNKNOWN)
        return without_watch(r, &unknown);
    r->trust = VERSION_CONFIRMED;
    return at_once(WATCH);
}

struct next next_request(struct reflector *r, const struct ending *ending)
{
    if (ending->how == UNREADABLE)
        r->stats.bad_answers++;
    else if (ending->how != COMPLETE && !is_harmless(r, ending))
        r->stats.failures++;
    switch (r->purpose) {
    case STREAM:
        return after_stream(r, ending);
    case LIST:
        return after_list(r, ending);
    case CHECK:
        return after_check(r, ending);
    default:
        return after_watch(r, ending);
    }
}
