/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "backoff.h"

#define FIRST 0.8
#define FACTOR 2.0
#define CAP 30.0
#define START_OVER 120.0

void backoff_init(struct backoff *backoff, double now)
{
    backoff->base = FIRST;
    backoff->start = now;
}

double backoff_next(struct backoff *backoff, double now, double spread)
{
    if (now - backoff->start > START_OVER)
        backoff_init(backoff, now);
    double wait = backoff->base * (1 + spread);
    backoff->base *= FACTOR;
    if (backoff->base > CAP)
        backoff->base = CAP;
    return wait;
}
