/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Elements that another program changed, of entries that stay as applied while the kernel rejects
 * their desired state: quarantined ones, and frontends of a quarantined service port. The next
 * commit makes them as applied again; what was rejected waits for its retry.
 */
#ifndef KUBE_NFTD_TABLE_RESTORE_H
#define KUBE_NFTD_TABLE_RESTORE_H

#include "observe.h"

/* An element of @entry that is not as applied. */
struct restored {
    enum table_set set;
    struct entry *entry;
    uint32_t slot;
    bool there; /* the kernel has another one under the key */
};

/** Whether changes of @entry (may be NULL) by other programs are undone, not recorded. Not of what
 * goes: it may as well be gone. */
bool restore_keeps(const struct entry *entry);

/** Another program changed the element under the key of @applied, of an entry that is kept: the
 * kernel has another one or (@there is false) none. */
void restore_note(struct ruleset *rs, enum table_set set, const struct applied_element *applied,
                  bool there);

/** Adds the messages that restore these elements to ruleset->batch. */
void restore_encode(struct ruleset *rs);

#endif
