/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "kube-nftd/cache/address_index.h"

#include <string.h>

#define NO_SLICE UINT32_MAX
#define FIRST_CAP 16

static const struct slice_endpoint *endpoint_of(const struct address_index *index,
                                                const struct indexed_endpoint *entry)
{
    return &index->slices.v[entry->slice]->endpoints.v[entry->place];
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

static void add_entry(struct address_index *index, uint32_t slice, size_t place)
{
    if (4 * (index->n + 1) > 3 * index->cap)
        grow(index);
    insert(index, (struct indexed_endpoint){slice, (uint32_t)place});
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

static void remove_entry(struct address_index *index, uint32_t slice, size_t place)
{
    struct indexed_endpoint entry = {slice, (uint32_t)place};
    size_t at = home_of(index, &endpoint_of(index, &entry)->address);
    while (index->v[at].slice != slice || index->v[at].place != place)
        at = (at + 1) & (index->cap - 1);
    index->n--;
    close_gap(index, at);
}

/* ---- slices ---- */

static bool has_at(const struct endpoint_slice *slice, size_t place, const struct address *address)
{
    return slice && place < slice->endpoints.n &&
           memcmp(&slice->endpoints.v[place].address, address, sizeof(*address)) == 0;
}

void address_index_replace(struct address_index *index, uint32_t number,
                           const struct endpoint_slice *slice)
{
    const struct endpoint_slice *before = index->slices.v[number];
    for (size_t i = 0; before && i < before->endpoints.n; i++)
        if (!has_at(slice, i, &before->endpoints.v[i].address))
            remove_entry(index, number, i);
    index->slices.v[number] = slice;
    index->n_slices += slice != NULL;
    index->n_slices -= before != NULL;
    for (size_t i = 0; slice && i < slice->endpoints.n; i++)
        if (!has_at(before, i, &slice->endpoints.v[i].address))
            add_entry(index, number, i);
}

uint32_t address_index_add(struct address_index *index, const struct endpoint_slice *slice)
{
    size_t number = 0;
    while (number < index->slices.n && index->slices.v[number])
        number++;
    if (number == index->slices.n)
        vec_push(&index->slices, NULL);
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
        *slice = index->slices.v[entry->slice];
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
