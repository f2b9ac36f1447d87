/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The selection by traits and counts, for callers that track single endpoints. */
#ifndef KUBE_NFTD_POLICY_SELECTION_H
#define KUBE_NFTD_POLICY_SELECTION_H

#include "kube-nftd/policy.h"

/* What selection depends on, as bits: 1 << SORT_* for each sort of an endpoint, and these. 0: no
 * endpoint. */
enum endpoint_trait {
    TRAIT_SERVING = 1 << SORTS,
    TRAIT_NAMES_NODE = 2 << SORTS,
    TRAIT_LOCAL = 4 << SORTS,
};

/** The traits of an endpoint with these attributes (flags of enum endpoint_flag). */
unsigned endpoint_traits(uint8_t flags, const char *node_name, const struct endpoint_hints *hints,
                         const struct location *here);

/** Adds an endpoint with these traits to @counts, or removes it (@sign 1 or -1). */
void selection_count(struct selection_counts *counts, unsigned traits, int sign);

struct selection_basis selection_basis_of(const struct selection_counts *counts);

/** Whether both give the same verdicts on all endpoints. */
bool selection_basis_equal(const struct selection_basis *a, const struct selection_basis *b);

/** The sets of an endpoint with these traits. */
uint8_t selection_sets(unsigned traits, const struct selection_basis *basis);

/** Decides @port, which must not be removed. */
void decision_make(struct decision *decision, const struct endpoint_slice_cache *slices,
                   const struct surroundings *here, const struct port_state *port);

#endif
