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
    SET_CLUSTER = 1 << 0, /* takes connections to the service from anywhere */
};

struct selection {
    bool has_any;        /* some endpoint on some node could serve; if not, traffic is rejected */
    size_t cluster_size; /* endpoints with SET_CLUSTER */
};

/** The endpoint is ready. */
bool endpoint_is_ready(const struct endpoint *endpoint);

/** The endpoint is not ready, but still serves while it terminates: the fallback. */
bool endpoint_is_fallback(const struct endpoint *endpoint);

/**
 * Puts the sets of each of the @n endpoints into @sets[i]: the ready ones; if there is none at
 * all, those that still serve while they terminate; never one that neither is ready nor serves.
 */
struct selection select_endpoints(const struct endpoint *endpoints, size_t n, uint8_t *sets);

#endif
