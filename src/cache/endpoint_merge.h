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
    VEC(struct endpoint_slice *const *)
    slices; /* the cache's slice pointers; NULL: unused number */
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
    VEC(struct endpoint_pair) pairs;             /* other addresses are unchanged */
    bool differ;                                 /* in some pair, before and after differ */
    VEC(uint32_t) buckets;                       /* hash of pairs by address; index plus 1 */
    VEC(struct endpoint_delta) deltas;
};

/** Compares the slice @before with @after. The cost is linear in the slice's endpoints. */
void endpoint_merge_begin(struct endpoint_merge *merge, const struct endpoint_slice *before,
                          const struct endpoint_slice *after);

/** Updates @index for the change of the cached slice *@in. */
void endpoint_merge_index(const struct endpoint_merge *merge, struct address_index *index,
                          struct endpoint_slice *const *in);

/**
 * Puts the changed endpoints of a service port into merge->deltas. The slice had the ports @before
 * for it and has the ports @after. The cost is linear in the endpoints that differ.
 * @index  the Service's slices, updated by endpoint_merge_index(); NULL: this is the only slice
 */
void endpoint_merge_port(struct endpoint_merge *merge, const struct address_index *index,
                         struct endpoint_slice *const *in, struct slice_ports before,
                         struct slice_ports after);

/** Logs the arguments of endpoints_changed_fn, at -v 4. */
void endpoint_deltas_log(const struct service_port_ref *ref, const struct endpoint_delta *deltas,
                         size_t n);

void address_index_clear(struct address_index *index);
void endpoint_merge_clear(struct endpoint_merge *merge);

#endif
