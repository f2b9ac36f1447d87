/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Which endpoints of a service port take new connections (spec 3, KEP-1669). Pure functions over
 * plain values: no cache, no clock, no kernel.
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

struct selection {
    bool has_any;        /* some endpoint on some node could serve; if not, traffic is rejected */
    size_t cluster_size; /* endpoints with SET_CLUSTER */
    size_t local_size;   /* endpoints with SET_LOCAL */
};

/* Whether hints of one sort, for nodes or for zones, decide the Cluster set (spec 3.3). */
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
 * hints, spec 3.3); if there is none ready at all, those that still serve while they terminate.
 * Local set: the ready ones on this node; if there is none, the terminating ones on this node.
 * Never one that neither is ready nor serves.
 */
struct selection select_endpoints(const struct endpoint *endpoints, size_t n,
                                  const struct location *here, uint8_t *sets);

#endif
