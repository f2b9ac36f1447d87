/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What a slice's change makes of the endpoints of a service port (docs/behaviour.md 2.4, 2.5). */
#ifndef KUBE_NFTD_CACHE_ENDPOINT_DIFF_H
#define KUBE_NFTD_CACHE_ENDPOINT_DIFF_H

#include "address_index.h"
#include "kube-nftd/cache.h"

/* A slice of a Service becomes another, comes or goes. */
struct slice_change {
    const struct endpoint_slice *before, *after; /* NULL: there was, or is, none */
    const struct address_index *others; /* of all slices of the Service; NULL: it has no others */
    uint32_t number;                    /* of this one among them */
};

/* What the two slices have of a service port. */
struct port_change {
    struct slice_ports before, after;
    bool numbers_differ;
};

/* A part of a slice's endpoints. */
struct endpoint_range {
    const struct endpoint_slice *slice; /* NULL: none */
    size_t from, to;
};

/* The copies in one slice that win before and after. */
struct endpoint_pair {
    const struct address *address;
    const struct slice_endpoint *before, *after;
    uint16_t port;
};

/* Scratch. Starts zeroed. */
struct endpoint_diff {
    struct endpoint_range before, after; /* which ones may differ if the numbers do not */
    VEC(struct endpoint_pair) pairs;
    VEC(uint32_t) buckets;
    endpoint_change_vec changes;
};

/** To be called once for a change. Costs as much as the slice. */
void endpoint_diff_begin(struct endpoint_diff *diff, const struct slice_change *change);

/**
 * Finds what @change makes of a service port. Costs as much as its endpoints in the slice, or if
 * few of them differ, as much as these. The result, without what stays as it is, is in
 * diff->changes until the next call.
 */
void endpoint_diff_make(struct endpoint_diff *diff, const struct slice_change *change,
                        const struct port_change *ports);

/** Frees what it holds. */
void endpoint_diff_clear(struct endpoint_diff *diff);

#endif
