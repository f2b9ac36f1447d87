/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "pace.h"

#include "kube-nftd/base.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define BACKOFF_FIRST 0.8
#define BACKOFF_FACTOR 2.0
#define BACKOFF_MOST 30.0
#define BACKOFF_START_OVER 120.0
/* A role is changed by people, so retries are rare. */
#define FORBIDDEN_FIRST 30.0
#define FORBIDDEN_MOST 300.0

void backoff_init(struct backoff *backoff, double now)
{
    backoff->base = BACKOFF_FIRST;
    backoff->start = now;
}

double backoff_next(struct backoff *backoff, double now, double spread)
{
    if (now - backoff->start > BACKOFF_START_OVER)
        backoff_init(backoff, now);
    double wait = backoff->base * (1 + spread);
    backoff->base = fmin(backoff->base * BACKOFF_FACTOR, BACKOFF_MOST);
    return wait;
}

double retry_spread(void)
{
    return (double)arc4random() / UINT32_MAX;
}

void retry_init(struct retry *retry, const char *subsystem, const struct api_resource *resource,
                double now)
{
    *retry = (struct retry){.subsystem = subsystem, .resource = resource};
    backoff_init(&retry->backoff, now);
}

bool retry_clear(struct retry *retry)
{
    bool failing = retry->logged != NULL;
    free(retry->logged);
    retry->logged = NULL;
    return failing;
}

void retry_log(struct retry *retry, enum log_level level, char *text, const char *detail)
{
    if (retry->logged && strcmp(retry->logged, text) == 0) {
        log_debug(2, retry->subsystem, "still: %s", text);
        free(text);
        return;
    }
    if (*detail)
        log_at(level, retry->subsystem, "%s message=\"%s\"", text, detail);
    else
        log_at(level, retry->subsystem, "%s", text);
    free(retry->logged);
    retry->logged = text;
}

void retry_log_failed(struct retry *retry, const char *verb, const char *why, const char *detail)
{
    char *text = xasprintf("cannot %s %s: %s", verb, retry->resource->name, why);
    retry_log(retry, LOG_LEVEL_WARN, text, detail);
}

void retry_log_refused(struct retry *retry, const char *verb, const struct api_status *status)
{
    char *why = api_status_explain(status, verb, retry->resource);
    retry_log_failed(retry, verb, why, status->message);
    free(why);
}

double retry_after_wait(double retry_after)
{
    double wait = fmin(retry_after, RETRY_AFTER_MAX);
    return wait + retry_spread() * fmax(wait / 10, 1);
}

double retry_write_wait(struct retry *retry, const char *verb, const struct api_status *status,
                        double now)
{
    if (status->code == 0)
        log_debug(2, retry->subsystem, "cannot %s %s: no answer", verb, retry->resource->name);
    else
        retry_log_refused(retry, verb, status);
    if (status->retry_after > 0)
        return retry_after_wait(status->retry_after);
    if (status->code != 403)
        return backoff_next(&retry->backoff, now, retry_spread());
    retry->forbidden_wait = fmin(fmax(2 * retry->forbidden_wait, FORBIDDEN_FIRST), FORBIDDEN_MOST);
    return retry->forbidden_wait * (1 + retry_spread() / 10);
}

void retry_write_done(struct retry *retry, double now)
{
    backoff_init(&retry->backoff, now);
    retry->forbidden_wait = 0;
    if (retry_clear(retry))
        log_info(retry->subsystem, "the server accepts %s again", retry->resource->name);
}

/* ---- gathering ---- */

/* More than so many wake-ups in a row that bring only contents are a flood. */
#define FLOOD 8
/* Seconds to wait: many events at thousands per second. */
#define WAIT 0.01
/* This many bytes at once are worth their own wake-up. Waiting would stall the server with its
 * window full. */
#define MUCH 65536

double gathering_woken(struct gathering *g)
{
    bool wait = g->others == 0 && g->contents > 0 && g->contents < MUCH && g->wakes >= FLOOD;
    g->wakes = g->others > 0 ? 0 : g->wakes + (g->contents > 0);
    g->contents = g->others = 0;
    return wait ? WAIT : 0;
}
