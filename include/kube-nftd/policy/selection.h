/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Which endpoints of a service port take new connections (docs/behaviour.md 3, KEP-1669). Pure
 * functions over plain values: no cache, no clock, no kernel.
 */
#ifndef KUBE_NFTD_POLICY_SELECTION_H
#define KUBE_NFTD_POLICY_SELECTION_H

#include "kube-nftd/cache/endpoint_slice_cache.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The sets that an endpoint can be in; a bit each. */
enum endpoint_set {
    SET_CLUSTER = 1 << 0, /* for traffic policy Cluster, and the short-circuit under Local */
    SET_LOCAL = 1 << 1,   /* for traffic policy Local */
};

/* Where we are: interned names, to be compared with those of endpoints and hints as pointers. */
struct location {
    const char *node_name;
    const char *zone; /* NULL if the node has none, or is not known yet */
};

/* What of an endpoint counts here, for the selection and around it; a bit each. No bits: there is
 * no endpoint. */
enum endpoint_trait {
    TRAIT_EXISTS = 1 << 0,
    TRAIT_READY = 1 << 1,
    TRAIT_FALLBACK = 1 << 2, /* see endpoint_is_fallback() */
    TRAIT_SERVING = 1 << 3,
    TRAIT_NAMES_NODE = 1 << 4,
    TRAIT_LOCAL = 1 << 5,
    TRAIT_NODE_HINTS = 1 << 6, /* some */
    TRAIT_FOR_NODE = 1 << 7,   /* one of them names us */
    TRAIT_ZONE_HINTS = 1 << 8,
    TRAIT_FOR_ZONE = 1 << 9,
};

/* How many endpoints of a service port are of a sort; hints count with the ready ones only. */
struct selection_counts {
    uint32_t endpoints, ready, fallback, local_ready, local_fallback;
    uint32_t node_hints, for_node, zone_hints, for_zone;
};

struct selection {
    bool has_any;        /* some endpoint on some node could serve; if not, traffic is rejected */
    size_t cluster_size; /* endpoints with SET_CLUSTER */
    size_t local_size;   /* endpoints with SET_LOCAL */
    struct selection_counts counts;
};

/* Whether hints of one sort, for nodes or for zones, decide the Cluster set
 * (docs/behaviour.md 3.3). */
enum hint_state {
    HINTS_ABSENT,     /* no ready endpoint has any */
    HINTS_INCOMPLETE, /* some have, but not all */
    HINTS_ELSEWHERE,  /* all have, but none names us */
    HINTS_APPLY,
};

/* What the verdicts on all endpoints of one service port rest on. */
struct selection_basis {
    bool ready, fallback, local_ready; /* there are such endpoints */
    enum hint_state node_hints, zone_hints;
};

/* Whether an endpoint is in a set, and why not. */
enum endpoint_verdict {
    VERDICT_USED,
    VERDICT_NOT_READY,   /* neither ready, nor terminating and serving */
    VERDICT_TERMINATING, /* it could serve, but there are ready ones */
    VERDICT_OTHER_NODE,  /* not on this node */
    VERDICT_NODE_HINT,   /* its node hints do not name this node, others' do */
    VERDICT_ZONE_HINT,   /* its zone hints do not name this zone, others' do */
};

/** The endpoint is ready. */
bool endpoint_is_ready(const struct endpoint *endpoint);

/** The endpoint is not ready, but still serves while it terminates: the fallback. */
bool endpoint_is_fallback(const struct endpoint *endpoint);

/** The endpoint is on the node @here. */
bool endpoint_is_local(const struct endpoint *endpoint, const struct location *here);

/** What counts of an endpoint with these attributes (flags of enum endpoint_flag). */
unsigned endpoint_traits(uint8_t flags, const char *node_name, const struct endpoint_hints *hints,
                         const struct location *here);

/** One more endpoint has these traits; or, with @sign -1, one less. */
void selection_count(struct selection_counts *counts, unsigned traits, int sign);

/** All of the @n endpoints, counted. */
struct selection_counts selection_count_all(const struct endpoint *endpoints, size_t n,
                                            const struct location *here);

/** What decides if there are so many. */
struct selection_basis selection_basis_of(const struct selection_counts *counts);

/** Whether the two lead to the same verdicts on all endpoints. While some are ready, those that
 * terminate count for nothing. */
bool selection_basis_equal(const struct selection_basis *a, const struct selection_basis *b);

/** How many are in the Local set. */
size_t selection_local_size(const struct selection_counts *counts);

/** The sets of an endpoint with these traits. */
uint8_t selection_sets(unsigned traits, const struct selection_basis *basis);

/** What decides about the @n endpoints. */
struct selection_basis selection_basis(const struct endpoint *endpoints, size_t n,
                                       const struct location *here);

/** What becomes of one of them in the Cluster set, and in the Local set. */
enum endpoint_verdict endpoint_cluster_verdict(const struct endpoint *endpoint,
                                               const struct location *here,
                                               const struct selection_basis *basis);
enum endpoint_verdict endpoint_local_verdict(const struct endpoint *endpoint,
                                             const struct location *here,
                                             const struct selection_basis *basis);

/**
 * Puts the sets of each of the @n endpoints into @sets[i].
 *
 * Cluster set: the ready ones, as far as the topology filter leaves them (node hints, then zone
 * hints, docs/behaviour.md 3.3); if there is none ready at all, those that still serve while they
 * terminate. Local set: the ready ones on this node; if there is none, the terminating ones on this
 * node. Never one that neither is ready nor serves.
 */
struct selection select_endpoints(const struct endpoint *endpoints, size_t n,
                                  const struct location *here, uint8_t *sets);

#endif
