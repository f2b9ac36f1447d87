/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Plain elements (entry.h): those of sets and maps that are not keyed by a frontend or a service
 * port. Several may desire one; all of them share its value.
 */
#ifndef KUBE_NFTD_TABLE_PLAIN_H
#define KUBE_NFTD_TABLE_PLAIN_H

#include "entry.h"

/** The element, or NULL. */
struct plain *plain_find(const struct ruleset *rs, enum table_set set, const struct key *key);

/** Takes a reference to the element; @value is NULL for sets. */
void plain_desire(struct ruleset *rs, enum table_set set, const struct key *key,
                  const struct key *value);

/** Drops a reference. */
void plain_drop(struct ruleset *rs, enum table_set set, const struct key *key);

/** Records that the kernel has or lacks an element and marks it dirty. False if already known. */
bool plain_observe(struct ruleset *rs, enum table_set set, const struct key *key,
                   const struct key *value, bool there);

/** See entry_desired(): 0; 1, what is applied, if something is; 2, another value. */
uint32_t plain_desired(const struct plain *plain);

/** See entry_set_applied(). */
void plain_set_applied(struct plain *plain, uint32_t desired);

#endif
