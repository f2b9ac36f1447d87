/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Addresses, CIDRs and address ranges, and their text forms. */
#include "kube-nftd/base.h"
#include "kube-nftd/net.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const uint8_t mapped_prefix[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};

/* Four decimal numbers. Allows leading zeros: inet_pton() rejects those, inet_aton() reads
 * octal. */
static bool parse_ipv4(const char *text, uint8_t out[4])
{
    for (int i = 0; i < 4; i++) {
        unsigned value = 0;
        const char *start = text;
        for (; *text >= '0' && *text <= '9'; text++) {
            value = value * 10 + (unsigned)(*text - '0');
            if (value > 255)
                return false;
        }
        if (text == start || *text != (i < 3 ? '.' : '\0'))
            return false;
        text++;
        out[i] = (uint8_t)value;
    }
    return true;
}

/* Accepts the same in an IPv4 tail of an IPv6 address: inet_pton() gets the tail in hex. */
static bool parse_ipv6(const char *text, uint8_t out[16])
{
    char plain[ADDRESS_TEXT_SIZE];
    const char *tail = strrchr(text, ':');
    uint8_t v4[4];
    if (!tail || !strchr(tail, '.'))
        return inet_pton(AF_INET6, text, out) == 1;
    size_t head = (size_t)(tail + 1 - text);
    if (head > sizeof(plain) - sizeof("0a01:0203") || !parse_ipv4(tail + 1, v4))
        return false;
    snprintf(plain, sizeof(plain), "%.*s%02x%02x:%02x%02x", (int)head, text, v4[0], v4[1], v4[2],
             v4[3]);
    return inet_pton(AF_INET6, plain, out) == 1;
}

bool address_parse(const char *text, enum family *family, struct address *address)
{
    struct address parsed = {{0}};
    if (parse_ipv4(text, parsed.bytes)) {
        *family = FAMILY_IPV4;
        *address = parsed;
        return true;
    }
    uint8_t v6[16];
    if (!parse_ipv6(text, v6))
        return false;
    if (memcmp(v6, mapped_prefix, sizeof(mapped_prefix)) == 0) {
        *family = FAMILY_IPV4;
        memset(parsed.bytes, 0, sizeof(parsed.bytes));
        memcpy(parsed.bytes, v6 + sizeof(mapped_prefix), 4);
    } else {
        *family = FAMILY_IPV6;
        memcpy(parsed.bytes, v6, sizeof(v6));
    }
    *address = parsed;
    return true;
}

const char *address_format(enum family family, const struct address *address,
                           char out[ADDRESS_TEXT_SIZE])
{
    inet_ntop(family == FAMILY_IPV4 ? AF_INET : AF_INET6, address->bytes, out, ADDRESS_TEXT_SIZE);
    return out;
}

const char *family_name(enum family family)
{
    return family == FAMILY_IPV4 ? "IPv4" : "IPv6";
}

static const struct {
    const char *name;
    uint8_t number;
} protocols[] = {{"TCP", IPPROTO_TCP}, {"UDP", IPPROTO_UDP}, {"SCTP", IPPROTO_SCTP}};

const char *protocol_name(uint8_t protocol)
{
    for (size_t i = 0; i < sizeof(protocols) / sizeof(protocols[0]); i++)
        if (protocols[i].number == protocol)
            return protocols[i].name;
    return NULL;
}

uint8_t protocol_parse(const char *name)
{
    for (size_t i = 0; i < sizeof(protocols) / sizeof(protocols[0]); i++)
        if (strcmp(protocols[i].name, name) == 0)
            return protocols[i].number;
    return 0;
}

int address_compare(const void *a, const void *b)
{
    return memcmp(a, b, sizeof(struct address));
}

void addresses_normalize(address_vec *addresses)
{
    size_t kept = 0;
    vec_sort(addresses, address_compare);
    for (size_t i = 0; i < addresses->n; i++)
        if (kept == 0 || address_compare(&addresses->v[kept - 1], &addresses->v[i]) != 0)
            addresses->v[kept++] = addresses->v[i];
    addresses->n = kept;
}

bool addresses_contain(const address_vec *addresses, const struct address *address)
{
    vec_each (addresses, it)
        if (memcmp(it, address, sizeof(*it)) == 0)
            return true;
    return false;
}

