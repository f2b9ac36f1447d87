/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "kube-nftd/model.h"

#include "kube-nftd/base.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Of an IPv4 address that is written as IPv6. */
#define MAPPED_BITS 96

/* A decimal number up to 128, leading zeros allowed. */
static bool parse_length(const char *text, unsigned *out)
{
    unsigned value = 0;
    const char *p = text;
    for (; *p >= '0' && *p <= '9'; p++) {
        value = value * 10 + (unsigned)(*p - '0');
        if (value > 128)
            return false;
    }
    *out = value;
    return p != text && *p == '\0';
}

/* The bits of byte @i that belong to a prefix of @length bits. */
static uint8_t prefix_mask(unsigned length, size_t i)
{
    size_t before = i * 8;
    if (length <= before)
        return 0;
    return length - before >= 8 ? 0xff : (uint8_t)(0xff << (8 - (length - before)));
}

static bool parse(const char *address_text, const char *length_text, enum family *family,
                  struct cidr *cidr)
{
    unsigned length;
    if (!address_parse(address_text, family, &cidr->address) || !parse_length(length_text, &length))
        return false;
    if (*family == FAMILY_IPV4 && strchr(address_text, ':')) {
        if (length < MAPPED_BITS)
            return false;
        length -= MAPPED_BITS;
    }
    if (length > address_length(*family) * 8)
        return false;
    for (size_t i = 0; i < sizeof(cidr->address.bytes); i++)
        cidr->address.bytes[i] &= prefix_mask(length, i);
    cidr->length = (uint8_t)length;
    return true;
}

bool cidr_parse(const char *text, enum family *family, struct cidr *cidr)
{
    const char *slash = strchr(text, '/');
    if (!slash)
        return false;
    char *address_text = xstrndup(text, (size_t)(slash - text));
    enum family parsed_family;
    struct cidr parsed;
    bool ok = parse(address_text, slash + 1, &parsed_family, &parsed);
    free(address_text);
    if (ok) {
        *family = parsed_family;
        *cidr = parsed;
    }
    return ok;
}

bool cidr_equal(const struct cidr *a, const struct cidr *b)
{
    return a->length == b->length && memcmp(&a->address, &b->address, sizeof(a->address)) == 0;
}

bool cidr_contains(const struct cidr *cidr, const struct address *address)
{
    for (size_t i = 0; i < sizeof(address->bytes); i++)
        if ((address->bytes[i] & prefix_mask(cidr->length, i)) != cidr->address.bytes[i])
            return false;
    return true;
}

struct address_range cidr_range(enum family family, const struct cidr *cidr)
{
    struct address_range range = {cidr->address, cidr->address};
    for (size_t i = 0; i < address_length(family); i++)
        range.last.bytes[i] |= (uint8_t)~prefix_mask(cidr->length, i);
    return range;
}

/* Whether the range begins where a CIDR of @length bits may, and ends where that one does. */
static bool is_cidr(enum family family, const struct address_range *range, unsigned length)
{
    const struct cidr cidr = {range->first, (uint8_t)length};
    struct address_range whole = cidr_range(family, &cidr);
    return cidr_contains(&cidr, &range->first) &&
           memcmp(&whole.last, &range->last, sizeof(range->last)) == 0;
}

const char *range_format(enum family family, const struct address_range *range,
                         char out[RANGE_TEXT_SIZE])
{
    char first[ADDRESS_TEXT_SIZE], last[ADDRESS_TEXT_SIZE];
    address_format(family, &range->first, first);
    for (unsigned length = 0; length <= 8 * address_length(family); length++) {
        if (!is_cidr(family, range, length))
            continue;
        snprintf(out, RANGE_TEXT_SIZE, "%s/%u", first, length);
        return out;
    }
    snprintf(out, RANGE_TEXT_SIZE, "%s-%s", first, address_format(family, &range->last, last));
    return out;
}

static int compare_addresses(const struct address *a, const struct address *b)
{
    return memcmp(a, b, sizeof(*a));
}

/* The address behind @address; false if that is the highest one. */
static bool next_address(enum family family, struct address *address)
{
    size_t i = address_length(family);
    while (i > 0 && ++address->bytes[i - 1] == 0)
        i--;
    return i > 0;
}

/* How many bits two addresses have in common, from the first one on. */
static unsigned common_bits(enum family family, const struct address *a, const struct address *b)
{
    unsigned n = 0, bits = 8 * (unsigned)address_length(family);
    while (n < bits && a->bytes[n / 8] == b->bytes[n / 8])
        n += 8;
    return n < bits ? n + (unsigned)__builtin_clz((unsigned)(a->bytes[n / 8] ^ b->bytes[n / 8])) -
                          (8 * (unsigned)sizeof(unsigned) - 8)
                    : bits;
}

/* The shortest prefix that begins with @address. */
static unsigned least_length(enum family family, const struct address *address)
{
    unsigned n = 8 * (unsigned)address_length(family);
    while (n > 0 && address->bytes[n / 8 - 1] == 0)
        n -= 8;
    return n > 0 ? n - (unsigned)__builtin_ctz(address->bytes[n / 8 - 1]) : 0;
}

/* The largest CIDR that begins with @first and ends before @last or there, but for that of all
 * addresses. One bit behind what the two have in common, it ends before @last in any case. */
static struct cidr largest_cidr(enum family family, const struct address *first,
                                const struct address *last)
{
    unsigned least = least_length(family, first), common = common_bits(family, first, last);
    struct cidr cidr = {*first, (uint8_t)(common > 0 ? common : 1)};
    struct address_range range = cidr_range(family, &cidr);
    if (least <= cidr.length && compare_addresses(&range.last, last) <= 0)
        return cidr;
    cidr.length = (uint8_t)(least > common + 1 ? least : common + 1);
    return cidr;
}

void range_prefixes(enum family family, const struct address_range *range, cidr_vec *out)
{
    struct address first = range->first;
    do {
        struct cidr cidr = largest_cidr(family, &first, &range->last);
        vec_push(out, cidr);
        first = cidr_range(family, &cidr).last;
    } while (compare_addresses(&first, &range->last) < 0 && next_address(family, &first));
}

bool ranges_contain(const range_vec *ranges, const struct address *address)
{
    vec_each (ranges, range)
        if (compare_addresses(&range->first, address) <= 0 &&
            compare_addresses(address, &range->last) <= 0)
            return true;
    return false;
}

static int compare_ranges(const void *a, const void *b)
{
    const struct address_range *p = a, *q = b;
    return compare_addresses(&p->first, &q->first);
}

/* Whether nothing is between the end of @range and the later @next. */
static bool meets(enum family family, const struct address_range *range,
                  const struct address_range *next)
{
    if (compare_addresses(&next->first, &range->last) <= 0)
        return true;
    struct address behind = range->last;
    return next_address(family, &behind) && compare_addresses(&behind, &next->first) == 0;
}

void ranges_normalize(enum family family, range_vec *ranges)
{
    if (ranges->n < 2)
        return;
    qsort(ranges->v, ranges->n, sizeof(*ranges->v), compare_ranges);
    size_t kept = 1;
    for (size_t i = 1; i < ranges->n; i++) {
        struct address_range *last = &ranges->v[kept - 1], *range = &ranges->v[i];
        if (!meets(family, last, range))
            ranges->v[kept++] = *range;
        else if (compare_addresses(&range->last, &last->last) > 0)
            last->last = range->last;
    }
    ranges->n = kept;
}
