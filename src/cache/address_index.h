/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Where an address is among the endpoints of several slices. For Services of more than one slice:
 * whether a copy of an endpoint wins is found without looking at the other slices. Of several
 * copies in one slice only the one that wins is here: the first one that is not terminating, else
 * the first one.
 *
 * Eight bytes an endpoint, in a table that is at most three quarters full; those of an address that
 * several slices have are in a list beside it. Slices are borrowed and have numbers.
 */
#ifndef KUBE_NFTD_CACHE_ADDRESS_INDEX_H
#define KUBE_NFTD_CACHE_ADDRESS_INDEX_H

#include "kube-nftd/model.h"

/* An endpoint. */
struct indexed_endpoint {
    uint32_t slice; /* its number */
    uint32_t place; /* in the slice */
};

typedef VEC(struct indexed_endpoint) indexed_endpoint_vec;

struct indexed_slice {
    const struct endpoint_slice *slice; /* NULL where none has the number */
    bool has_copies;                    /* of an address */
    uint32_t next_free;                 /* number, where none has this one */
};

/* Starts zeroed. */
struct address_index {
    struct indexed_endpoint *v; /* open addressing, by address */
    size_t cap, n;
    VEC(indexed_endpoint_vec) lists;  /* for addresses of more than one slice */
    VEC(struct indexed_slice) slices; /* by number */
    size_t n_slices;
    uint32_t first_free; /* number, if there are fewer slices than numbers */
};

/* The endpoints of an address: those that are not terminating first, then by the ids of slices. */
struct indexed_copies {
    const struct indexed_endpoint *v;
    size_t n;
};

/** Adds the endpoints of @slice. Returns its number. */
uint32_t address_index_add(struct address_index *index, const struct endpoint_slice *slice);

/** @slice, of the same id, takes the place of the slice @number. */
void address_index_replace(struct address_index *index, uint32_t number,
                           const struct endpoint_slice *slice);

/** The slice @number leaves. */
void address_index_remove(struct address_index *index, uint32_t number);

/** The endpoints of @address, one of each slice that has it. Borrowed until the next change. */
struct indexed_copies address_index_find(const struct address_index *index,
                                         const struct address *address);

/** Frees what it holds. */
void address_index_clear(struct address_index *index);

#endif
