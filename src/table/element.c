/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "element.h"

#include <arpa/inet.h>
#include <linux/netfilter/nf_tables.h>
#include <string.h>

#define REGISTER sizeof(uint32_t)

#define FRONTEND "APS"
#define BACKEND "AS"
#define SLOT "CN"

#define PORT_SET OWNER_PORT, PHASE_PORTS, PHASE_PORTS_GO
#define SLOT_SET OWNER_SLOTS, PHASE_SLOTS, PHASE_SLOTS_GO
#define PLAIN_SET OWNER_TABLE, PHASE_PLAIN, PHASE_PLAIN_GOES
#define RANGE_SET OWNER_RANGES, PHASE_RANGES, PHASE_RANGES

const struct set_schema set_schema[TABLE_SETS] = {
    [SET_SERVICES] = {"services", OWNER_FRONTEND, PHASE_FRONTENDS, PHASE_FRONTENDS, FRONTEND, "C",
                      0},
    [SET_SOURCE_LISTS] = {"source_lists", PORT_SET, "C", "C", 0},
    [SET_AFFINITY_TIMEOUTS] = {"affinity_timeouts", PORT_SET, "C", "C", 0},
    [SET_LOCAL_PORTS] = {"local_ports", PORT_SET, "C", "C", 0},
    [SET_PORTS] = {"ports", PORT_SET, "C", "C", 0},
    [SET_REJECTED] = {"rejected_ports", PORT_SET, "C", "", 0},
    [SET_DROPPED] = {"dropped_ports", PORT_SET, "C", "", CLASS_LOCAL},
    [SET_ENDPOINTS] = {"endpoints", SLOT_SET, SLOT, BACKEND, 0},
    [SET_LOCAL_ENDPOINTS] = {"local_endpoints", SLOT_SET, SLOT, BACKEND, 0},
    [SET_CLUSTER_IPS] = {"cluster_ips", OWNER_TABLE, PHASE_REJECTED, PHASE_NOT_REJECTED, "A", "",
                         0},
    [SET_HAIRPIN] = {"hairpin", PLAIN_SET, "AA", "", 0},
    [SET_LOCALHOST_PORTS] = {"localhost_ports", PLAIN_SET, "PS", "", 0},
    [SET_ALLOWED_SOURCES] = {"allowed_sources", PLAIN_SET, "AC", "", 0},
    [SET_AFFINITY_NUMBERS] = {"affinity_numbers", PLAIN_SET, "CAS", "C", 0},
    [SET_AFFINITY_BACKENDS] = {"affinity_backends", PLAIN_SET, "C", BACKEND, 0},
    [SET_LOCAL_AFFINITY_BACKENDS] = {"local_affinity_backends", PLAIN_SET, "C", BACKEND, 0},
    [SET_SERVICE_CIDRS] = {"service_cidrs", RANGE_SET, "R", "", 0},
    [SET_SERVICE_RANGES] = {"service_ranges", RANGE_SET, "R", "", 0},
    [SET_POD_CIDRS] = {"pod_cidrs", RANGE_SET, "R", "", 0},
};

enum table_set set_of_name(const char *name)
{
    unsigned set = 0;
    while (set < TABLE_SETS && strcmp(set_schema[set].name, name) != 0)
        set++;
    return (enum table_set)set;
}

/* ---- keys and values ---- */

static void put(struct key *key, const void *bytes, size_t length)
{
    memcpy(key->bytes + key->length, bytes, length);
    key->length += (length + REGISTER - 1) / REGISTER * REGISTER;
}

void key_put_address(struct key *key, enum family family, const struct address *address)
{
    put(key, address->bytes, address_length(family));
}

void key_put_protocol(struct key *key, uint8_t protocol)
{
    put(key, &protocol, sizeof(protocol));
}

void key_put_port(struct key *key, uint16_t port)
{
    uint16_t big = htons(port);
    put(key, &big, sizeof(big));
}

void key_put_number(struct key *key, uint32_t number)
{
    put(key, &number, sizeof(number));
}

struct key key_of_bytes(const uint8_t *bytes, size_t length)
{
    struct key key = {.length = length};
    if (length)
        memcpy(key.bytes, bytes, length);
    return key;
}

struct key key_of_number(uint32_t number)
{
    struct key key = {.length = 0};
    key_put_number(&key, number);
    return key;
}

