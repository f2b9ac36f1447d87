/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The slots of a service port (base.nft): which backend the kernel has in each, which backends are
 * desired, and which slots change for that: as few as can be. What has a slot below the new count
 * keeps it, what is left fills the gaps, the last ones moving down into them. Pure.
 */
#ifndef KUBE_NFTD_TABLE_SLOTS_H
#define KUBE_NFTD_TABLE_SLOTS_H

#include "kube-nftd/base.h"
#include "kube-nftd/model.h"

#include <stdbool.h>
#include <stddef.h>

/* ---- from one list of backends to another ---- */

/* A slot gets another backend. */
struct slot_move {
    uint32_t slot;
    struct backend backend;
};

/* The difference to the slots that there are. Starts zeroed. */
struct slot_plan {
    VEC(struct slot_move) moves; /* in the slots that there are, in ascending order */
    struct backend *added;       /* those of the slots behind; NULL if there are none */
};

/* Sorted by backend_compare, without duplicates; borrowed. */
struct backends {
    const struct backend *v;
    size_t n;
};

/** Whether @slot holds no backend: the mark is port 0. */
static inline bool slot_is_empty(const struct backend *slot)
{
    return slot->port == 0;
}

/** Plans for @desired, and no other backends, to be in the slots from 0 on, of which @old are there
 * (not sorted; some may be empty). @plan is empty before. */
void slots_arrange(const struct backends *old, const struct backends *desired,
                   struct slot_plan *plan);

/**
 * The same from a difference: of the backends in the first @n_used of @old, @went go, and @came
 * join them. Looks at the slots but once. False, and nothing planned, if some of @went is not
 * there.
 */
bool slots_rearrange(const struct backends *old, size_t n_used, const struct backends *went,
                     const struct backends *came, struct slot_plan *plan);

/** Frees what @plan holds and zeroes it. */
void slot_plan_clear(struct slot_plan *plan);

/* ---- the slots of a service port ---- */

/* What is to become of slots; there is one while that is not what they are. */
struct slot_change {
    bool planned;            /* as @plan says; before that, @desired are */
    struct backend *desired; /* sorted */
    struct slot_plan plan;
    size_t now; /* so many of its moves and additions go with this commit, the first ones */
};

/* Starts zeroed. */
struct slot_table {
    struct backend *slots; /* in the kernel */
    uint32_t n_slots;      /* at least the count; some may be empty after adoption */
    uint32_t n_desired;
    struct slot_change *change; /* NULL: what is in the first n_desired slots is desired */
};

/** The @n backends (sorted, copied; at most MAX_BACKENDS) are desired. */
void slots_set(struct slot_table *table, const struct backend *backends, size_t n);

enum slots_verdict {
    SLOTS_CHANGED,
    SLOTS_UNKNOWN, /* what is desired is not what is applied, or known only in part: set it */
    SLOTS_MISTAKEN /* the changes do not fit what is applied: likewise */
};

/** Some of the desired backends go and others join them. Costs as much as the changes, and one look
 * at the slots. Nothing is different if it fails. */
enum slots_verdict slots_try_change(struct slot_table *table, const struct backend_change *changes,
                                    size_t n);

/** Makes a list of what is desired, for when the slots in the kernel turn out to be others. Without
 * a change, that is what is in the first @count slots. */
void slots_list(struct slot_table *table, uint32_t count);

/** Plans how what is desired comes about, unless that is planned. */
void slots_make_plan(struct slot_table *table);

/** How many slots the plan changes. */
size_t slots_weight(const struct slot_table *table);

/** No more than @most of them go with this commit. Returns how many do. */
size_t slots_stage(struct slot_table *table, size_t most);

/* What of the plan goes with this commit. Borrowed. */
struct slot_steps {
    const struct slot_move *moves;
    const struct backend *added; /* in slots n_slots, n_slots + 1... */
    size_t n_moves, n_added;
};
struct slot_steps slots_steps(const struct slot_table *table);

/** That was applied; the rest is still planned. Slots beyond the new count are still there. */
void slots_apply(struct slot_table *table);

/** Nothing of it is in the kernel any more: call slots_list() first. */
void slots_forget(struct slot_table *table);

/** The kernel has @backend in a slot, which may be empty. */
void slots_put(struct slot_table *table, uint32_t slot, const struct backend *backend);

/** Frees what @table has. */
void slots_clear(struct slot_table *table);

#endif
