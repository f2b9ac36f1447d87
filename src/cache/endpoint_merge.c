/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "endpoint_merge.h"

#include <stdlib.h>
#include <string.h>

static bool is_terminating(const struct slice_endpoint *endpoint)
{
    return endpoint->flags & ENDPOINT_TERMINATING;
}

static bool has_address(const struct slice_endpoint *endpoint, const struct address *address)
{
    return memcmp(&endpoint->address, address, sizeof(*address)) == 0;
}

/* Whether @a wins over @b, which is of the same slice or NULL. */
static bool goes_before(const struct slice_endpoint *a, const struct slice_endpoint *b)
{
    if (!b || is_terminating(a) != is_terminating(b))
        return !b || is_terminating(b);
    return a < b; /* they are in one array */
}

static bool is_same(const struct slice_endpoint *a, const struct slice_endpoint *b)
{
    return a == b || (a && b && slice_endpoint_equal(a, b));
}

/* ---- changes within the slice ---- */

static void make_buckets(struct endpoint_merge *merge, size_t most)
{
    size_t n = 8;
    while (n < 2 * most)
        n *= 2;
    vec_clear(&merge->buckets);
    vec_reserve(&merge->buckets, n);
    memset(merge->buckets.v, 0, n * sizeof(*merge->buckets.v));
    merge->buckets.n = n;
}

/* Enters the endpoints of @slice in [@from, @to) into their pairs. Without @add, endpoints whose
 * address has no pair yet are skipped. */
