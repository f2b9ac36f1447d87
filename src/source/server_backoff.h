/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The back-off from a server that does not answer (docs/behaviour.md 10.5). All requests share it,
 * so that a server that is away gets one attempt at a time from each node, and all of them go on as
 * soon as one succeeds. Rejections are the matter of each request, see struct retry.
 */
#ifndef KUBE_NFTD_SOURCE_SERVER_BACKOFF_H
#define KUBE_NFTD_SOURCE_SERVER_BACKOFF_H

#include <stdbool.h>

/* Starts zeroed. Times are those of clock_monotonic(). */
struct server_backoff {
    double away_since; /* the first missing answer since the last one came; 0: none */
    double until;      /* when the server is tried again */
    double lost_at;    /* the last missing or interrupted answer; 0: none yet */
};

/** The seconds to wait for a server that was there a short while ago: 0.8 to 4 by @spread (0 to 1,
 * random, so that a server that comes back is not asked by all clients at once). */
double server_backoff_short(double spread);

/**
 * A request got no answer at time @now. Returns the seconds to wait, the same for all requests that
 * fail meanwhile: the short wait; after more than a minute a 75th to a 15th of the outage, up
 * to 60.
 */
double server_backoff_no_answer(struct server_backoff *backoff, double now, double spread);

/** An answer was interrupted at time @now. */
void server_backoff_interrupted(struct server_backoff *backoff, double now);

/** An answer came, whatever it says. */
void server_backoff_answered(struct server_backoff *backoff);

/** Whether the server may be starting at time @now: until 90 s after the last missing answer. It
 * then rejects what it will accept soon, so the short wait is enough. */
bool server_backoff_is_starting(const struct server_backoff *backoff, double now);

#endif
