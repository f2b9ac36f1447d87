/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Plain elements: those of the sets and maps that are not keyed by a frontend or a service port.
 * By how many each is desired, and whether it is applied.
 */
#ifndef KUBE_NFTD_TABLE_PLAIN_H
#define KUBE_NFTD_TABLE_PLAIN_H

#include "element.h"
#include "kube-nftd/base.h"

/* One element. For ranges the key is the first address and behind it the last one. */
struct plain {
    struct hash_link link; /* by set and key */
    uint32_t desired;      /* by how many */
    bool dirty : 1;        /* in elements->dirty: desired may differ from applied */
    bool applied : 1;
    bool quarantined : 1; /* the kernel rejected it: stays as it is there */
    bool seen : 1;        /* while its set is audited */
    uint8_t value_length;
    uint8_t key_length;
    /* The set, the key, the value desired, the value applied. */
    uint8_t bytes[];
};

/* Starts zeroed. */
struct plain_elements {
    struct hash_table all; /* of struct plain */
    VEC(struct plain *) dirty;
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

/** One more desires the element; @value is NULL for sets. All who do desire the same value. */
void plain_desire(struct plain_elements *elements, enum table_set set, const struct key *key,
                  const struct key *value);

/** One less desires it. */
void plain_drop(struct plain_elements *elements, enum table_set set, const struct key *key);

/** The kernel was found to hold an element, or not to; it is dirty then. False if that was known.
 */
bool plain_observe(struct plain_elements *elements, enum table_set set, const struct key *key,
                   const struct key *value, bool there);

/** Nothing is known to be applied any more. */
void plain_forget_applied(struct plain_elements *elements);

/** A dirty element shall neither come nor go, until plain_retry(), or somebody desires or drops it.
 */
void plain_quarantine(struct plain_elements *elements, struct plain *plain);
void plain_retry(struct plain_elements *elements);

/** Whether a dirty element must be deleted or added; both if its value is another. */
bool plain_goes(const struct plain *plain);
bool plain_comes(const struct plain *plain);

/** That was done. */
void plain_apply(struct plain_elements *elements);

void plain_free(struct plain_elements *elements);

#endif
