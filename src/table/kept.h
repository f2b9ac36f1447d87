/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Entries that stay as applied while the kernel rejects what is desired of them, or of the service
 * port that they lead to. What other programs change of them is not recorded: the next commit makes
 * it as applied again; what was rejected waits for its retry.
 */
#ifndef KUBE_NFTD_TABLE_KEPT_H
#define KUBE_NFTD_TABLE_KEPT_H

#include "entry.h"

struct ruleset;

/* An element that another program changed. */
struct restored {
    enum table_set set;
    struct entry *entry;
    uint32_t slot;
    bool there; /* the kernel has another one under the key */
};

/* What was applied of an entry before the table is read. */
struct kept {
    struct entry *entry;
    uint32_t applied[NUMBER_SETS];  /* in its sets, from first_set() on */
    struct slot_table parts[PARTS]; /* their slots alone */
};

/* Starts zeroed. */
struct keeping {
    VEC(struct restored) restored; /* by the next commit */
    VEC(struct kept) all;          /* while the table is read */
    bool complete;                 /* these are all; nothing that is read changes them */
};

/** Whether changes of @entry (may be NULL) are undone, not recorded. Not of what goes: it may as
 * well be gone. */
bool entry_is_kept(const struct entry *entry);

/** The kernel has another element under the key of @applied, whose entry is kept, or none. */
void kept_differs(struct ruleset *rs, enum table_set set, const struct applied_element *applied,
                  bool there);

/** The kernel rejects to have an element again: it is applied no more. False if it was not to be
 * restored. */
bool kept_give_up(struct ruleset *rs, enum table_set set, struct entry *entry, uint32_t slot);

/** Notes what is applied of @entry, if it is kept, before the table is read. */
void kept_note(struct ruleset *rs, struct entry *entry);

/** Compares what was noted with what was read. */
void kept_compare(struct ruleset *rs);

/** Forgets what was noted. */
void kept_forget(struct ruleset *rs);

#endif
