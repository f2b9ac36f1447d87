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

/* A part of a slice's endpoints. */
struct range {
    const struct endpoint_slice *slice; /* NULL: none */
    size_t from, to;
};

static struct range all_of(const struct endpoint_slice *slice)
{
    return (struct range){slice, 0, slice ? slice->endpoints.n : 0};
}

static size_t count(const struct range *range, const struct slice_port *port)
{
    size_t n = 0;
    if (range->slice)
        vec_each (&range->slice->ports, entry)
            n += is_of(entry, port) ? range->to - range->from : 0;
    return n;
}

/* Of several copies the first one that is not terminating wins, else the first one. */
static void take(struct endpoint_diff *diff, const struct range *range,
                 const struct slice_port *port, bool after)
{
    if (!range->slice)
        return;
    vec_each (&range->slice->ports, entry) {
        if (!is_of(entry, port))
            continue;
        for (size_t i = range->from; i < range->to; i++) {
            const struct slice_endpoint *endpoint = &range->slice->endpoints.v[i];
            struct endpoint_pair *pair = pair_of(diff, &endpoint->address, entry->port);
            const struct slice_endpoint **copy = after ? &pair->after : &pair->before;
            if (!*copy || (is_terminating(*copy) && !is_terminating(endpoint)))
                *copy = endpoint;
        }
    }
}

/* ---- what stays as it is ---- */

/* As long as so few endpoints differ, it is looked for each of them whether it has copies among the
 * others. */
#define FEW 4

static bool is_equal(const struct slice_endpoint *a, const struct slice_endpoint *b)
{
    return memcmp(&a->address, &b->address, sizeof(a->address)) == 0 && slice_endpoint_equal(a, b);
}

/* Leaves out of the two what they begin and end with alike. */
static void trim(struct range *before, struct range *after)
{
    const struct slice_endpoint *p = before->slice->endpoints.v, *q = after->slice->endpoints.v;
    while (before->from < before->to && after->from < after->to &&
           is_equal(&p[before->from], &q[after->from])) {
        before->from++;
        after->from++;
    }
    while (before->from < before->to && after->from < after->to &&
           is_equal(&p[before->to - 1], &q[after->to - 1])) {
        before->to--;
        after->to--;
    }
}

static bool has_address(const struct range *range, const struct address *address)
{
    for (size_t i = range->from; i < range->to; i++)
        if (memcmp(&range->slice->endpoints.v[i].address, address, sizeof(*address)) == 0)
            return true;
    return false;
}

/* Whether an address in @range is in its slice outside of it as well. */
static bool has_copies_outside(const struct range *range)
{
    const struct range ahead = {range->slice, 0, range->from},
                       behind = {range->slice, range->to, range->slice->endpoints.n};
    for (size_t i = range->from; i < range->to; i++) {
        const struct address *address = &range->slice->endpoints.v[i].address;
        if (has_address(&ahead, address) || has_address(&behind, address))
            return true;
    }
    return false;
}

static bool is_few(const struct range *range)
{
    return range->to - range->from <= FEW;
}

/* Nearly all changes are of very few endpoints, and the others need not be looked at: if none is
 * one of those once more, their copies go on to win, or to lose. */
static void narrow(const struct slice_change *change, struct range *before, struct range *after)
{
    *before = all_of(change->before);
    *after = all_of(change->after);
    if (!before->slice || !after->slice || !slice_ports_equal(before->slice, after->slice))
        return;
    trim(before, after);
    if (!is_few(before) || !is_few(after) || has_copies_outside(before) ||
        has_copies_outside(after)) {
        *before = all_of(change->before);
        *after = all_of(change->after);
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
    struct range before, after;
    vec_clear(&diff->changes);
    narrow(change, &before, &after);
    make_buckets(diff, count(&before, port) + count(&after, port));
    take(diff, &before, port, false);
    take(diff, &after, port, true);
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
