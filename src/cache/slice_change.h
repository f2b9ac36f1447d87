/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Computes how a change of one slice changes the merged endpoints of its Service. A slice may hold
 * copies of an endpoint (docs/behaviour.md 2.4, 2.5). One wins: the one of the lowest rank, then
 * the first. Other slices may hold copies, too; that is found out, and no more.
 *
 * The work is that of the changed endpoints and their service ports.
 */
#ifndef KUBE_NFTD_CACHE_SLICE_CHANGE_H
#define KUBE_NFTD_CACHE_SLICE_CHANGE_H

#include "kube-nftd/cache.h"

/** Orders copies of an endpoint by their flags: the lowest rank wins. Not terminating, as an
 * address that is used again belongs to the new Pod; then ready, then serving. */
static inline unsigned copy_rank(uint8_t flags)
{
    return (flags & ENDPOINT_TERMINATING ? 4 : 0) + (flags & ENDPOINT_READY ? 0 : 2) +
           (flags & ENDPOINT_SERVING ? 0 : 1);
}

/* The slices of a Service. Starts zeroed. */
struct members {
    VEC(const struct endpoint_slice *) by_id;
    struct address_index *index; /* NULL: made when a change needs it */
};

/* An address affected by a change of a slice. */
struct endpoint_pair {
    const struct address *address;
    const struct slice_endpoint *before, *after; /* winning copy within the slice; or NULL */
    uint32_t n_before, n_after;                  /* copies within the slice */
    bool elsewhere;                              /* other slices may have some, too */
};

/* A slice of a Service is added, changed or removed. Scratch; starts zeroed. */
struct slice_comparison {
    const struct endpoint_slice *before, *after; /* NULL: added, removed */
    struct members *members;                     /* of the Service */
    bool compared;                               /* the pairs are those of this change */
    VEC(struct endpoint_pair) pairs;             /* other addresses are unchanged */
    VEC(uint32_t) buckets;                       /* hash of pairs by address; index plus 1 */
    endpoint_delta_vec deltas;                   /* of the last service port */
};

/** Updates the index of comparison->members, if there is one, for the change. */
void slice_comparison_finish(struct slice_comparison *comparison);

void slice_comparison_clear(struct slice_comparison *comparison);

#endif
