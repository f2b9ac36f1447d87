/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Audits: whether the kernel's sets hold what is believed, set by set (of schema.h). All elements
 * of a set are given to drift_take() as they are read, over many turns of the loop, and changes may
 * be committed meanwhile; then drift_finish() finds those that did not come. What looks wrong
 * becomes a suspect (ruleset.h), so the kernel is asked again before anything is done about it.
 */
#ifndef KUBE_NFTD_TABLE_DRIFT_H
#define KUBE_NFTD_TABLE_DRIFT_H

#include "kube-nftd/netlink.h"
#include "kube-nftd/table.h"
#include "schema.h"

/* Where an audit is. Starts zeroed. */
struct drift {
    enum table_set set;
    struct element_dump *dump; /* of it; NULL: not begun */
    double due;                /* when it goes on; clock_monotonic; 0: there was none yet */
    double seconds;            /* of CPU that it took */
    uint64_t ended;            /* audits */
};

/**
 * The next piece of an audit at @now (clock_monotonic), if it is due: measures what it takes and
 * rests so long that it has 1/200 of a core at most, however much the table holds. The first audit
 * begins @period seconds after the first call, and each further one as long after the last.
 * @found  set if something became a suspect
 * Returns when the next piece is due.
 */
double drift_turn(struct drift *drift, struct ruleset *ruleset, struct nft_socket *socket,
                  double period, double now, bool *found);

/** Gives up an audit that has begun. */
void drift_stop(struct drift *drift);

/** The kernel holds @element in @set now. */
void drift_take(struct ruleset *ruleset, enum table_set set, const struct nft_element *element);

/** All were given. If they were not (@whole is false), those that are missing are not looked for.
 */
void drift_finish(struct ruleset *ruleset, enum table_set set, bool whole);

/** Compares the rules at once (rules.h). */
void drift_check_rules(struct ruleset *ruleset, struct nft_socket *socket);

/** While session affinity is in use: counts the records that packets have written, for the figures
 * (ruleset.h), and logs when there is hardly room for more. One question, however many there are.
 */
void drift_count_records(struct ruleset *ruleset, struct nft_socket *socket);

#endif
