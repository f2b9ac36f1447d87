/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the end of a request leads to: the next one, at once or after a while
 * (docs/behaviour.md 10.2). */
#include "reflector_parts.h"

#include "kube-nftd/base/clock.h"
#include "kube-nftd/base/log.h"

#include <stdlib.h>

#define LOG "reflector"
/* So many watches in a row may end sooner than they can be proven by time. */
#define HASTE_LIMIT 10
/* An API that is not needed and was not there so often is asked for after so many seconds. */
#define ABSENT_TIMES 5
#define ABSENT_SECONDS 300.0
/* A watch of so many seconds did well. */
#define LONG_LIFE 60.0

/* Says what keeps us from contents, or from the watch. */
static void say_trouble(struct reflector *r, const char *what, const char *detail)
{
    trouble_say(&r->trouble, r->purpose == WATCH ? "watch" : "list", &r->collection, what, detail);
}

static void say_refused(struct reflector *r, const struct api_status *status)
{
    trouble_say_refused(&r->trouble, r->purpose == WATCH ? "watch" : "list", &r->collection,
                        status);
}

/* Back to the first page. */
static void list_begin(struct reflector *r)
{
    initial_events_reset(&r->initial);
    list_reader_reset(&r->list);
    r->received = 0;
    /* A limit together with a version other than 0 would ask for exactly that version. */
    r->list_limited = !r->version;
    reflector_ask(r, LIST);
}

/* The server answers, but streams nothing of use. What is wrong with it, if anything, the list will
 * say. */
static void list_instead(struct reflector *r, const char *why)
{
    log_debug(2, LOG, "%s: no streamed list: %s", resource_of(r), why);
    list_begin(r);
}

/* The server refuses the version that was asked for. Returns whether another try makes sense at
 * once: without it. */
static bool drop_version(struct reflector *r)
{
    bool had = r->version && !r->version_unusable;
    r->version_unusable = true;
    return had;
}

static void stream_refused(struct reflector *r, const struct api_status *status)
{
    if (status->expired || status->too_large) {
        if (drop_version(r)) {
            reflector_ask(r, STREAM);
            return;
        }
    } else if (status->code != 429 && status->retry_after <= 0) {
        list_instead(r, status->message);
        return;
    }
    say_refused(r, status);
    reflector_back_off(r, STREAM, status->retry_after);
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

static void list_refused(struct reflector *r, const struct api_status *status)
{
    r->answered = r->answered || status->code == 403 || status->code == 404;
    if (list_otherwise(r, status))
        return;
    /* Perhaps it is the version that the server does not understand. */
    if (status->code == 400 || status->code == 422)
        r->version_unusable = true;
    say_refused(r, status);
    bool seldom = trouble_is_harmless(&r->collection, status) && ++r->absent > ABSENT_TIMES;
    reflector_back_off(r, STREAM, seldom ? ABSENT_SECONDS : status->retry_after);
}

/* Whether a watch that was refused so may be tried again as it was. */
static bool may_watch_again(const struct api_status *status, bool in_event)
{
    if (status->expired || status->too_large)
        return false;
    if (in_event)
        return status->code == 429;
    return status->code == 401 || status->code == 403 || status->code == 404 ||
           status->code == 429 || status->code >= 500;
}

/* After a watch that has lasted, contents may be asked for at once again. */
static void note_life(struct reflector *r)
{
    if (r->proven && clock_monotonic() - r->opened_at >= LONG_LIFE)
        r->relisted = false;
}

static void watch_refused(struct reflector *r, const struct api_status *status, bool in_event)
{
    if (status->too_large)
        r->version_unusable = true;
    note_life(r);
    if ((status->expired || status->too_large) && !r->relisted) {
        r->relisted = true;
        reflector_ask(r, STREAM);
        return;
    }
    say_refused(r, status);
    reflector_back_off(r, may_watch_again(status, in_event) ? WATCH : STREAM, status->retry_after);
}

void reflector_refused(struct reflector *r, const struct api_status *status, bool in_event)
{
    if (!trouble_is_harmless(&r->collection, status))
        r->figures.failures++;
    if (r->purpose == STREAM)
        stream_refused(r, status);
    else if (r->purpose == LIST)
        list_refused(r, status);
    else
        watch_refused(r, status, in_event);
}

void reflector_unreadable(struct reflector *r)
{
    r->figures.bad_answers++;
    /* A list would be as long. */
    bool too_much = initial_events_overrun(&r->initial) || r->received > CONTENTS_LIMIT;
    if (r->purpose == STREAM && !too_much) {
        list_instead(r, r->broken.text);
        return;
    }
    say_trouble(r, r->purpose == WATCH ? "an event cannot be read" : "the answer cannot be read",
                r->broken.text);
    reflector_back_off(r, STREAM, -1);
}

void reflector_failed(struct reflector *r, const char *why)
{
    r->figures.failures++;
    say_trouble(r, why, "");
    reflector_back_off(r, r->purpose == WATCH ? WATCH : STREAM, -1);
}

void reflector_stalled(struct reflector *r, const char *why)
{
    if (r->purpose == STREAM) {
        r->figures.failures++;
        list_instead(r, why);
    } else {
        reflector_failed(r, why);
    }
}

/* The stream ended before its end mark. */
static void stream_ended(struct reflector *r, const char *transport)
{
    const char *why = transport ? transport : "it ended before all objects were sent";
    if (r->proven && r->restreamed) {
        reflector_failed(r, why);
        return;
    }
    r->figures.failures++;
    if (r->proven) {
        r->restreamed = true;
        reflector_ask(r, STREAM);
    } else {
        list_instead(r, why);
    }
}

static void list_ended(struct reflector *r, const char *transport)
{
    if (transport) {
        reflector_failed(r, transport);
    } else if (list_reader_end_page(&r->list, &r->broken) < 0) {
        reflector_unreadable(r);
    } else if (r->list.token) {
        reflector_ask(r, LIST);
    } else {
        reflector_take_contents(r, &r->list.objects, &r->list.version);
        list_reader_reset(&r->list);
        r->listed = true;
        reflector_ask(r, WATCH);
    }
}

static void watch_ended(struct reflector *r, const char *transport)
{
    bool lasted = clock_monotonic() - r->opened_at >= WATCH_PROOF;
    note_life(r);
    r->hasty = lasted ? 0 : r->hasty + 1;
    if (transport)
        r->figures.failures++;
    if (!r->proven) {
        say_trouble(r, "it ended at once without an event", transport ? transport : "");
        reflector_back_off(r, WATCH, -1);
    } else if (r->hasty > HASTE_LIMIT) {
        reflector_back_off(r, WATCH, -1);
    } else {
        log_debug(2, LOG, "%s: the watch ended %s", resource_of(r), transport ? transport : "");
        reflector_ask(r, WATCH);
    }
}

void reflector_ended(struct reflector *r, const char *transport)
{
    if (r->purpose == STREAM)
        stream_ended(r, transport);
    else if (r->purpose == LIST)
        list_ended(r, transport);
    else
        watch_ended(r, transport);
}