struct key key_of_frontend(const struct frontend *frontend)
{
    struct key key = {.length = 0};
    key_put_address(&key, (enum family)frontend->family, &frontend->address);
    key_put_protocol(&key, frontend->protocol);
    key_put_port(&key, frontend->port);
    return key;
}

struct key key_of_slot(uint32_t port, uint32_t slot)
{
    struct key key = key_of_number(port);
    key_put_number(&key, slot); /* numgen yields host byte order */
    return key;
}

struct key key_of_source(enum family family, uint32_t list, const struct cidr *prefix)
{
    struct key key = {.length = 0};
    key_put_address(&key, family, &prefix->address);
    key_put_number(&key, value_of_list(list) | prefix->length);
    return key;
}

struct key key_of_range(enum family family, const struct address_range *range)
{
    struct key key = {.length = 0};
    key_put_address(&key, family, &range->first);
    key_put_address(&key, family, &range->last);
    return key;
}

struct key value_of_backend(enum family family, const struct backend *backend)
{
    struct key value = {.length = 0};
    key_put_address(&value, family, &backend->address);
    key_put_port(&value, backend->port);
    return value;
}

/* ---- decoding ---- */

/* Decodes the port in a register. Our messages could not name a key with other padding. */
static bool take_port(const uint8_t *from, uint16_t *port)
{
    uint16_t big;
    memcpy(&big, from, sizeof(big));
    *port = ntohs(big);
    return *port != 0 && from[2] == 0 && from[3] == 0;
}

static bool frontend_of_key(enum family family, const uint8_t *key, size_t length,
                            struct frontend *frontend)
{
    const size_t address = address_length(family);
    if (length != address + 2 * REGISTER)
        return false;
    memset(frontend, 0, sizeof(*frontend));
    memcpy(frontend->address.bytes, key, address);
    frontend->family = (uint8_t)family;
    frontend->protocol = key[address];
    return protocol_name(frontend->protocol) && !key[address + 1] && !key[address + 2] &&
           !key[address + 3] && take_port(key + address + REGISTER, &frontend->port);
}

bool backend_of_value(enum family family, const uint8_t *value, size_t length,
                      struct backend *backend)
{
    const size_t address = address_length(family);
    if (length != address + REGISTER)
        return false;
    memset(backend, 0, sizeof(*backend));
    memcpy(backend->address.bytes, value, address);
    return take_port(value + address, &backend->port);
}

bool source_of_key(enum family family, const uint8_t *key, size_t length, uint32_t *list,
                   struct cidr *prefix)
{
    const size_t address = address_length(family);
    uint32_t value;
    if (length != address + REGISTER)
        return false;
    memset(prefix, 0, sizeof(*prefix));
    memcpy(prefix->address.bytes, key, address);
    memcpy(&value, key + address, sizeof(value));
    *list = list_of_value(value);
    value -= value_of_list(*list);
    prefix->length = (uint8_t)value;
    return *list != 0 && value > 0 && value <= 8 * address &&
           cidr_contains(prefix, &prefix->address);
}

struct address_range range_of_key(enum family family, const uint8_t *key)
{
    struct address_range range = {{{0}}, {{0}}};
    const size_t length = address_length(family);
    memcpy(range.first.bytes, key, length);
    memcpy(range.last.bytes, key + length, length);
    return range;
}

static bool take_number(const uint8_t *bytes, size_t length, uint32_t *number)
{
    if (length == sizeof(*number))
        memcpy(number, bytes, sizeof(*number));
    return length == sizeof(*number);
}

static size_t length_of(enum family family, const char *fields)
{
    size_t length = 0;
    for (; *fields; fields++)
        length += *fields == FIELD_ADDRESS ? address_length(family)
                  : *fields == FIELD_RANGE ? 2 * address_length(family)
                                           : REGISTER;
    return length;
}

bool element_take_key(enum table_set set, enum family family, const struct nft_element *from,
                      struct element *to)
{
    const uint8_t *key = from->key;
    const size_t length = from->key_length;
    struct cidr prefix;
    uint32_t number;
    switch (set_schema[set].owner) {
    case OWNER_FRONTEND:
        return frontend_of_key(family, key, length, &to->frontend);
    case OWNER_PORT:
        if (!take_number(key, length, &number))
            return false;
        to->port = port_of_value(number);
        return to->port != 0 && low_of_value(number) == set_schema[set].low;
    case OWNER_SLOTS:
        if (length != 2 * REGISTER)
            return false;
        memcpy(&to->port, key, REGISTER);
        memcpy(&to->slot, key + REGISTER, REGISTER);
        return to->port != 0 && low_of_value(to->port) == 0 && to->slot < MAX_BACKENDS;
    default:
        return length == length_of(family, set_schema[set].key) &&
               (set != SET_ALLOWED_SOURCES || source_of_key(family, key, length, &number, &prefix));
    }
}

