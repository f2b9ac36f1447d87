/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Changes of a table by other programs: when to check what was reported, and that it is repaired.
 *
 *     QUIET -> REFUSED     AUDITED -> DRIFTED -> QUIET
 *                 |           |
 *                 +-----+-----+
 *                       v
 *                     HEARD
 *                       |
 *                       v
 *     QUIET ------> REPORTED -> CHANGED -> QUIET
 *
 * A check that finds nothing leads back to QUIET, the end of a transaction from anywhere to
 * REPORTED.
 */
#ifndef KUBE_NFTD_TABLE_FOREIGN_H
#define KUBE_NFTD_TABLE_FOREIGN_H

#include "state.h"

enum foreign_state {
    FOREIGN_QUIET,
    FOREIGN_REFUSED,  /* so was a commit, whose reason events may tell */
    FOREIGN_AUDITED,  /* an audit found differences; events may tell whose they are */
    FOREIGN_HEARD,    /* one does; the end of its transaction follows */
    FOREIGN_REPORTED, /* a program has ended a transaction with changes */
    FOREIGN_DRIFTED,  /* what an audit found is there: the next commit repairs it */
    FOREIGN_CHANGED   /* likewise, what events reported */
};

/* When to repair: at once, but with growing waits if changes go on, so that two programs cannot
 * keep each other busy. Starts zeroed. */
struct repair_pace {
    double last; /* time of the last repair; 0: none yet */
    double wait; /* pause after it */
};

/* Starts zeroed. Times are of clock_monotonic. */
struct foreign {
    enum foreign_state state;
    struct table_program by; /* the last program that made changes */
    double grace;            /* until then a change may become desired, or be reported by events */
    struct recheck_result found; /* differences that are not repaired yet */
    double checking;             /* seconds that the last check took */
    uint64_t layouts;            /* number of rebuilt tables and rules, before that check */
    struct repair_pace pace;
    uint64_t repairs, drift; /* see struct table_view */
};

/** An event reports a change; @program has ended a transaction with reported changes; an audit
 * found differences; a commit was refused, since the table is not as applied. */
void foreign_heard(struct foreign *foreign);
void foreign_finished(struct foreign *foreign, const struct table_program *program, double now);
void foreign_audited(struct foreign *foreign, double now);
void foreign_refused(struct foreign *foreign, double now);

/** Whether a check is still to come. */
bool foreign_waits(const struct foreign *foreign);

/** Checks what was reported, if due; with differences, a commit is due. Other pending changes
 * (@changed) wait for it at most as long as after a failed commit. Returns the time before which
 * nothing may be committed, or 0. */
double foreign_check(struct foreign *foreign, struct ruleset *rs, struct nft_socket *socket,
                     bool changed, double now);

/** A sync of @seconds has succeeded, and sent @sent: logs and counts what it repaired. Failed
 * attempts before it (say, while another program owned the table) are not part of the repair. */
void foreign_repaired(struct foreign *foreign, const struct ruleset *rs,
                      const struct commit_stats *sent, double seconds);

#endif
