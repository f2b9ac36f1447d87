/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "address_index.h"

#include <string.h>

/* In the place of the number of a slice. */
#define NOTHING UINT32_MAX
#define A_LIST (UINT32_MAX - 1) /* and the place is the number of the list */

#define FIRST_CAP 16

static const struct slice_endpoint *endpoint_of(const struct address_index *index,
                                                const struct indexed_endpoint *copy)
{
    return &index->slices.v[copy->slice].slice->endpoints.v[copy->place];
}

static struct indexed_copies copies_of(const struct address_index *index,
                                       const struct indexed_endpoint *entry)
{
    if (entry->slice != A_LIST)
        return (struct indexed_copies){entry, 1};
    const indexed_endpoint_vec *list = &index->lists.v[entry->place];
    return (struct indexed_copies){list->v, list->n};
}

/* ---- the table ---- */

static const struct address *address_of(const struct address_index *index,
                                        const struct indexed_endpoint *entry)
{
    return &endpoint_of(index, copies_of(index, entry).v)->address;
}

static size_t home_of(const struct address_index *index, const struct address *address)
{
    return address_hash(address, 0) & (index->cap - 1);
}

/* The entry of @address; NULL if it has none as yet. */
static struct indexed_endpoint *find(const struct address_index *index,
                                     const struct address *address)
{
    if (index->cap == 0)
        return NULL;
    for (size_t at = home_of(index, address); index->v[at].slice != NOTHING;
         at = (at + 1) & (index->cap - 1))
        if (memcmp(address_of(index, &index->v[at]), address, sizeof(*address)) == 0)
            return &index->v[at];
    return NULL;
}

static void insert(struct address_index *index, struct indexed_endpoint entry)
{
    size_t at = home_of(index, address_of(index, &entry));
    while (index->v[at].slice != NOTHING)
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
        if (old[i].slice != NOTHING)
            insert(index, old[i]);
    free(old);
}

/* Moves entries up into the gap at @gap, so that none is cut off from where its search begins. */
static void close_gap(struct address_index *index, size_t gap)
{
    size_t mask = index->cap - 1;
    for (size_t at = (gap + 1) & mask; index->v[at].slice != NOTHING; at = (at + 1) & mask) {
        size_t home = home_of(index, address_of(index, &index->v[at]));
        if (((at - home) & mask) < ((at - gap) & mask))
            continue;
        index->v[gap] = index->v[at];
        gap = at;
    }
    index->v[gap].slice = NOTHING;
    index->n--;
}

/* ---- lists ---- */

static bool is_terminating(const struct address_index *index, const struct indexed_endpoint *copy)
{
    return endpoint_of(index, copy)->flags & ENDPOINT_TERMINATING;
}

