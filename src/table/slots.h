/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Which backend goes into which slot of a frontend: as few slots as can be get another one. What
 * has a place below the new count keeps it, what is left fills the gaps, the last ones moving down
 * into them. Pure.
 */
#ifndef KUBE_NFTD_TABLE_SLOTS_H
#define KUBE_NFTD_TABLE_SLOTS_H

#include "kube-nftd/base.h"
#include "kube-nftd/model.h"

#include <stdbool.h>
#include <stddef.h>

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
bool slot_is_empty(const struct backend *slot);

/** Plans for @wanted, and no other backends, to be in the slots from 0 on, of which @old are there
 * (not sorted; some may be empty). @plan is empty before. */
void slots_arrange(const struct backends *old, const struct backends *wanted,
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

#endif
