/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Audits: whether the kernel's sets hold what is believed applied, set by set. All elements of a
 * set are given to audit_take() as they are read, over many turns of the loop, and changes may be
 * committed meanwhile; then audit_finish() finds those that did not come. What looks wrong is noted
 * to be rechecked, so the kernel is asked again before anything is done about it.
 */
#ifndef KUBE_NFTD_TABLE_AUDIT_H
#define KUBE_NFTD_TABLE_AUDIT_H

#include "state.h"

/* Where an audit is. Starts zeroed. */
struct audit {
    enum table_set set;
    struct element_dump *dump;    /* of it; NULL: not begun */
    struct boundaries boundaries; /* of a set of ranges */
    VEC(uint32_t) seen; /* of entries, at entry->seen - 1: bits for their elements of it */
    double due;         /* when it goes on; clock_monotonic; 0: there was none yet */
    double seconds;     /* of CPU that it took */
    uint64_t ended;     /* audits */
};

/**
 * The next piece of an audit at @now (clock_monotonic), if it is due: measures what it takes and
 * rests so long that it has 1/200 of a core at most, however much the table holds. The first audit
 * begins @period seconds after the first call, and each further one as long after the last.
 * @found  set if something is to be rechecked
 * Returns when the next piece is due.
 */
double audit_turn(struct audit *audit, struct ruleset *rs, struct nft_socket *socket, double period,
                  double now, bool *found);

/** Gives up an audit that has begun. */
void audit_stop(struct audit *audit);

/** The kernel holds @element in @set now. */
void audit_take(struct audit *audit, struct ruleset *rs, enum table_set set,
                const struct nft_element *element);

/** All were given. If they were not (@whole is false), those that are missing are not looked for.
 */
void audit_finish(struct audit *audit, struct ruleset *rs, enum table_set set, bool whole);

/** Compares the rules at once (rules.h). */
void audit_check_rules(struct ruleset *rs, struct nft_socket *socket);

#endif
