/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "endpoint_diff.h"

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

static struct endpoint_range all_of(const struct endpoint_slice *slice)
{
    return (struct endpoint_range){slice, 0, slice ? slice->endpoints.n : 0};
}

/* Of several copies the first one that is not terminating wins, else the first one. */
static void take(struct endpoint_diff *diff, const struct endpoint_range *range,
                 const struct slice_ports *ports, bool after)
{
    vec_each (ports, port) {
        for (size_t i = range->from; i < range->to; i++) {
            const struct slice_endpoint *endpoint = &range->slice->endpoints.v[i];
            struct endpoint_pair *pair = pair_of(diff, &endpoint->address, port->port);
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
static void trim(struct endpoint_range *before, struct endpoint_range *after)
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

static bool has_address(const struct endpoint_range *range, const struct address *address)
{
    for (size_t i = range->from; i < range->to; i++)
        if (memcmp(&range->slice->endpoints.v[i].address, address, sizeof(*address)) == 0)
            return true;
    return false;
}

/* Whether an address in @range is in its slice outside of it as well. */
static bool has_copies_outside(const struct endpoint_range *range)
{
    const struct endpoint_range ahead = {range->slice, 0, range->from},
                                behind = {range->slice, range->to, range->slice->endpoints.n};
    for (size_t i = range->from; i < range->to; i++) {
        const struct address *address = &range->slice->endpoints.v[i].address;
        if (has_address(&ahead, address) || has_address(&behind, address))
            return true;
    }
    return false;
}

static size_t size_of(const struct endpoint_range *range)
{
    return range->to - range->from;
}

/* Nearly all changes are of very few endpoints, and the others need not be looked at: if none is
 * one of those once more, their copies go on to win, or to lose. */
void endpoint_diff_begin(struct endpoint_diff *diff, const struct slice_change *change)
{
    struct endpoint_range before = all_of(change->before), after = all_of(change->after);
    diff->before = before;
    diff->after = after;
    if (!before.slice || !after.slice)
        return;
    trim(&before, &after);
    if (size_of(&before) > FEW || size_of(&after) > FEW || has_copies_outside(&before) ||
        has_copies_outside(&after))
        return;
    diff->before = before;
    diff->after = after;
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

/* The copy that wins among those in other slices. */
static struct copy best_of_others(const struct slice_change *change, const struct slice_port *port,
                                  const struct address *address)
{
    const struct address_index *others = change->others;
    struct indexed_copies copies = {0};
    if (others)
        copies = address_index_find(others, address);
    vec_each (&copies, it) {
        const struct endpoint_slice *slice = others->slices.v[it->slice].slice;
        if (it->slice != change->number && endpoint_slice_has_port(slice, port))
            return (struct copy){&slice->endpoints.v[it->place], slice};
    }
    return (struct copy){0};
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
                        const struct port_change *ports)
{
    const struct endpoint_range all_before = all_of(change->before),
                                all_after = all_of(change->after);
    const struct endpoint_range *before = ports->numbers_differ ? &all_before : &diff->before;
    const struct endpoint_range *after = ports->numbers_differ ? &all_after : &diff->after;
    struct slice_port port = ports->after.n ? *ports->after.v : *ports->before.v;
    vec_clear(&diff->pairs);
    vec_clear(&diff->changes);
    make_buckets(diff, ports->before.n * size_of(before) + ports->after.n * size_of(after));
    take(diff, before, &ports->before, false);
    take(diff, after, &ports->after, true);
    vec_each (&diff->pairs, pair) {
        if (is_same(pair->before, pair->after))
            continue;
        port.port = pair->port;
        struct copy other = best_of_others(change, &port, pair->address);
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
