/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What a change of one slice makes of the endpoints of a service port (spec 2.4, 2.5). */
#ifndef KUBE_NFTD_CACHE_ENDPOINT_DIFF_H
#define KUBE_NFTD_CACHE_ENDPOINT_DIFF_H

#include "kube-nftd/cache/address_index.h"
#include "kube-nftd/model/object.h"

/* Another copy of an endpoint wins now, or one of other attributes. Borrowed. */
struct endpoint_change {
    struct address address;
    uint16_t port;
    const struct slice_endpoint *before, *after; /* NULL: there was, or is, none */
};

typedef VEC(struct endpoint_change) endpoint_change_vec;

/* A slice of a Service becomes another, comes or goes. */
struct slice_change {
    const struct endpoint_slice *before, *after; /* NULL: there was, or is, none */
    const struct address_index *others; /* of all slices of the Service; NULL: it has no others */
    uint32_t number;                    /* of this one among them */
};

/* The copies in one slice that win before and after. */
struct endpoint_pair {
    const struct address *address;
    const struct slice_endpoint *before, *after;
    uint16_t port;
};

/* Scratch. Starts zeroed. */
struct endpoint_diff {
    VEC(struct endpoint_pair) pairs;
    VEC(uint32_t) buckets;
    endpoint_change_vec changes;
};

/**
 * Finds what @change makes of the port of that name and protocol. Costs as much as the slice.
 * The result, without what stays as it is, is in diff->changes until the next call.
 */
void endpoint_diff_make(struct endpoint_diff *diff, const struct slice_change *change,
                        const struct slice_port *port);

/** Frees what it holds. */
void endpoint_diff_clear(struct endpoint_diff *diff);

#endif
