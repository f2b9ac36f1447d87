/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Computes how a change of one slice changes the merged endpoints of its Service. Several slices
 * may hold copies of an endpoint, and so may one slice (docs/behaviour.md 2.4, 2.5). One copy wins:
 * the one of the lowest rank, then the first by slice id and index.
 *
 * The work is that of the changed endpoints and their service ports. Only if other slices have
 * copies of those, it is also that of the endpoints in the Service: once, and once more for each
 * service port that is in others of these slices than the one before.
 */
#ifndef KUBE_NFTD_CACHE_ENDPOINT_MERGE_H
#define KUBE_NFTD_CACHE_ENDPOINT_MERGE_H

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
    uint32_t n_others, n_open;                   /* in other slices; of those, not seen yet */
    const struct slice_endpoint *other;          /* winning copy in other slices; or NULL */
    const char *other_id;                        /* of its slice */
};

/* Another slice of the Service. */
struct other_slice {
    const struct endpoint_slice *slice;
    bool has_port; /* the one that winners were chosen for */
};

/* How much of an endpoint_merge is filled in; each step needs the one before. */
enum merge_step {
    MERGE_BEGUN,
    MERGE_COMPARED, /* pairs, without others */
    MERGE_FOUND,    /* others, and how many copies they have */
    MERGE_CHOSEN,   /* the others of pairs, for a port */
};

/* A slice of a Service is added, changed or removed. Scratch; starts zeroed. */
struct endpoint_merge {
    const struct endpoint_slice *before, *after; /* NULL: added, removed */
    struct members *members;                     /* of the Service */
    enum merge_step step;
    bool differ;                     /* in some pair, before and after differ */
    VEC(struct endpoint_pair) pairs; /* other addresses are unchanged */
    VEC(uint32_t) buckets;           /* hash of pairs by address; index plus 1 */
    size_t n_others;                 /* sum over the pairs */
    VEC(struct other_slice) others;  /* of the family, by id; if they have copies */
    size_t n_taken;                  /* of those, the ones that winners were chosen from */
    size_t n_walked;                 /* endpoints, for the sake of copies */
    endpoint_delta_vec deltas;       /* of the last service port */
};

/** Updates the index of merge->members, if there is one, for the change. */
void endpoint_merge_finish(struct endpoint_merge *merge);

void endpoint_merge_clear(struct endpoint_merge *merge);

#endif