/* The place in @list of what slice @number has, if that @terminates, or would have. */
static size_t place_of(const struct address_index *index, const indexed_endpoint_vec *list,
                       uint32_t number, bool terminates)
{
    const char *id = index->slices.v[number].slice->id;
    size_t low = 0, high = list->n;
    while (low < high) {
        size_t middle = (low + high) / 2;
        const struct indexed_endpoint *copy = &list->v[middle];
        int order = (int)is_terminating(index, copy) - (int)terminates;
        if (order == 0)
            order = strcmp(index->slices.v[copy->slice].slice->id, id);
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static void list_insert(struct address_index *index, indexed_endpoint_vec *list,
                        const struct indexed_endpoint *copy)
{
    size_t place = place_of(index, list, copy->slice, is_terminating(index, copy));
    vec_push(list, *copy);
    memmove(&list->v[place + 1], &list->v[place], (list->n - 1 - place) * sizeof(*list->v));
    list->v[place] = *copy;
}

static void list_remove(indexed_endpoint_vec *list, size_t place)
{
    list->n--;
    memmove(&list->v[place], &list->v[place + 1], (list->n - place) * sizeof(*list->v));
}

/* What slice @number has in the list; NULL: nothing. */
static struct indexed_endpoint *list_find(const struct address_index *index,
                                          const indexed_endpoint_vec *list, uint32_t number)
{
    for (int terminates = 0; terminates < 2; terminates++) {
        size_t place = place_of(index, list, number, terminates);
        if (place < list->n && list->v[place].slice == number)
            return &list->v[place];
    }
    return NULL;
}

static void make_list(struct address_index *index, struct indexed_endpoint *entry)
{
    indexed_endpoint_vec list = {0};
    vec_push(&list, *entry);
    vec_push(&index->lists, list);
    *entry = (struct indexed_endpoint){A_LIST, (uint32_t)index->lists.n - 1};
}

/* The one copy that is left in its list takes the place of the list, whose number goes to the last
 * one. */
static void dissolve_list(struct address_index *index, struct indexed_endpoint *entry)
{
    uint32_t number = entry->place;
    indexed_endpoint_vec last = index->lists.v[index->lists.n - 1];
    find(index, &endpoint_of(index, last.v)->address)->place = number;
    *entry = index->lists.v[number].v[0];
    vec_free(&index->lists.v[number]);
    index->lists.v[number] = last;
    index->lists.n--;
}

/* ---- copies ---- */

/* Of two copies in one slice. */
static bool goes_before(const struct address_index *index, const struct indexed_endpoint *a,
                        const struct indexed_endpoint *b)
{
    bool terminating = is_terminating(index, a);
    return terminating == is_terminating(index, b) ? a->place < b->place : !terminating;
}

static void add_to_list(struct address_index *index, indexed_endpoint_vec *list,
                        const struct indexed_endpoint *copy)
{
    struct indexed_endpoint *own = list_find(index, list, copy->slice);
    if (own) {
        index->slices.v[copy->slice].has_copies = true;
        if (!goes_before(index, copy, own))
            return;
        list_remove(list, (size_t)(own - list->v));
    }
    list_insert(index, list, copy);
}

static void add_copy(struct address_index *index, uint32_t number, size_t place)
{
    struct indexed_endpoint copy = {number, (uint32_t)place};
    struct indexed_endpoint *entry = find(index, &endpoint_of(index, &copy)->address);
    if (!entry) {
        if (4 * (index->n + 1) > 3 * index->cap)
            grow(index);
        insert(index, copy);
    } else if (entry->slice == number) {
        index->slices.v[number].has_copies = true;
        if (goes_before(index, &copy, entry))
            *entry = copy;
    } else {
        if (entry->slice != A_LIST)
            make_list(index, entry);
        add_to_list(index, &index->lists.v[entry->place], &copy);
    }
}

static bool is_same(const struct indexed_endpoint *a, const struct indexed_endpoint *b)
{
    return a->slice == b->slice && a->place == b->place;
}

/* If it is not left out in favour of another one of its slice. */
static void remove_copy(struct address_index *index, uint32_t number, size_t place)
{
    struct indexed_endpoint copy = {number, (uint32_t)place};
    struct indexed_endpoint *entry = find(index, &endpoint_of(index, &copy)->address);
    if (entry && is_same(entry, &copy))
        close_gap(index, (size_t)(entry - index->v));
    if (!entry || entry->slice != A_LIST)
        return;
    indexed_endpoint_vec *list = &index->lists.v[entry->place];
    size_t at = place_of(index, list, number, is_terminating(index, &copy));
    if (at == list->n || !is_same(&list->v[at], &copy))
        return;
    list_remove(list, at);
    if (list->n == 1)
        dissolve_list(index, entry);
}

/* ---- slices ---- */

static bool has_alike(const struct endpoint_slice *slice, size_t place,
                      const struct slice_endpoint *endpoint)
{
    if (!slice || place >= slice->endpoints.n)
        return false;
    const struct slice_endpoint *other = &slice->endpoints.v[place];
    return memcmp(&other->address, &endpoint->address, sizeof(other->address)) == 0 &&
           ((other->flags ^ endpoint->flags) & ENDPOINT_TERMINATING) == 0;
}

/* Where both have the same address at the same place, with the same rank among its copies, the
 * entry stays; but copies in one slice decide among each other, so where there are some, all of
 * them are looked at. */
void address_index_replace(struct address_index *index, uint32_t number,
                           const struct endpoint_slice *slice)
{
    struct indexed_slice *indexed = &index->slices.v[number];
    const struct endpoint_slice *before = indexed->slice;
    bool all = indexed->has_copies;
    for (size_t i = 0; before && i < before->endpoints.n; i++)
        if (all || !has_alike(slice, i, &before->endpoints.v[i]))
            remove_copy(index, number, i);
    *indexed = (struct indexed_slice){.slice = slice};
    for (size_t i = 0; slice && i < slice->endpoints.n; i++)
        if (all || !has_alike(before, i, &slice->endpoints.v[i]))
            add_copy(index, number, i);
}

uint32_t address_index_add(struct address_index *index, const struct endpoint_slice *slice)
{
    uint32_t number = index->first_free;
    if (index->n_slices == index->slices.n) {
        number = (uint32_t)index->slices.n;
        vec_push(&index->slices, (struct indexed_slice){0});
    }
    index->n_slices++;
    index->first_free = index->slices.v[number].next_free;
    address_index_replace(index, number, slice);
    return number;
}

void address_index_remove(struct address_index *index, uint32_t number)
{
    address_index_replace(index, number, NULL);
    index->slices.v[number].next_free = index->first_free;
    index->first_free = number;
    index->n_slices--;
}

struct indexed_copies address_index_find(const struct address_index *index,
                                         const struct address *address)
{
    const struct indexed_endpoint *entry = find(index, address);
    return entry ? copies_of(index, entry) : (struct indexed_copies){0};
}

void address_index_clear(struct address_index *index)
{
    vec_each (&index->lists, list)
        vec_free(list);
    vec_free(&index->lists);
    free(index->v);
    vec_free(&index->slices);
    memset(index, 0, sizeof(*index));
}
