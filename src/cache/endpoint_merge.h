/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What a change of a slice makes of the endpoints of its Service, whose slices may have copies of
 * each other's endpoints (docs/behaviour.md 2.4, 2.5). Of several copies one wins: those that are
 * not terminating go before those that are, then the order of slice ids and of places in them
 * decides.
 */
#ifndef KUBE_NFTD_CACHE_ENDPOINT_MERGE_H
#define KUBE_NFTD_CACHE_ENDPOINT_MERGE_H

#include "kube-nftd/cache.h"

/* That a slice has an address. */
struct indexed_address {
    uint32_t rank;  /* hash of the address; the lowest bit: it terminates */
    uint32_t slice; /* its number */
};

typedef VEC(struct indexed_address) address_bucket;

/*
 * Which slices of a family have an address, for Services of more than one: whether a copy wins is
 * found without looking at all of them. Each bucket is sorted by rank and id of the slice, so that
 * the copy that wins comes first. Starts zeroed.
 */
struct address_index {
    address_bucket *buckets;
    unsigned bits; /* the highest ones of a rank say in which bucket it is */
    size_t n;      /* in all buckets */
    VEC(struct endpoint_slice *const *)
    slices; /* where the cache has them, by number; NULL: none */
    size_t n_slices;
};

/* An address that a change of a slice concerns. */
struct endpoint_pair {
    const struct address *address;
    const struct slice_endpoint *before, *after; /* the copies in the slice that win; or NULL */
};

/* A slice of a Service changes, comes or goes. Scratch; starts zeroed. */
struct endpoint_merge {
    const struct endpoint_slice *before, *after; /* NULL: there was, or is, none */
    VEC(struct endpoint_pair) pairs;             /* those not here are as they were */
    bool differ;                                 /* some pair's copies do */
    VEC(uint32_t) buckets;                       /* of pairs, by address; numbers from 1 */
    VEC(struct endpoint_delta) deltas;
};

/** A slice changes from @before to @after. Costs as much as the slice. */
void endpoint_merge_begin(struct endpoint_merge *merge, const struct endpoint_slice *before,
                          const struct endpoint_slice *after);

/** @index follows the change of the slice that the cache has at @in. */
void endpoint_merge_index(const struct endpoint_merge *merge, struct address_index *index,
                          struct endpoint_slice *const *in);

/**
 * Puts into merge->deltas what the change makes of a service port, of which the slice had the ports
 * @before and has the ports @after. Costs as much as the endpoints that differ.
 * @index  of the Service's slices, which endpoint_merge_index() brought up to date; NULL: the slice
 *         is the only one
 */
void endpoint_merge_port(struct endpoint_merge *merge, const struct address_index *index,
                         struct endpoint_slice *const *in, struct slice_ports before,
                         struct slice_ports after);

/** Logs what changes of a service port, as endpoints_changed_fn is told. Below -v 4 it costs a
 * comparison. */
void endpoint_deltas_log(const struct service_port_ref *ref, const struct endpoint_delta *deltas,
                         size_t n);

/** Free what they hold. */
void address_index_clear(struct address_index *index);
void endpoint_merge_clear(struct endpoint_merge *merge);

#endif
