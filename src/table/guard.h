/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * One family's table and the other programs that change it: gathers what they were seen doing, and
 * decides when it is put right. Between kube-nftd/netlink.h and kube-nftd/table.h; the commits are
 * made by who asks.
 */
#ifndef KUBE_NFTD_TABLE_GUARD_H
#define KUBE_NFTD_TABLE_GUARD_H

#include "kube-nftd/netlink.h"
#include "kube-nftd/table.h"

/* When what another program changed may be put right: at once, but if that goes on, ever more
 * seldom, so that two programs cannot keep each other busy. Times are clock_monotonic's. Pure. */

#define REPAIR_FIRST_WAIT 0.05
#define REPAIR_LONGEST_WAIT 10.0

/* Starts zeroed. */
struct repair_pace {
    double last; /* repair; 0: none yet */
    double wait; /* after it */
};

/** When the next repair may begin. */
double repair_pace_due(const struct repair_pace *pace);

/** A repair ended at @now and took @seconds. */
void repair_pace_done(struct repair_pace *pace, double now, double seconds);

/* Starts zeroed. */
struct guard {
    bool touched;            /* something was seen and is not settled */
    bool waiting;            /* something is to be looked at when its time has come */
    bool repairing;          /* the next commit puts it right */
    double checking;         /* seconds that it took to see that */
    struct table_program by; /* who did it, the last one of several */
    double grace;     /* until when it may be what is about to be wanted here, or may be told of by
                         events as well; monotonic */
    uint64_t layouts; /* tables and rules that were made anew so far, when it was looked at */
    struct repair_pace pace;
    bool audited;     /* not a program was seen, but an audit found something */
    uint64_t repairs; /* commits that put right what a program was seen doing */
    uint64_t drift;   /* elements that were sent to put right what an audit found */
};

/** What came from the monitor, for @ruleset; guard_lost() if events were lost. */
void guard_changed(struct guard *guard, struct ruleset *ruleset, const struct table_change *change);
void guard_lost(struct guard *guard, struct ruleset *ruleset);
void guard_settled(struct guard *guard, const struct table_program *program);

/** An audit left suspects in the ruleset: they wait for what the monitor may tell of them. */
void guard_audited(struct guard *guard, double now);

/**
 * Makes @ruleset need a commit if something is to be put right now.
 * What a peer did, a second kube-nftd in an upgrade, is most often what will be wanted here a
 * moment later: it has a second.
 * @soon  something else waits to be committed: then what is to be put right waits no longer than
 *        that may
 * Returns until when nothing shall be committed, or 0.
 */
double guard_check(struct guard *guard, struct ruleset *ruleset, struct nft_socket *socket,
                   double now, bool soon);

/** A commit of the family named @name, begun at @begin (clock_monotonic()), succeeded: those that
 * failed before it, while another program owned the table for one, are no part of a repair. */
void guard_committed(struct guard *guard, const char *name, const struct ruleset *ruleset,
                     const struct ruleset_stats *stats, double begin);

#endif
