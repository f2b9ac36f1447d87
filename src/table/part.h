/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * One number of backends with its slots, of one service port: of ports and endpoints, or the local
 * ones; what the kernel has of it, and what is wanted.
 *
 * A wish is a list of backends or a difference to what is in force. Both become a plan, again a
 * difference: which slots get another backend. Neither list nor difference outlives the commit.
 */
#ifndef KUBE_NFTD_TABLE_PART_H
#define KUBE_NFTD_TABLE_PART_H

#include "kube-nftd/policy.h"
#include "schema.h"
#include "slots.h"

/* What says which backends are wanted. */
enum part_wish {
    WISH_IN_FORCE, /* those in the first n_wanted slots */
    WISH_LIST,     /* those in wanted */
    WISH_CHANGES,  /* those in force, but for the changes */
    WISH_PLANNED   /* those in the slots, but for the moves of the plan, and behind them wanted */
};

struct part_difference;

struct part {
    struct set_number value; /* P:N; 0: it is not there */
    /* In the kernel. */
    struct backend *slots;
    uint32_t n_slots; /* at least the count; some may be empty after adoption */
    /* Wanted. */
    uint32_t n_wanted : 24;
    uint32_t wish : 7;      /* of enum part_wish */
    uint32_t mistaken : 1;  /* changes did not fit what is in force; whoever says so clears it */
    struct backend *wanted; /* of WISH_LIST, sorted; of WISH_PLANNED, of slots n_slots on */
    struct part_difference *difference; /* of WISH_CHANGES and WISH_PLANNED; NULL if it is empty */
};

/** The @n backends (sorted by backend_compare, copied; at most MAX_BACKENDS) are wanted. */
void part_want(struct part *part, const struct backend *backends, size_t n);

/** What the first @count slots hold is wanted. */
void part_want_slots(struct part *part, uint32_t count);

/** Whether part_change() can take a number of changes: not if the backends that are wanted are not
 * those in force, or known only in part. */
bool part_can_change(const struct part *part, const struct backend_change *changes, size_t n);

/** Some backends go and others join those that are wanted. */
void part_change(struct part *part, const struct backend_change *changes, size_t n);

/** Makes a WISH_LIST of the wish, of whatever sort: for when the slots in the kernel are about to
 * be others. */
void part_list(struct part *part);

/** Makes a plan of the wish, with as few moves as can be. */
void part_plan(struct part *part);

/** How many slots the plan changes. */
size_t part_weight(const struct part *part);

/** No more than @most slots of the plan go with this commit. Returns how many do. */
size_t part_stage(struct part *part, size_t most);

/** Whether that is not all of the plan. */
bool part_is_staged(const struct part *part);

/** The moves of the plan that go with this commit, and how many there are. Borrowed. */
const struct slot_move *part_moves(const struct part *part, size_t *n);

/** The backends of new slots, from n_slots on, likewise. */
const struct backend *part_added(const struct part *part, size_t *n);

/** What went with this commit is in force; the rest is still planned. Slots beyond the new count
 * are still there. */
void part_apply(struct part *part);

/** Nothing of it is in the kernel any more: call part_list() first. */
void part_forget_kernel(struct part *part);

/** The kernel has @backend in a slot. */
void part_put_slot(struct part *part, uint32_t slot, const struct backend *backend);

/** Frees what @part has. */
void part_clear(struct part *part);

#endif
