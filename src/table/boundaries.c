/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "boundaries.h"

#include <linux/netfilter/nf_tables.h>
#include <string.h>

void boundaries_take(struct boundaries *b, enum family family, const struct nft_element *element)
{
    struct boundary boundary = {.is_end = element->flags & NFT_SET_ELEM_INTERVAL_END};
    if (element->key_length != address_length(family)) {
        b->foreign = true;
        return;
    }
    memcpy(boundary.address.bytes, element->key, element->key_length);
    vec_push(&b->all, boundary);
}

void boundaries_clear(struct boundaries *b)
{
    vec_free(&b->all);
    b->foreign = false;
}

static int compare(const void *a, const void *b)
{
    const struct boundary *p = a, *q = b;
    int order = memcmp(&p->address, &q->address, sizeof(p->address));
    return order ? order : q->is_end - p->is_end;
}

/* False if some came twice. */
static bool sort(struct boundaries *b)
{
    if (b->all.n)
        qsort(b->all.v, b->all.n, sizeof(*b->all.v), compare);
    for (size_t i = 1; i < b->all.n; i++)
        if (compare(&b->all.v[i - 1], &b->all.v[i]) == 0)
            return false;
    return true;
}

/* The address before one that is not the first of all. */
static struct address address_before(enum family family, const struct address *address)
{
    struct address before = *address;
    for (size_t i = address_length(family); i-- > 0;)
        if (before.bytes[i]-- != 0)
            break;
    return before;
}

static struct address highest(enum family family)
{
    struct address address = {{0}};
    memset(address.bytes, 0xff, address_length(family));
    return address;
}

/* nft puts an end before all ranges where it fills a set. */
static bool ends_nothing(const struct boundary *boundary)
{
    const struct address lowest = {{0}};
    return boundary->is_end && memcmp(&boundary->address, &lowest, sizeof(lowest)) == 0;
}

enum boundaries_verdict boundaries_pair(struct boundaries *b, enum family family, range_vec *out)
{
    const struct address *first = NULL;
    if (b->foreign)
        return BOUNDARIES_FOREIGN;
    if (!sort(b))
        return BOUNDARIES_TORN;
    vec_each (&b->all, boundary) {
        if (ends_nothing(boundary))
            continue;
        if (boundary->is_end != (first != NULL))
            return BOUNDARIES_FOREIGN;
        if (first) {
            struct address_range range = {*first, address_before(family, &boundary->address)};
            vec_push(out, range);
        }
        first = boundary->is_end ? NULL : &boundary->address;
    }
    if (first) {
        struct address_range range = {*first, highest(family)};
        vec_push(out, range);
    }
    return BOUNDARIES_PAIRED;
}

size_t range_elements(enum family family, const struct address_range *range)
{
    struct address top = highest(family);
    return memcmp(&range->last, &top, sizeof(top)) == 0 ? 1 : 2;
}

struct key key_of_range(enum family family, const struct address_range *range)
{
    struct key key = {.length = 0};
    key_put_address(&key, family, &range->first);
    key_put_address(&key, family, &range->last);
    return key;
}

struct address_range range_of_key(enum family family, const uint8_t *key)
{
    struct address_range range = {{{0}}, {{0}}};
    size_t length = address_length(family);
    memcpy(range.first.bytes, key, length);
    memcpy(range.last.bytes, key + length, length);
    return range;
}