static void take(struct endpoint_merge *merge, const struct endpoint_slice *slice, size_t from,
                 size_t to, bool add)
{
    const size_t mask = merge->buckets.n - 1;
    for (; from < to; from++) {
        const struct slice_endpoint *endpoint = &slice->endpoints.v[from];
        size_t at = address_hash(&endpoint->address, 0) & mask;
        while (merge->buckets.v[at] &&
               !has_address(endpoint, merge->pairs.v[merge->buckets.v[at] - 1].address))
            at = (at + 1) & mask;
        if (!merge->buckets.v[at]) {
            if (!add)
                continue;
            vec_push(&merge->pairs, (struct endpoint_pair){&endpoint->address, NULL, NULL});
            merge->buckets.v[at] = (uint32_t)merge->pairs.n;
        }
        struct endpoint_pair *pair = &merge->pairs.v[merge->buckets.v[at] - 1];
        const struct slice_endpoint **copy = slice == merge->after ? &pair->after : &pair->before;
        if (goes_before(endpoint, *copy))
            *copy = endpoint;
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

/* Most changes affect few endpoints. The others matter only as possible copies of those; but if the
 * slice's ports changed, every endpoint changes. */
static void compare_slices(struct endpoint_merge *merge)
{
    const struct endpoint_slice *slices[] = {merge->before, merge->after};
    size_t ahead = 0, behind = 0, n = 0;
    merge->compared = true;
    merge->differ = false;
    vec_clear(&merge->pairs);
    if (slices[0] && slices[1] && slice_ports_equal(slices[0], slices[1]))
        find_alike(slices[0], slices[1], &ahead, &behind);
    for (int i = 0; i < 2; i++)
        n += slices[i] ? slices[i]->endpoints.n - ahead - behind : 0;
    make_buckets(merge, n);
    for (int i = 0; i < 2; i++)
        if (slices[i])
            take(merge, slices[i], ahead, slices[i]->endpoints.n - behind, true);
    for (int i = 0; i < 2 && n > 0; i++) {
        if (!slices[i])
            continue;
        take(merge, slices[i], 0, ahead, false);
        take(merge, slices[i], slices[i]->endpoints.n - behind, slices[i]->endpoints.n, false);
    }
    vec_each (&merge->pairs, pair)
        merge->differ = merge->differ || !is_same(pair->before, pair->after);
}

/* ---- copies in other slices ---- */

/*
 * Which slices of a Service contain an address: a hash table with open addressing. An address that
 * leaves a slice stays in it, until the table is full and is made anew: what it says is a hint.
 */
struct address_index {
    size_t n, size;
    struct indexed_address {
        uint32_t hash;
        uint32_t number; /* of a slice; 0: unused slot */
    } slots[];
};

static uint32_t hash_of(const struct address *address)
{
    return (uint32_t)address_hash(address, 0);
}

/* The slot of an address in the slice @number, or the unused one for it. 0: in any slice but
 * @except, or an unused one. */
static struct indexed_address *find_slot(struct address_index *index, uint32_t hash,
                                         uint32_t number, uint32_t except)
{
    size_t at = hash * (uint64_t)index->size >> 32;
    for (;; at = at + 1 < index->size ? at + 1 : 0) {
        struct indexed_address *slot = &index->slots[at];
        if (!slot->number ||
            (slot->hash == hash && (number ? slot->number == number : slot->number != except)))
            return slot;
    }
}

static void add_to_index(struct address_index *index, const struct address *address,
                         uint32_t number)
{
    struct indexed_address *slot = find_slot(index, hash_of(address), number, 0);
    index->n += !slot->number;
    *slot = (struct indexed_address){hash_of(address), number};
}

static struct address_index *make_index(const struct members *members)
{
    size_t n = 16;
    vec_each (&members->by_id, it)
        n += it->slice->endpoints.n;
    n += n / 2;
    struct address_index *index = xcalloc(1, sizeof(*index) + n * sizeof(struct indexed_address));
    index->size = n;
    vec_each (&members->by_id, it)
        vec_each (&it->slice->endpoints, endpoint)
            add_to_index(index, &endpoint->address, it->number);
    return index;
}

/* Where nobody asked for the deltas of a change, the index is made anew when it is needed again. */
void endpoint_merge_finish(const struct endpoint_merge *merge)
{
    struct address_index *index = merge->members->index;
    bool usable = index && merge->compared && index->n + merge->pairs.n <= index->size * 7 / 8;
    if (!usable) {
        free(index);
        merge->members->index = NULL;
        return;
    }
    vec_each (&merge->pairs, pair)
        if (pair->after && !pair->before)
            add_to_index(index, pair->address, merge->number);
}

static const struct slice_endpoint *best_in(const struct endpoint_slice *slice,
                                            const struct address *address)
{
    const struct slice_endpoint *best = NULL;
    vec_each (&slice->endpoints, it)
        if (has_address(it, address) && goes_before(it, best))
            best = it;
    return best;
}

struct copy {
    const struct slice_endpoint *endpoint; /* NULL: none */
    const struct endpoint_slice *slice;
};

static bool has_other(const struct members *members, uint32_t number, enum family family)
{
    vec_each (&members->by_id, it)
        if (it->number != number && it->slice->family == family)
            return true;
    return false;
}

/* The winner among the copies in the other slices. */
static struct copy best_of_others(const struct endpoint_merge *merge, const struct slice_port *port,
                                  const struct address *address)
{
    const enum family family = (merge->after ? merge->after : merge->before)->family;
    struct members *members = merge->members;
    const uint32_t hash = hash_of(address);
    struct copy best = {0};
    if (!members->index && !has_other(members, merge->number, family))
        return best;
    if (!members->index)
        members->index = make_index(members);
    if (!find_slot(members->index, hash, 0, merge->number)->number)
        return best;
    vec_each (&members->by_id, it) {
        if (it->number == merge->number || it->slice->family != family ||
            !find_slot(members->index, hash, it->number, 0)->number ||
            !endpoint_slice_has_port(it->slice, port))
            continue;
        const struct slice_endpoint *endpoint = best_in(it->slice, address);
        if (endpoint && (!best.endpoint || !is_terminating(endpoint)))
            best = (struct copy){endpoint, it->slice};
        if (best.endpoint && !is_terminating(best.endpoint))
            break;
    }
    return best;
}

static const struct slice_endpoint *winner(const struct slice_endpoint *own,
                                           const struct endpoint_slice *slice,
                                           const struct copy *other)
{
    if (!own || !other->endpoint)
        return own ? own : other->endpoint;
    if (is_terminating(own) != is_terminating(other->endpoint))
        return is_terminating(own) ? other->endpoint : own;
    return strcmp(slice->id, other->slice->id) < 0 ? own : other->endpoint;
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
    if (endpoint->flags & ENDPOINT_READY)
        return "ready";
    if (endpoint->flags & ENDPOINT_SERVING)
        return is_terminating(endpoint) ? "serving-terminating" : "serving";
    return is_terminating(endpoint) ? "terminating" : "not-ready";
}

static void log_deltas(const struct service_port_ref *ref, const endpoint_delta_vec *deltas)
{
    char text[BACKEND_TEXT_SIZE];
    if (!log_enabled(4))
        return;
    vec_each (deltas, it) {
        const struct slice_endpoint *known = it->after ? it->after : it->before;
        log_debug(4, "endpoints", "service=%s port=%s endpoint=%s node=%s before=%s after=%s",
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

const endpoint_delta_vec *slice_change_deltas(const struct slice_change *change,
                                              const struct service_port_ref *ref)
{
    struct endpoint_merge *merge = change->merge;
    struct slice_ports before = ports_of(merge->before, ref), after = ports_of(merge->after, ref);
    vec_clear(&merge->deltas);
    if (!merge->compared && (before.n || after.n))
        compare_slices(merge);
    while (before.n || after.n) {
        bool first = after.n == 0 || (before.n && before.v->port < after.v->port);
        const struct slice_port port = first ? *before.v : *after.v;
        bool was = take_number(&before, port.port), is = take_number(&after, port.port);
        if (was && is && !merge->differ)
            continue;
        vec_each (&merge->pairs, pair) {
            const struct slice_endpoint *old = was ? pair->before : NULL;
            const struct slice_endpoint *new = is ? pair->after : NULL;
            if (is_same(old, new))
                continue;
            struct copy other = best_of_others(merge, &port, pair->address);
            struct endpoint_delta delta = {{*pair->address, port.port},
                                           winner(old, merge->before, &other),
                                           winner(new, merge->after, &other)};
            if (!is_same(delta.before, delta.after))
                vec_push(&merge->deltas, delta);
        }
    }
    log_deltas(ref, &merge->deltas);
    return &merge->deltas;
}

void endpoint_merge_clear(struct endpoint_merge *merge)
{
    vec_free(&merge->pairs);
    vec_free(&merge->buckets);
    vec_free(&merge->deltas);
}
