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
    /* Tells for nearly all addresses whether they are not in the slice. NULL: made when a change of
     * another slice needs it. */
    struct address_filter *filter;
};

typedef VEC(struct member) member_vec;

/* An address affected by a change of a slice. */
struct endpoint_pair {
    const struct address *address;
    const struct slice_endpoint *before, *after; /* winning copy within the slice; or NULL */
};

/* A slice of a Service is added, changed or removed. Scratch; starts zeroed. */
struct endpoint_merge {
    const struct endpoint_slice *before, *after; /* NULL: added, removed */
    enum family family;
    const member_vec *members;       /* of the Service, sorted by id */
    bool compared;                   /* what follows is filled */
    bool differ;                     /* in some pair, before and after differ */
    VEC(struct endpoint_pair) pairs; /* other addresses are unchanged */
    VEC(uint32_t) buckets;           /* hash of pairs by address; index plus 1 */
    endpoint_delta_vec deltas;       /* of the last service port */
};

/** Updates the filter of @member, whose slice changed as @merge says. */
void endpoint_merge_finish(const struct endpoint_merge *merge, struct member *member);

void endpoint_merge_clear(struct endpoint_merge *merge);

#endif
