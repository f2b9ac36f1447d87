/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Plain elements: those of sets and maps not keyed by a frontend or a service port. Each has a
 * refcount of who desires it, and whether it is applied.
 */
#ifndef KUBE_NFTD_TABLE_PLAIN_H
#define KUBE_NFTD_TABLE_PLAIN_H

#include "element.h"
#include "kube-nftd/base.h"

/* One element. The key of a range is its first and last address. */
struct plain {
    struct hash_link link; /* by set and key */
    uint32_t desired;      /* refcount */
    bool dirty : 1;        /* in elements->dirty: desired may differ from applied */
    bool applied : 1;
    bool quarantined : 1; /* the kernel rejected it: stays as applied */
    bool seen : 1;        /* during an audit of its set */
    uint8_t value_length;
    uint8_t key_length;
    /* Set, key, desired value, applied value. */
    uint8_t bytes[];
};

/* Starts zeroed. */
struct plain_elements {
    struct hash_table all; /* struct plain */
    VEC(struct plain *) dirty;
    VEC(struct plain *) aside; /* dirty too, but not in that; cluster IPs are last */
    size_t aside_at;           /* the first that is still aside */
    VEC(struct plain *) quarantined;
};

static inline enum table_set plain_set(const struct plain *plain)
{
    return (enum table_set)plain->bytes[0];
}

static inline const uint8_t *plain_key(const struct plain *plain)
{
    return plain->bytes + 1;
}

static inline uint8_t *plain_value(struct plain *plain)
{
    return plain->bytes + 1 + plain->key_length;
}

static inline uint8_t *plain_applied_value(struct plain *plain)
{
    return plain_value(plain) + plain->value_length;
}

/** The element, or NULL. */
struct plain *plain_find(const struct plain_elements *elements, enum table_set set,
                         const struct key *key);

/** Takes a reference to the element; @value is NULL for sets. All references share one value. */
void plain_desire(struct plain_elements *elements, enum table_set set, const struct key *key,
                  const struct key *value);

/** Drops a reference. */
void plain_drop(struct plain_elements *elements, enum table_set set, const struct key *key);

/** Records that the kernel has or lacks an element and marks it dirty. False if already known. */
bool plain_observe(struct plain_elements *elements, enum table_set set, const struct key *key,
                   const struct key *value, bool there);

/** Forgets all applied elements. */
void plain_forget_applied(struct plain_elements *elements);

/** Excludes a dirty element from commits, until plain_retry() or a change of its references. */
void plain_quarantine(struct plain_elements *elements, struct plain *plain);
void plain_retry(struct plain_elements *elements);

/** Whether a dirty element must be deleted; added; both if its value changed. */
bool plain_goes(const struct plain *plain);
bool plain_comes(const struct plain *plain);

/** Takes dirty elements out of the next commits, but for ranges; and up to @most of them back.
 * Those of cluster IPs only if @cluster_ips. Returns how many. */
void plain_set_aside(struct plain_elements *elements);
size_t plain_take_back(struct plain_elements *elements, size_t most, bool cluster_ips);

/** Records these changes as applied. */
void plain_apply(struct plain_elements *elements);

void plain_free(struct plain_elements *elements);

#endif
