/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "slice_change.h"

#include <stdlib.h>
#include <string.h>

static bool has_address(const struct slice_endpoint *endpoint, const struct address *address)
{
    return memcmp(&endpoint->address, address, sizeof(*address)) == 0;
}

/* Whether @a wins over @b, which may be NULL. */
static bool goes_before(const struct slice_endpoint *a, const struct slice_endpoint *b)
{
    if (!b || copy_rank(a->flags) != copy_rank(b->flags))
        return !b || copy_rank(a->flags) < copy_rank(b->flags);
    return a < b;
}

static bool is_same(const struct slice_endpoint *a, const struct slice_endpoint *b)
{
    return a == b || (a && b && slice_endpoint_equal(a, b));
}

/* ---- changes within the slice ---- */

static void make_buckets(struct slice_comparison *comparison, size_t most)
{
    size_t n = 8;
    while (n < 2 * most)
        n *= 2;
    vec_clear(&comparison->buckets);
    vec_reserve(&comparison->buckets, n);
    memset(comparison->buckets.v, 0, n * sizeof(*comparison->buckets.v));
    comparison->buckets.n = n;
}

/* The bucket of the pair of @address, or the empty one for it. */
static inline uint32_t *find_bucket(const struct slice_comparison *comparison,
                                    const struct address *address)
{
    const size_t mask = comparison->buckets.n - 1;
    size_t at = address_hash(address, 0) & mask;
    for (;; at = (at + 1) & mask) {
        uint32_t *bucket = &comparison->buckets.v[at];
        if (!*bucket ||
            memcmp(comparison->pairs.v[*bucket - 1].address, address, sizeof(*address)) == 0)
            return bucket;
    }
}

/* Enters the endpoints of @slice in [@from, @to) into their pairs. Without @add, endpoints whose
 * address has no pair yet are skipped. */
static void take(struct slice_comparison *comparison, const struct endpoint_slice *slice,
                 size_t from, size_t to, bool add)
{
    for (; from < to; from++) {
        const struct slice_endpoint *endpoint = &slice->endpoints.v[from];
        uint32_t *bucket = find_bucket(comparison, &endpoint->address);
        if (!*bucket) {
            if (!add)
                continue;
            vec_push(&comparison->pairs, (struct endpoint_pair){.address = &endpoint->address});
            *bucket = (uint32_t)comparison->pairs.n;
        }
        struct endpoint_pair *pair = &comparison->pairs.v[*bucket - 1];
        const struct slice_endpoint **copy =
            slice == comparison->after ? &pair->after : &pair->before;
        if (goes_before(endpoint, *copy))
            *copy = endpoint;
        ++*(slice == comparison->after ? &pair->n_after : &pair->n_before);
    }
}

/* Counts the equal endpoints at the start and at the end of both slices. */
static void find_alike(const struct endpoint_slice *a, const struct endpoint_slice *b,
                       size_t *ahead, size_t *behind)
{
    const struct slice_endpoint *p = a->endpoints.v, *q = b->endpoints.v;
    size_t n = a->endpoints.n, m = b->endpoints.n, most = n < m ? n : m;
    while (*ahead < most && has_address(&p[*ahead], &q[*ahead].address) &&
           slice_endpoint_equal(&p[*ahead], &q[*ahead]))
        ++*ahead;
    for (most -= *ahead; *behind < most; ++*behind)
        if (!has_address(&p[n - 1 - *behind], &q[m - 1 - *behind].address) ||
            !slice_endpoint_equal(&p[n - 1 - *behind], &q[m - 1 - *behind]))
            break;
}

/* ---- copies in other slices ---- */

/*
 * How many endpoints of a Service's slices have an address, by its hash, with open addressing. An
 * entry that falls to 0 stays until the
 * index is full and is made anew.
 */
struct address_index {
    size_t n, size;
    struct indexed_address {
        uint32_t hash;
        uint32_t n; /* endpoints, plus 1; 0: unused entry */
    } entries[];
};

static struct indexed_address *find_entry(struct address_index *index,
                                          const struct address *address)
{
    const uint32_t hash = (uint32_t)address_hash(address, 0);
    size_t at = hash * (uint64_t)index->size >> 32;
    while (index->entries[at].n && index->entries[at].hash != hash)
        at = at + 1 < index->size ? at + 1 : 0;
    index->entries[at].hash = hash;
    return &index->entries[at];
}

static void count_endpoints(struct address_index *index, const struct address *address,
                            uint32_t went, uint32_t came)
{
    struct indexed_address *entry = find_entry(index, address);
    if (!entry->n && came == 0)
        return;
    index->n += !entry->n;
    entry->n += !entry->n;
    entry->n += came - went;
}

/* The slice that changes, in its old and its new version. */
static bool is_own(const struct slice_comparison *comparison, const struct endpoint_slice *slice)
{
    return slice == comparison->before || slice == comparison->after;
}

/* As before the change. */
static struct address_index *make_index(const struct slice_comparison *comparison)
{
    const struct members *members = comparison->members;
    size_t n = 16 + (comparison->before ? comparison->before->endpoints.n : 0);
    vec_each (&members->by_id, it)
        n += (*it)->endpoints.n;
    n += n / 2;
    struct address_index *index = xcalloc(1, sizeof(*index) + n * sizeof(*index->entries));
    index->size = n;
    vec_each (&members->by_id, it) {
        const struct endpoint_slice *slice = is_own(comparison, *it) ? comparison->before : *it;
        for (size_t i = 0; slice && i < slice->endpoints.n; i++)
            count_endpoints(index, &slice->endpoints.v[i].address, 0, 1);
    }
    return index;
}

