/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A table that is made where there was none gets its elements in portions, one a commit, so that
 * the rest of the loop and changes of others need not wait for all of it.
 */
#ifndef KUBE_NFTD_TABLE_PORTIONS_H
#define KUBE_NFTD_TABLE_PORTIONS_H

#include "entry.h"

struct ruleset;

/* What is to come into a new table. Starts zeroed. */
struct portions {
    VEC(struct entry *) entries; /* in the order in which packets may meet them */
    size_t at;                   /* the first that is not in a commit yet */
    VEC(struct entry *) last;    /* cluster IPs, after all these; any order */
    bool left;                   /* another portion follows, perhaps an empty one */
};

/* About so many elements that can wait are in one transaction: those of a new table, slots that
 * are added to service ports in steps, trims. Others wait for some 10 milliseconds. */
#define COMMIT_PIECE 6144
/** Sets all that is dirty aside, before a table is made, and gives service ports their numbers. */
void portions_begin(struct ruleset *rs);

/** What the next commit is to add to it becomes dirty again. */
void portions_next(struct ruleset *rs);

/** All of it becomes dirty. */
void portions_end(struct ruleset *rs);

#endif
