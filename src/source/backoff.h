/* SPDX-License-Identifier: GPL-2.0-or-later */
/* How long to wait before a failed request is tried again (docs/behaviour.md 10.5). No clock of its
 * own. */
#ifndef KUBE_NFTD_SOURCE_BACKOFF_H
#define KUBE_NFTD_SOURCE_BACKOFF_H

struct backoff {
    double base;  /* the next wait, before it is spread */
    double start; /* when it last started over */
};

/** Starts over at time @now. */
void backoff_init(struct backoff *backoff, double now);

/**
 * The seconds to wait after a failure at time @now: 0.8, twice as much each time up to 30, each
 * multiplied by 1 + @spread (random, 0 to 1, so that clients do not come back in step). Starts
 * over when more than two minutes have passed since it last did.
 */
double backoff_next(struct backoff *backoff, double now, double spread);

#endif
