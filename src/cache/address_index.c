/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "kube-nftd/cache/address_index.h"

#include <string.h>

#define NO_SLICE UINT32_MAX
#define FIRST_CAP 16

static const struct slice_endpoint *endpoint_of(const struct address_index *index,
                                                const struct indexed_endpoint *entry)
{
    return &index->slices.v[entry->slice].slice->endpoints.v[entry->place];
}

static size_t home_of(const struct address_index *index, const struct address *address)
{
    return address_hash(address, 0) & (index->cap - 1);
}

/* ---- entries ---- */

static void insert(struct address_index *index, struct indexed_endpoint entry)
{
    size_t at = home_of(index, &endpoint_of(index, &entry)->address);
    while (index->v[at].slice != NO_SLICE)
        at = (at + 1) & (index->cap - 1);
    index->v[at] = entry;
    index->n++;
}

static void grow(struct address_index *index)
{
    struct indexed_endpoint *old = index->v;
    size_t n_old = index->cap;
    index->cap = n_old ? 2 * n_old : FIRST_CAP;
    index->n = 0;
    index->v = xreallocarray(NULL, index->cap, sizeof(*index->v));
    memset(index->v, 0xff, index->cap * sizeof(*index->v));
    for (size_t i = 0; i < n_old; i++)
        if (old[i].slice != NO_SLICE)
            insert(index, old[i]);
    free(old);
}

static bool is_terminating(const struct indexed_endpoint *entry, const struct address_index *index)
{
    return endpoint_of(index, entry)->flags & ENDPOINT_TERMINATING;
}

/* Of two copies in one slice. */
static bool goes_before(const struct address_index *index, const struct indexed_endpoint *a,
                        const struct indexed_endpoint *b)
{
    bool terminating = is_terminating(a, index);
    return terminating == is_terminating(b, index) ? a->place < b->place : !terminating;
}

/* The entry of the slice for the address of @endpoint; NULL if it has none as yet. */
static struct indexed_endpoint *find(const struct address_index *index,
                                     const struct indexed_endpoint *endpoint)
{
    const struct address *address = &endpoint_of(index, endpoint)->address;
    for (size_t at = index->cap ? home_of(index, address) : 0;
         index->cap && index->v[at].slice != NO_SLICE; at = (at + 1) & (index->cap - 1)) {
        struct indexed_endpoint *entry = &index->v[at];
        if (entry->slice == endpoint->slice &&
            memcmp(&endpoint_of(index, entry)->address, address, sizeof(*address)) == 0)
            return entry;
    }
    return NULL;
}

static void add_entry(struct address_index *index, uint32_t slice, size_t place)
{
    struct indexed_endpoint endpoint = {slice, (uint32_t)place}, *entry = find(index, &endpoint);
    if (entry) {
        index->slices.v[slice].has_copies = true;
        if (goes_before(index, &endpoint, entry))
            entry->place = endpoint.place;
        return;
    }
    if (4 * (index->n + 1) > 3 * index->cap)
        grow(index);
    insert(index, endpoint);
}

/* Moves entries up into the gap at @gap, so that none is cut off from where its search begins. */
static void close_gap(struct address_index *index, size_t gap)
{
    size_t mask = index->cap - 1;
    for (size_t at = (gap + 1) & mask; index->v[at].slice != NO_SLICE; at = (at + 1) & mask) {
        size_t home = home_of(index, &endpoint_of(index, &index->v[at])->address);
        if (((at - home) & mask) < ((at - gap) & mask))
            continue;
        index->v[gap] = index->v[at];
        gap = at;
    }
    index->v[gap].slice = NO_SLICE;
}

/* If it is this copy that has the entry. */
static void remove_entry(struct address_index *index, uint32_t slice, size_t place)
{
    struct indexed_endpoint endpoint = {slice, (uint32_t)place}, *entry = find(index, &endpoint);
    if (!entry || entry->place != endpoint.place)
        return;
    index->n--;
    close_gap(index, (size_t)(entry - index->v));
}

/* ---- slices ---- */

static bool has_at(const struct endpoint_slice *slice, size_t place, const struct address *address)
{
    return slice && place < slice->endpoints.n &&
           memcmp(&slice->endpoints.v[place].address, address, sizeof(*address)) == 0;
}

/* Where both have an endpoint of the same address at the same place, its entry stays; but copies
 * decide among each other, so where there are some, all of them are looked at. */
void address_index_replace(struct address_index *index, uint32_t number,
                           const struct endpoint_slice *slice)
{
    struct indexed_slice *indexed = &index->slices.v[number];
    const struct endpoint_slice *before = indexed->slice;
    bool all = indexed->has_copies;
    for (size_t i = 0; before && i < before->endpoints.n; i++)
        if (all || !has_at(slice, i, &before->endpoints.v[i].address))
            remove_entry(index, number, i);
    *indexed = (struct indexed_slice){slice, false};
    index->n_slices += slice != NULL;
    index->n_slices -= before != NULL;
    for (size_t i = 0; slice && i < slice->endpoints.n; i++)
        if (all || !has_at(before, i, &slice->endpoints.v[i].address))
            add_entry(index, number, i);
}

uint32_t address_index_add(struct address_index *index, const struct endpoint_slice *slice)
{
    size_t number = 0;
    while (number < index->slices.n && index->slices.v[number].slice)
        number++;
    if (number == index->slices.n)
        vec_push(&index->slices, (struct indexed_slice){NULL, false});
    address_index_replace(index, (uint32_t)number, slice);
    return (uint32_t)number;
}

size_t address_index_start(const struct address_index *index, const struct address *address)
{
    return index->cap ? home_of(index, address) : 0;
}

const struct slice_endpoint *address_index_next(const struct address_index *index,
                                                const struct address *address, size_t *at,
                                                const struct endpoint_slice **slice,
                                                uint32_t *number)
{
    while (index->cap && index->v[*at].slice != NO_SLICE) {
        const struct indexed_endpoint *entry = &index->v[*at];
        const struct slice_endpoint *endpoint = endpoint_of(index, entry);
        *at = (*at + 1) & (index->cap - 1);
        if (memcmp(&endpoint->address, address, sizeof(*address)) != 0)
            continue;
        *number = entry->slice;
        *slice = index->slices.v[entry->slice].slice;
        return endpoint;
    }
    return NULL;
}

void address_index_clear(struct address_index *index)
{
    free(index->v);
    vec_free(&index->slices);
    memset(index, 0, sizeof(*index));
}
