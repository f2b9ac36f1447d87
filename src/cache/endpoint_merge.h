/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Computes how a change of one slice changes the merged endpoints of its Service. Several slices
 * may hold copies of an endpoint (docs/behaviour.md 2.4, 2.5). One copy wins: not terminating goes
 * before terminating, then slice id and index decide.
 */
#ifndef KUBE_NFTD_CACHE_ENDPOINT_MERGE_H
#define KUBE_NFTD_CACHE_ENDPOINT_MERGE_H

#include "kube-nftd/cache.h"

/* An address of a slice. */
struct indexed_address {
    uint32_t rank;  /* hash of the address; lowest bit: terminating */
    uint32_t slice; /* index into address_index.slices */
};

typedef VEC(struct indexed_address) address_bucket;

/*
 * Maps an address to the slices of one family that contain it, for Services with several slices:
 * the winning copy is found without scanning them all. Each bucket is sorted by rank and slice id,
 * so the winner comes first. Starts zeroed.
 */
struct address_index {
    address_bucket *buckets;
    unsigned bits; /* number of leading bits of a rank that select its bucket */
    size_t n;      /* in all buckets */
    VEC(const struct endpoint_slice *) slices; /* NULL: unused number */
    size_t n_slices;
};

/* An address affected by a change of a slice. */
struct endpoint_pair {
    const struct address *address;
    const struct slice_endpoint *before, *after; /* winning copy within the slice; or NULL */
};

/* A slice of a Service is added, changed or removed. Scratch; starts zeroed. */
struct endpoint_merge {
    const struct endpoint_slice *before, *after; /* NULL: added, removed */
    const struct address_index *index;           /* of the Service's slices; NULL: only this one */
    bool compared;                               /* pairs is filled */
    bool differ;                                 /* in some pair, before and after differ */
    VEC(struct endpoint_pair) pairs;             /* other addresses are unchanged */
    VEC(uint32_t) buckets;                       /* hash of pairs by address; index plus 1 */
    endpoint_delta_vec deltas;                   /* of the last service port */
};

/** Starts on the change of a slice from @before to @after, and updates @index, if not NULL, at a
 * cost linear in the slice's endpoints. */
void endpoint_merge_start(struct endpoint_merge *merge, const struct endpoint_slice *before,
                          const struct endpoint_slice *after, struct address_index *index);

void address_index_clear(struct address_index *index);
void endpoint_merge_clear(struct endpoint_merge *merge);

#endif