static bool has_others(const struct slice_comparison *comparison)
{
    const enum family family = (comparison->after ? comparison->after : comparison->before)->family;
    vec_each (&comparison->members->by_id, it)
        if (!is_own(comparison, *it) && (*it)->family == family)
            return true;
    return false;
}

static void find_copies(struct slice_comparison *comparison)
{
    struct members *members = comparison->members;
    if (!has_others(comparison))
        return;
    if (!members->index)
        members->index = make_index(comparison);
    vec_each (&comparison->pairs, pair)
        pair->elsewhere = find_entry(members->index, pair->address)->n > pair->n_before + 1;
}

/* ---- the change ---- */

/* Most changes affect few endpoints. The others matter only as possible copies of those; but if the
 * slice's ports changed, every endpoint changes. */
static void compare_slices(struct slice_comparison *comparison)
{
    const struct endpoint_slice *slices[] = {comparison->before, comparison->after};
    size_t ahead = 0, behind = 0, n = 0;
    comparison->compared = true;
    vec_clear(&comparison->pairs);
    if (slices[0] && slices[1] && slice_ports_equal(slices[0], slices[1]))
        find_alike(slices[0], slices[1], &ahead, &behind);
    for (int i = 0; i < 2; i++)
        n += slices[i] ? slices[i]->endpoints.n - ahead - behind : 0;
    make_buckets(comparison, n);
    for (int i = 0; i < 2; i++)
        if (slices[i])
            take(comparison, slices[i], ahead, slices[i]->endpoints.n - behind, true);
    for (int i = 0; i < 2 && n > 0; i++) {
        if (!slices[i])
            continue;
        take(comparison, slices[i], 0, ahead, false);
        take(comparison, slices[i], slices[i]->endpoints.n - behind, slices[i]->endpoints.n, false);
    }
    find_copies(comparison);
}

void slice_comparison_finish(struct slice_comparison *comparison)
{
    struct address_index *index = comparison->members->index;
    if (!index)
        return;
    if (!comparison->compared)
        compare_slices(comparison);
    if (index->n + comparison->pairs.n > index->size * 7 / 8) {
        free(index);
        comparison->members->index = NULL;
        return;
    }
    vec_each (&comparison->pairs, pair)
        count_endpoints(index, pair->address, pair->n_before, pair->n_after);
}

/* Removes the first of @ports if its number is @number. */
static bool take_number(struct slice_ports *ports, uint16_t number)
{
    if (ports->n == 0 || ports->v->port != number)
        return false;
    ports->v++;
    ports->n--;
    return true;
}

/* ---- the deltas of a service port ---- */

static const char *state_of(const struct slice_endpoint *endpoint)
{
    if (!endpoint)
        return "none";
    const bool terminating = endpoint->flags & ENDPOINT_TERMINATING;
    if (endpoint->flags & ENDPOINT_READY)
        return "ready";
    if (endpoint->flags & ENDPOINT_SERVING)
        return terminating ? "serving-terminating" : "serving";
    return terminating ? "terminating" : "not-ready";
}

static void log_deltas(const struct service_port_ref *ref, const endpoint_delta_vec *deltas)
{
    char text[BACKEND_TEXT_SIZE];
    if (!log_enabled(4))
        return;
    vec_each (deltas, it) {
        const struct slice_endpoint *known = it->after ? it->after : it->before;
        log_debug(4, "cache", "service=%s port=%s endpoint=%s node=%s before=%s after=%s",
                  ref->service_id, ref->port_name, backend_format(ref->family, &it->backend, text),
                  known->node_name ? known->node_name : "none", state_of(it->before),
                  state_of(it->after));
    }
}

static struct slice_ports ports_of(const struct endpoint_slice *slice,
                                   const struct service_port_ref *ref)
{
    return slice ? endpoint_slice_ports(slice, ref->port_name, ref->protocol)
                 : (struct slice_ports){0};
}

/* The deltas of the endpoints with a port that the slice had, or has. False if one of them has
 * copies elsewhere. */
static bool add_deltas(struct slice_comparison *comparison, uint16_t port, bool was, bool is)
{
    vec_each (&comparison->pairs, pair) {
        const struct endpoint_delta delta = {
            {*pair->address, port}, was ? pair->before : NULL, is ? pair->after : NULL};
        if (is_same(delta.before, delta.after))
            continue;
        if (pair->elsewhere)
            return false;
        vec_push(&comparison->deltas, delta);
    }
    return true;
}

const endpoint_delta_vec *slice_change_deltas(const struct slice_change *change,
                                              const struct service_port_ref *ref)
{
    struct slice_comparison *comparison = change->comparison;
    struct slice_ports before = ports_of(comparison->before, ref),
                       after = ports_of(comparison->after, ref);
    vec_clear(&comparison->deltas);
    if (!comparison->compared && (before.n || after.n))
        compare_slices(comparison);
    while (before.n || after.n) {
        const bool first = after.n == 0 || (before.n && before.v->port < after.v->port);
        const uint16_t port = first ? before.v->port : after.v->port;
        const bool was = take_number(&before, port), is = take_number(&after, port);
        if (!add_deltas(comparison, port, was, is))
            return NULL;
    }
    log_deltas(ref, &comparison->deltas);
    return &comparison->deltas;
}

void slice_comparison_clear(struct slice_comparison *comparison)
{
    vec_free(&comparison->pairs);
    vec_free(&comparison->buckets);
    vec_free(&comparison->deltas);
}
