/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The elements of the sets and maps that are not keyed by a frontend: which are wanted, by how
 * many, and which the kernel holds.
 */
#ifndef KUBE_NFTD_TABLE_CONTENTS_H
#define KUBE_NFTD_TABLE_CONTENTS_H

#include "kube-nftd/base.h"
#include "schema.h"

#include <stdbool.h>
#include <stdint.h>

/* One element. For ranges the key is the first address and behind it the last one. */
struct content {
    struct hash_link link; /* by set and key */
    uint32_t wanted;       /* by how many */
    bool pending;          /* in contents->pending: wanted may differ from the kernel */
    bool in_kernel;
    bool left_out; /* the kernel refused it: stays as it is there */
    bool seen;     /* while its set is looked through (drift.h) */
    uint8_t value_length;
    uint8_t key_length;
    /* The set, the key, the value wanted, the value in the kernel. */
    uint8_t bytes[];
};

/* Starts zeroed. */
struct contents {
    struct hash_table all; /* of struct content */
    VEC(struct content *) pending;
    VEC(struct content *) left_out;
};

enum table_set content_set_of(const struct content *content);
const uint8_t *content_key(const struct content *content);
uint8_t *content_value(struct content *content);
uint8_t *content_kernel_value(struct content *content);

/** One more wants the element; @value is NULL for sets. All who want it want the same value. */
void contents_want(struct contents *contents, enum table_set set, const struct key *key,
                   const struct key *value);

/** One less wants it. */
void contents_drop(struct contents *contents, enum table_set set, const struct key *key);

/** The element, or NULL. */
struct content *contents_find(const struct contents *contents, enum table_set set,
                              const struct key *key);

/** Notes that the kernel holds an element; false if that was known already. */
bool contents_adopt(struct contents *contents, enum table_set set, const struct key *key,
                    const struct key *value);

/** The kernel was found to hold an element, or not to; it is pending then. */
void contents_observe(struct contents *contents, enum table_set set, const struct key *key,
                      const struct key *value, bool there);

/** Nothing is known to be in the kernel any more: all that is wanted is pending. */
void contents_forget_kernel(struct contents *contents);

/** A pending element shall neither come nor go, until it is let in again or somebody wants or drops
 * it. */
void contents_leave_out(struct contents *contents, struct content *content);

/** All that was left out is pending again. */
void contents_let_in(struct contents *contents);

/** What is pending, and not left out, is in force. */
void contents_apply(struct contents *contents);

/** Whether a pending element must be deleted or added; both if its value is another. */
bool content_goes(const struct content *content);
bool content_comes(const struct content *content);

void contents_free(struct contents *contents);

#endif
