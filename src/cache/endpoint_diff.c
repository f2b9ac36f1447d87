/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "kube-nftd/cache/endpoint_diff.h"

#include <string.h>

static bool is_terminating(const struct slice_endpoint *endpoint)
{
    return endpoint->flags & ENDPOINT_TERMINATING;
}

/* ---- the copies in the slice itself ---- */

static void make_buckets(struct endpoint_diff *diff, size_t most)
{
    size_t n = 8;
    while (n < 2 * most)
        n *= 2;
    vec_clear(&diff->buckets);
    vec_reserve(&diff->buckets, n);
    memset(diff->buckets.v, 0, n * sizeof(*diff->buckets.v));
    diff->buckets.n = n;
}

/* Buckets hold places in pairs, from 1. */
static struct endpoint_pair *pair_of(struct endpoint_diff *diff, const struct address *address,
                                     uint16_t port)
{
    size_t mask = diff->buckets.n - 1, at = address_hash(address, port) & mask;
    for (; diff->buckets.v[at]; at = (at + 1) & mask) {
        struct endpoint_pair *pair = &diff->pairs.v[diff->buckets.v[at] - 1];
        if (pair->port == port && memcmp(pair->address, address, sizeof(*address)) == 0)
            return pair;
    }
    vec_push(&diff->pairs, (struct endpoint_pair){address, NULL, NULL, port});
    diff->buckets.v[at] = (uint32_t)diff->pairs.n;
    return &diff->pairs.v[diff->pairs.n - 1];
}

static bool is_of(const struct slice_port *entry, const struct slice_port *port)
{
    return entry->protocol == port->protocol && strcmp(entry->name, port->name) == 0;
}

static size_t count(const struct endpoint_slice *slice, const struct slice_port *port)
{
    size_t n = 0;
    if (slice)
        vec_each (&slice->ports, entry)
            n += is_of(entry, port) ? slice->endpoints.n : 0;
    return n;
}

/* Of several copies the first one that is not terminating wins, else the first one. */
static void take(struct endpoint_diff *diff, const struct endpoint_slice *slice,
                 const struct slice_port *port, bool after)
{
    if (!slice)
        return;
    vec_each (&slice->ports, entry) {
        if (!is_of(entry, port))
            continue;
        vec_each (&slice->endpoints, endpoint) {
            struct endpoint_pair *pair = pair_of(diff, &endpoint->address, entry->port);
            const struct slice_endpoint **copy = after ? &pair->after : &pair->before;
            if (!*copy || (is_terminating(*copy) && !is_terminating(endpoint)))
                *copy = endpoint;
        }
    }
}

/* ---- those in others ---- */

/* A copy and whose it is. */
struct copy {
    const struct slice_endpoint *endpoint; /* NULL: none */
    const struct endpoint_slice *slice;
};

static bool goes_before(const struct copy *a, const struct copy *b)
{
    if (!a->endpoint || !a->slice)
        return false;
    if (!b->endpoint || !b->slice)
        return true;
    if (is_terminating(a->endpoint) != is_terminating(b->endpoint))
        return is_terminating(b->endpoint);
    if (a->slice == b->slice)
        return a->endpoint < b->endpoint; /* they are in its array */
    return strcmp(a->slice->id, b->slice->id) < 0;
}

static bool has_number(const struct endpoint_slice *slice, const struct slice_port *port,
                       uint16_t number)
{
    vec_each (&slice->ports, entry)
        if (entry->port == number && is_of(entry, port))
            return true;
    return false;
}

/* The copy that wins among those in other slices. */
static struct copy best_of_others(const struct slice_change *change, const struct slice_port *port,
                                  const struct endpoint_pair *pair)
{
    struct copy best = {NULL, NULL}, copy;
    uint32_t number;
    if (!change->others)
        return best;
    size_t at = address_index_start(change->others, pair->address);
    while ((copy.endpoint = address_index_next(change->others, pair->address, &at, &copy.slice,
                                               &number)) != NULL)
        if (number != change->number && has_number(copy.slice, port, pair->port) &&
            goes_before(&copy, &best))
            best = copy;
    return best;
}

static const struct slice_endpoint *winner(const struct slice_endpoint *endpoint,
                                           const struct endpoint_slice *slice,
                                           const struct copy *other)
{
    const struct copy own = {endpoint, slice};
    return goes_before(&own, other) ? endpoint : other->endpoint;
}

static bool is_same(const struct slice_endpoint *a, const struct slice_endpoint *b)
{
    return a == b || (a && b && slice_endpoint_equal(a, b));
}

/* ---- all of it ---- */

void endpoint_diff_make(struct endpoint_diff *diff, const struct slice_change *change,
                        const struct slice_port *port)
{
    vec_clear(&diff->pairs);
    vec_clear(&diff->changes);
    make_buckets(diff, count(change->before, port) + count(change->after, port));
    take(diff, change->before, port, false);
    take(diff, change->after, port, true);
    vec_each (&diff->pairs, pair) {
        if (is_same(pair->before, pair->after))
            continue;
        struct copy other = best_of_others(change, port, pair);
        struct endpoint_change result = {*pair->address, pair->port,
                                         winner(pair->before, change->before, &other),
                                         winner(pair->after, change->after, &other)};
        if (!is_same(result.before, result.after))
            vec_push(&diff->changes, result);
    }
}

void endpoint_diff_clear(struct endpoint_diff *diff)
{
    vec_free(&diff->pairs);
    vec_free(&diff->buckets);
    vec_free(&diff->changes);
}
