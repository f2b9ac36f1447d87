/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the selection of endpoints counts, for those who follow single endpoints. */
#ifndef KUBE_NFTD_POLICY_SELECTION_H
#define KUBE_NFTD_POLICY_SELECTION_H

#include "kube-nftd/policy.h"

/* What of an endpoint counts here; a bit each. No bits: there is no endpoint. */
enum endpoint_trait {
    TRAIT_EXISTS = 1 << 0,
    TRAIT_READY = 1 << 1,
    TRAIT_FALLBACK = 1 << 2, /* not ready, but still serving while it terminates */
    TRAIT_SERVING = 1 << 3,
    TRAIT_NAMES_NODE = 1 << 4,
    TRAIT_LOCAL = 1 << 5,
    TRAIT_NODE_HINTS = 1 << 6, /* some */
    TRAIT_FOR_NODE = 1 << 7,   /* one of them names us */
    TRAIT_ZONE_HINTS = 1 << 8,
    TRAIT_FOR_ZONE = 1 << 9,
};

/** What counts of an endpoint with these attributes (flags of enum endpoint_flag). */
unsigned endpoint_traits(uint8_t flags, const char *node_name, const struct endpoint_hints *hints,
                         const struct location *here);

/** One more endpoint has these traits; or, with @sign -1, one less. */
void selection_count(struct selection_counts *counts, unsigned traits, int sign);

/** What decides if there are so many. */
struct selection_basis selection_basis_of(const struct selection_counts *counts);

/** Whether the two lead to the same verdicts on all endpoints. */
bool selection_basis_equal(const struct selection_basis *a, const struct selection_basis *b);

/** The sets of an endpoint with these traits. */
uint8_t selection_sets(unsigned traits, const struct selection_basis *basis);

/** Makes @decision that of @port, which is not gone. */
void decision_make(struct decision *decision, const struct endpoint_slice_cache *slices,
                   const struct surroundings *here, const struct port_state *port);

#endif
