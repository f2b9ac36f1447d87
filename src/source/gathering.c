/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "gathering.h"

/* More wake-ups than these in so many seconds are a stream. */
#define OFTEN 8
#define WINDOW 0.005
/* Seconds of a wait: many events of a server that writes thousands a second. */
#define WAIT 0.01
/* A wait that brought less was not worth it: the stream is over. */
#define FEW 4096
/* So much at once is worth a wake-up of its own. With a wait behind it the server would stand
 * still, its window full. */
#define MUCH 65536

double gathering_woken(struct gathering *g, double now)
{
    if (now - g->since > WINDOW || now < g->since) {
        g->since = now;
        g->wakes = 0;
    }
    g->wakes++;
    if (g->on)
        g->on = !g->waited || g->bytes >= FEW;
    else
        g->on = g->wakes > OFTEN;
    g->waited = g->on && g->bytes < MUCH;
    g->bytes = 0;
    return g->waited ? WAIT : 0;
}
