/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Audits: whether the kernel's sets match the applied state, one set at a time. A set is read over
 * many turns of the loop (walk.h), while commits may go on; the elements that came then tell which
 * are missing. Suspicious elements are recorded for a recheck, so the kernel is queried again
 * before anything is repaired.
 */
#ifndef KUBE_NFTD_TABLE_AUDIT_H
#define KUBE_NFTD_TABLE_AUDIT_H

#include "state.h"

/* Progress of an audit. Starts zeroed. */
struct audit {
    struct ruleset *ruleset;
    struct walk walk;
    size_t cursor;      /* of the entries whose elements are looked up */
    VEC(uint32_t) seen; /* bits for the elements of entries, at entry->seen - 1 */
    double due;         /* time of the next piece; clock_monotonic; 0: not started */
    double seconds;     /* CPU time used */
    uint64_t ended;     /* completed audits */
};

/**
 * Runs the next piece of an audit at @now (clock_monotonic), if due. Measures its time and pauses
 * to use at most 1/200 of a core, whatever the size of the table. The first audit begins @period
 * seconds after the first call, each further one @period after the last.
 * @found  set if something is to be rechecked
 * Returns when the next piece is due.
 */
double audit_step(struct audit *audit, struct ruleset *rs, struct nft_socket *socket, double period,
                  double now, bool *found);

/** Aborts an audit in progress. */
void audit_stop(struct audit *audit);

#endif
