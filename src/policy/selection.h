/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The selection by traits and counts, for callers that track single endpoints. */
#ifndef KUBE_NFTD_POLICY_SELECTION_H
#define KUBE_NFTD_POLICY_SELECTION_H

#include "kube-nftd/policy.h"

/* The traits of an endpoint that selection depends on; a bit each. 0: no endpoint. */
enum endpoint_trait {
    TRAIT_EXISTS = 1 << 0,
    TRAIT_READY = 1 << 1,
    TRAIT_FALLBACK = 1 << 2, /* not ready, but serving while terminating */
    TRAIT_SERVING = 1 << 3,
    TRAIT_NAMES_NODE = 1 << 4,
    TRAIT_LOCAL = 1 << 5,
    TRAIT_NODE_HINTS = 1 << 6, /* has some */
    TRAIT_FOR_NODE = 1 << 7,   /* one names this node */
    TRAIT_ZONE_HINTS = 1 << 8,
    TRAIT_FOR_ZONE = 1 << 9,
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
