/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Whether the daemon waits a moment for more bytes before it reads again. The API server flushes
 * each event by itself: where thousands come in a second, most of the CPU time would go into waking
 * up for one of them. What comes alone is never waited for. No clock of its own.
 */
#ifndef KUBE_NFTD_SOURCE_GATHERING_H
#define KUBE_NFTD_SOURCE_GATHERING_H

#include <stdbool.h>
#include <stddef.h>

/* All zero at the beginning. */
struct gathering {
    double since;   /* when the wake-ups were counted from */
    unsigned wakes; /* since then */
    size_t bytes;   /* since the last wake-up */
    bool on;        /* they come in a stream */
    bool waited;    /* before the last wake-up */
};

/** Bytes came at time @now, g->bytes of them, and were read. Returns the seconds to wait before the
 * next look, 0 for none. */
double gathering_woken(struct gathering *g, double now);

#endif