bool element_take_value(enum table_set set, enum family family, const struct nft_element *from,
                        struct element *to)
{
    const char *fields = set_schema[set].value;
    to->number = 1;
    if (set_schema[set].owner == OWNER_SLOTS)
        return backend_of_value(family, from->data, from->data_length, &to->backend);
    if (from->data_length != length_of(family, fields))
        return false;
    if (set_is_plain(set) || !*fields)
        return true;
    memcpy(&to->number, from->data, sizeof(to->number));
    switch (set) {
    case SET_SOURCE_LISTS:
        return to->number != 0 && value_of_list(list_of_value(to->number)) == to->number;
    case SET_SERVICES:
        return port_of_value(to->number) != 0;
    case SET_PORTS:
    case SET_LOCAL_PORTS: { /* same P as the key */
        uint32_t key;
        return take_number(from->key, from->key_length, &key) && port_of_value(to->number) == key &&
               low_of_value(to->number) != 0;
    }
    default:
        return to->number != 0;
    }
}

/* ---- ranges ---- */

void boundaries_take(void *boundaries, const struct nft_element *element)
{
    struct boundaries *b = boundaries;
    struct boundary boundary = {.is_end = element->flags & NFT_SET_ELEM_INTERVAL_END};
    if (element->key_length != address_length(b->family)) {
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

static int compare_boundaries(const void *a, const void *b)
{
    const struct boundary *p = a, *q = b;
    int order = memcmp(&p->address, &q->address, sizeof(p->address));
    return order ? order : q->is_end - p->is_end;
}

/* False if an end came twice. */
static bool sort(struct boundaries *b)
{
    vec_sort(&b->all, compare_boundaries);
    for (size_t i = 1; i < b->all.n; i++)
        if (compare_boundaries(&b->all.v[i - 1], &b->all.v[i]) == 0)
            return false;
    return true;
}

/* The address before @address, which must not be the lowest. */
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

/* nft fills a set with an end before all ranges. */
static bool ends_nothing(const struct boundary *boundary)
{
    const struct address lowest = {{0}};
    return boundary->is_end && memcmp(&boundary->address, &lowest, sizeof(lowest)) == 0;
}

enum boundaries_verdict boundaries_pair(struct boundaries *b, range_vec *out)
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
        if (first)
            vec_push(out, ((struct address_range){*first,
                                                  address_before(b->family, &boundary->address)}));
        first = boundary->is_end ? NULL : &boundary->address;
    }
    if (first)
        vec_push(out, ((struct address_range){*first, highest(b->family)}));
    return BOUNDARIES_PAIRED;
}

bool range_ends_at(enum family family, const uint8_t *key, const struct nft_element *boundary)
{
    const struct address_range range = range_of_key(family, key);
    struct address address = {{0}};
    if (boundary->key_length != address_length(family))
        return false;
    memcpy(address.bytes, boundary->key, boundary->key_length);
    if (!(boundary->flags & NFT_SET_ELEM_INTERVAL_END))
        return memcmp(&address, &range.first, sizeof(address)) == 0;
    address = address_before(family, &address);
    return memcmp(&address, &range.last, sizeof(address)) == 0;
}

void ranges_each(enum family family, const range_vec *ranges, nft_element_fn fn, void *ctx)
{
    vec_each (ranges, range) {
        const struct key key = key_of_range(family, range);
        fn(ctx, &(struct nft_element){.key = key.bytes, .key_length = key.length});
    }
}

static int compare_ranges(const void *a, const void *b)
{
    return memcmp(a, b, sizeof(struct address_range));
}

bool ranges_have(enum family family, const range_vec *ranges, const uint8_t *key)
{
    const struct address_range range = range_of_key(family, key);
    return ranges->n > 0 &&
           bsearch(&range, ranges->v, ranges->n, sizeof(range), compare_ranges) != NULL;
}

size_t kernel_elements(enum family family, enum table_set set, const uint8_t *key)
{
    const struct address top = highest(family);
    if (set_owner(set) != OWNER_RANGES)
        return 1;
    const struct address_range range = range_of_key(family, key);
    return memcmp(&range.last, &top, sizeof(top)) == 0 ? 1 : 2;
}
