/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "server_backoff.h"

#include <math.h>

/* The shortest wait: seconds, a share of the outage, its limit. */
#define LEAST 0.8
#define LEAST_SHARE (1 / 75.0)
#define LEAST_MOST 12.0
/* The longest wait is so many times the shortest. */
#define SPREAD 5
/* A balancer may answer for a server that is away, so the longest outage after which changes come
 * soon, and the start behind it. */
#define STARTING 90.0

/* @least, up to SPREAD times as much. */
static double spread_out(double least, double spread)
{
    return least * (1 + (SPREAD - 1) * spread);
}

double server_backoff_short(double spread)
{
    return spread_out(LEAST, spread);
}

double server_backoff_no_answer(struct server_backoff *backoff, double now, double spread)
{
    backoff->lost_at = now;
    if (backoff->away_since == 0)
        backoff->away_since = backoff->until = now;
    if (now >= backoff->until) {
        double share = (now - backoff->away_since) * LEAST_SHARE;
        backoff->until = now + spread_out(fmin(fmax(LEAST, share), LEAST_MOST), spread);
    }
    return backoff->until - now;
}

void server_backoff_interrupted(struct server_backoff *backoff, double now)
{
    backoff->lost_at = now;
}

void server_backoff_answered(struct server_backoff *backoff)
{
    backoff->away_since = 0;
}

bool server_backoff_is_starting(const struct server_backoff *backoff, double now)
{
    return backoff->lost_at > 0 && now - backoff->lost_at < STARTING;
}
