/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Computes how a change of one slice changes the merged endpoints of its Service. Several slices
 * may hold copies of an endpoint (docs/behaviour.md 2.4, 2.5). One copy wins: not terminating goes
 * before terminating, then slice id and index decide.
 */
#ifndef KUBE_NFTD_CACHE_ENDPOINT_MERGE_H
#define KUBE_NFTD_CACHE_ENDPOINT_MERGE_H

#include "kube-nftd/cache.h"

/* A slice of a Service. */
struct member {
    const struct endpoint_slice *slice;
    uint32_t number; /* never 0, and no other slice of the Service ever has it */
};

/* The slices of a Service. Starts zeroed. */
struct members {
    VEC(struct member) by_id;
    uint32_t last_number;
    struct address_index *index; /* NULL: made when a change needs it */
};

/* An address affected by a change of a slice. */
struct endpoint_pair {
    const struct address *address;
    const struct slice_endpoint *before, *after; /* winning copy within the slice; or NULL */
};

/* A slice of a Service is added, changed or removed. Scratch; starts zeroed. */
struct endpoint_merge {
    const struct endpoint_slice *before, *after; /* NULL: added, removed */
    struct members *members;                     /* of the Service */
    uint32_t number;                             /* of the slice */
    bool compared;                               /* what follows is filled */
    bool differ;                                 /* in some pair, before and after differ */
    VEC(struct endpoint_pair) pairs;             /* other addresses are unchanged */
    VEC(uint32_t) buckets;                       /* hash of pairs by address; index plus 1 */
    endpoint_delta_vec deltas;                   /* of the last service port */
};

/** Updates the index of merge->members, if there is one, for the change. */
void endpoint_merge_finish(const struct endpoint_merge *merge);

void endpoint_merge_clear(struct endpoint_merge *merge);

#endif