bool address_is_link_local(enum family family, const struct address *address)
{
    const uint8_t *bytes = address->bytes;
    return family == FAMILY_IPV4 ? bytes[0] == 169 && bytes[1] == 254
                                 : bytes[0] == 0xfe && (bytes[1] & 0xc0) == 0x80;
}

bool address_is_loopback(enum family family, const struct address *address)
{
    static const struct address ipv6_loopback = {{[15] = 1}};
    return family == FAMILY_IPV4 ? address->bytes[0] == 127
                                 : memcmp(address, &ipv6_loopback, sizeof(*address)) == 0;
}

const char *address_special(enum family family, const struct address *address)
{
    static const struct address unspecified;
    uint8_t first = address->bytes[0];
    if (memcmp(address, &unspecified, sizeof(*address)) == 0)
        return "the unspecified address";
    if (address_is_loopback(family, address))
        return "a loopback address";
    if (address_is_link_local(family, address))
        return "a link-local address";
    return first == 0xff || (family == FAMILY_IPV4 && first >> 4 == 0xe) ? "a multicast address"
                                                                         : NULL;
}

bool port_parse(const char *text, size_t length, uint16_t *port)
{
    unsigned value = 0;
    for (size_t i = 0; i < length; i++) {
        if (text[i] < '0' || text[i] > '9' || value > UINT16_MAX)
            return false;
        value = value * 10 + (unsigned)(text[i] - '0');
    }
    *port = (uint16_t)value;
    return value > 0 && value <= UINT16_MAX;
}

/* Splits @text at the colon before the port. An IPv6 address with a port needs brackets; a bare
 * address has no port. */
static char *split_host(const char *text, const char **port)
{
    enum family family;
    struct address address;
    *port = NULL;
    if (address_parse(text, &family, &address))
        return xstrdup(text);
    if (*text == '[') {
        const char *end = strchr(text, ']');
        if (!end || end[1] != ':')
            return NULL;
        *port = end + 2;
        return xstrndup(text + 1, (size_t)(end - text - 1));
    }
    const char *colon = strchr(text, ':');
    if (!colon)
        return NULL;
    *port = colon + 1;
    return xstrndup(text, (size_t)(colon - text));
}

int listen_address_parse(const char *text, uint16_t default_port, struct listen_address *address,
                         struct error *err)
{
    static const struct address any;
    struct listen_address read = {.port = default_port};
    const char *port;
    char *host = split_host(text, &port);
    bool good = host && address_parse(host, &read.family, &read.address) &&
                (!port || port_parse(port, strlen(port), &read.port));
    free(host);
    if (!good)
        return error_set(err, "\"%s\" is not an IP address, IP:port or [IPv6]:port", text);
    read.both_families = memcmp(&read.address, &any, sizeof(any)) == 0;
    *address = read;
    return 0;
}

char *listen_address_format(const struct listen_address *address)
{
    char text[ADDRESS_TEXT_SIZE];
    bool ipv6 = address->family == FAMILY_IPV6;
    address_format(address->family, &address->address, text);
    return xasprintf("%s%s%s:%u", ipv6 ? "[" : "", text, ipv6 ? "]" : "", address->port);
}

/* ---- CIDRs and ranges ---- */

/* Prefix bits of an IPv4-mapped IPv6 address. */
#define MAPPED_BITS 96

/* The bytes of an address as a number. IPv4 addresses use the top bits, so that prefixes of both
 * families are alike. */
typedef unsigned __int128 number;

static number number_of(const struct address *address)
{
    number n = 0;
    for (size_t i = 0; i < sizeof(address->bytes); i++)
        n = n << 8 | address->bytes[i];
    return n;
}

static struct address address_of(number n)
{
    struct address address;
    for (size_t i = sizeof(address.bytes); i-- > 0; n >>= 8)
        address.bytes[i] = (uint8_t)n;
    return address;
}

/* The bits of an address of @family behind a prefix of @length bits. */
static number host_bits(enum family family, unsigned length)
{
    unsigned bits = 8 * (unsigned)address_length(family);
    number all = ~(number)0, unused = bits < 128 ? all >> bits : 0;
    return length < 128 ? all >> length & ~unused : 0;
}

