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

/** The endpoint is ready. */
bool endpoint_is_ready(const struct endpoint *endpoint);

/** The endpoint is not ready, but still serves while it terminates: the fallback. */
bool endpoint_is_fallback(const struct endpoint *endpoint);

/** The endpoint is on the node @here. */
bool endpoint_is_local(const struct endpoint *endpoint, const struct location *here);

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
