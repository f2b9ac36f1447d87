/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The slots of a service port (base.nft): the backend the kernel has in each, the desired backends,
 * and the changes from one to the other, as few as possible. Backends below the new count keep
 * their slots; the others, new or from slots beyond it, fill the gaps. Pure.
 */
#ifndef KUBE_NFTD_TABLE_SLOTS_H
#define KUBE_NFTD_TABLE_SLOTS_H

#include "kube-nftd/base.h"
#include "kube-nftd/net.h"

#include <stdbool.h>
#include <stddef.h>

/* ---- from one list of backends to another ---- */

/* A slot gets another backend. */
struct slot_move {
    uint32_t slot;
    struct backend backend;
};

/* The difference to the existing slots. Starts zeroed. */
struct slot_plan {
    VEC(struct slot_move) moves; /* within the existing slots, ascending */
    struct backend *added;       /* backends of the slots after those; NULL if none */
};

/* Sorted by backend_compare, no duplicates; borrowed. */
struct backends {
    const struct backend *v;
    size_t n;
};

/** Whether @slot is empty, marked by port 0. */
static inline bool slot_is_empty(const struct backend *slot)
{
    return slot->port == 0;
}

/* ---- the slots of a service port ---- */

/* A pending change of the slots. */
struct slot_change {
    bool planned;            /* plan is valid; before that, desired is */
    struct backend *desired; /* sorted */
    struct slot_plan plan;
};

/* Starts zeroed. */
struct slot_table {
    struct backend *slots; /* in the kernel */
    uint32_t n_slots;      /* at least the count; some may be empty, see slots_apply() */
    uint32_t n_desired;
    uint32_t n_added;           /* slots at the end that a commit adds; those missing then wait */
    uint32_t n_trimmed;         /* slots at the end that a commit deletes: see port_kept_slots() */
    struct slot_change *change; /* NULL: the first n_desired slots are as desired */
};

/** Sets the desired backends: @n, sorted, copied; at most MAX_BACKENDS. */
void slots_set(struct slot_table *table, const struct backend *backends, size_t n);

enum slots_verdict {
    SLOTS_CHANGED,
    SLOTS_UNKNOWN, /* a change is pending, or too large, or not all backends are known: use
                      slots_set() */
    SLOTS_MISTAKEN /* the changes do not match the applied backends: likewise */
};

/** Adds the desired backends that come to @set, and removes those that go from it. The changes are
 * sorted, one of each backend. Costs as much as they are, plus one scan of the slots. On failure
 * nothing changes.
 * @most  slots that it may add */
enum slots_verdict slots_try_change(struct slot_table *table, const backend_change_vec *changes,
                                    enum backend_set set, size_t most);

/** Turns the desired state into a list, for when the slots in the kernel may differ. Without a
 * pending change these are the backends of the first @count slots. */
void slots_list(struct slot_table *table, uint32_t count);

/** Plans the pending change, if that is not done yet. */
void slots_make_plan(struct slot_table *table);

/** How many slots after the existing ones the plan adds, in this commit and later ones. */
static inline size_t slots_missing(const struct slot_table *table)
{
    return table->n_desired > table->n_slots ? table->n_desired - table->n_slots : 0;
}

/** How many backends are to be reached after this commit: all desired ones, or those of the slots
 * up to now and of the added ones. */
static inline uint32_t slots_count(const struct slot_table *table)
{
    const uint32_t n = table->n_slots + table->n_added;
    return table->change && n < table->n_desired ? n : table->n_desired;
}

/** The backends of these slots after this commit, some perhaps empty. The caller frees the array.
 */
backend_vec slots_planned(const struct slot_table *table);

struct slot_range {
    uint32_t from, to;
};

/** Records the plan as applied, up to the added slots, and the slots in @emptied as deleted. Others
 * beyond the new count remain. */
void slots_apply(struct slot_table *table, struct slot_range emptied);

/** Forgets the slots in the kernel. Call slots_list() first. */
void slots_forget(struct slot_table *table);

/** Records @backend (may be empty) in a slot of the kernel. */
void slots_put(struct slot_table *table, uint32_t slot, const struct backend *backend);

/** Frees the contents of @table. */
void slots_clear(struct slot_table *table);

#endif