/* The distance between two neighbouring addresses. */
static number step_of(enum family family)
{
    return host_bits(family, 8 * (unsigned)address_length(family) - 1);
}

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

bool cidr_parse(const char *text, enum family *family, struct cidr *cidr)
{
    const char *slash = strchr(text, '/');
    enum family parsed;
    struct address address;
    unsigned length;
    if (!slash || !parse_length(slash + 1, &length))
        return false;
    char *address_text = xstrndup(text, (size_t)(slash - text));
    bool good = address_parse(address_text, &parsed, &address);
    bool is_mapped = good && parsed == FAMILY_IPV4 && strchr(address_text, ':');
    free(address_text);
    if (!good || (is_mapped && length < MAPPED_BITS))
        return false;
    length -= is_mapped ? MAPPED_BITS : 0;
    if (length > 8 * address_length(parsed))
        return false;
    *family = parsed;
    cidr->address = address_of(number_of(&address) & ~host_bits(parsed, length));
    cidr->length = (uint8_t)length;
    return true;
}

bool cidr_equal(const struct cidr *a, const struct cidr *b)
{
    return a->length == b->length && memcmp(&a->address, &b->address, sizeof(a->address)) == 0;
}

bool cidr_contains(const struct cidr *cidr, const struct address *address)
{
    number prefix = number_of(address) & ~host_bits(FAMILY_IPV6, cidr->length);
    return prefix == number_of(&cidr->address);
}

void cidr_widen(struct cidr *cidr, const struct address *address)
{
    const number known = number_of(&cidr->address), differs = known ^ number_of(address);
    while (differs & ~host_bits(FAMILY_IPV6, cidr->length))
        cidr->length--;
    cidr->address = address_of(known & ~host_bits(FAMILY_IPV6, cidr->length));
}

struct address_range cidr_range(enum family family, const struct cidr *cidr)
{
    number last = number_of(&cidr->address) | host_bits(family, cidr->length);
    return (struct address_range){cidr->address, address_of(last)};
}

const char *range_format(enum family family, const struct address_range *range,
                         char out[RANGE_TEXT_SIZE])
{
    char first_text[ADDRESS_TEXT_SIZE], last_text[ADDRESS_TEXT_SIZE];
    number first = number_of(&range->first), last = number_of(&range->last);
    address_format(family, &range->first, first_text);
    for (unsigned length = 0; length <= 8 * address_length(family); length++) {
        number host = host_bits(family, length);
        if ((first & host) != 0 || last != (first | host))
            continue;
        snprintf(out, RANGE_TEXT_SIZE, "%s/%u", first_text, length);
        return out;
    }
    snprintf(out, RANGE_TEXT_SIZE, "%s-%s", first_text,
             address_format(family, &range->last, last_text));
    return out;
}

/* Each prefix is the largest that starts at the first address left and ends within the range. */
void range_prefixes(enum family family, const struct address_range *range, cidr_vec *out)
{
    number first = number_of(&range->first), last = number_of(&range->last), end;
    unsigned bits = 8 * (unsigned)address_length(family);
    do {
        unsigned length = 1;
        number host = host_bits(family, length);
        while (length < bits && ((first & host) != 0 || (first | host) > last))
            host = host_bits(family, ++length);
        vec_push(out, (struct cidr){address_of(first), (uint8_t)length});
        end = first | host;
        first = end + step_of(family);
    } while (end < last);
}

bool ranges_contain(const range_vec *ranges, const struct address *address)
{
    vec_each (ranges, range)
        if (address_compare(&range->first, address) <= 0 &&
            address_compare(address, &range->last) <= 0)
            return true;
    return false;
}

void ranges_normalize(enum family family, range_vec *ranges)
{
    if (ranges->n < 2)
        return;
    vec_sort(ranges, address_compare); /* by first address */
    size_t kept = 1;
    for (size_t i = 1; i < ranges->n; i++) {
        struct address_range *before = &ranges->v[kept - 1], *range = &ranges->v[i];
        number gap = number_of(&range->first) - number_of(&before->last);
        bool meets = address_compare(&range->first, &before->last) <= 0 || gap == step_of(family);
        if (!meets)
            ranges->v[kept++] = *range;
        else if (address_compare(&range->last, &before->last) > 0)
            before->last = range->last;
    }
    ranges->n = kept;
}
