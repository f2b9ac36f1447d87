/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Where an address is among the endpoints of several slices. For Services of more than one slice:
 * whether a copy of an endpoint wins is found without looking at the other slices. Of several
 * copies in one slice only the one that wins is here: the first one that is not terminating, else
 * the first one.
 *
 * Eight bytes an endpoint, in a table that is at most three quarters full. Slices are borrowed and
 * have numbers.
 */
#ifndef KUBE_NFTD_CACHE_ADDRESS_INDEX_H
#define KUBE_NFTD_CACHE_ADDRESS_INDEX_H

#include "kube-nftd/model/object.h"

/* An endpoint. */
struct indexed_endpoint {
    uint32_t slice; /* its number */
    uint32_t place; /* in the slice */
};

struct indexed_slice {
    const struct endpoint_slice *slice; /* NULL where none has the number */
    bool has_copies;                    /* of an address */
};

/* Starts zeroed. */
struct address_index {
    struct indexed_endpoint *v; /* open addressing */
    size_t cap, n;
    VEC(struct indexed_slice) slices; /* by number */
    size_t n_slices;
};

/** Adds the endpoints of @slice. Returns its number. */
uint32_t address_index_add(struct address_index *index, const struct endpoint_slice *slice);

/** @slice takes the place of the slice @number, or, if NULL, that one leaves. */
void address_index_replace(struct address_index *index, uint32_t number,
                           const struct endpoint_slice *slice);

/**
 * Goes through the endpoints of an address: the next one after @at, which starts as
 * address_index_start(). NULL after the last one. @slice is set to whose it is, @number to its
 * number.
 */
const struct slice_endpoint *address_index_next(const struct address_index *index,
                                                const struct address *address, size_t *at,
                                                const struct endpoint_slice **slice,
                                                uint32_t *number);
size_t address_index_start(const struct address_index *index, const struct address *address);

/** Frees what it holds. */
void address_index_clear(struct address_index *index);

#endif
