/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "keys.h"

#include <arpa/inet.h>
#include <string.h>

#define REGISTER sizeof(uint32_t)

/* How long a frontend is in a key. */
static size_t frontend_length(enum family family)
{
    return address_length(family) + 2 * REGISTER;
}

void key_put_address(struct key *key, enum family family, const struct address *address)
{
    memcpy(key->bytes + key->length, address->bytes, address_length(family));
    key->length += address_length(family);
}

void key_put_protocol(struct key *key, uint8_t protocol)
{
    key->bytes[key->length] = protocol;
    key->length += REGISTER;
}

void key_put_port(struct key *key, uint16_t port)
{
    uint16_t big = htons(port);
    memcpy(key->bytes + key->length, &big, sizeof(big));
    key->length += REGISTER;
}

void key_put_number(struct key *key, uint32_t number)
{
    memcpy(key->bytes + key->length, &number, sizeof(number));
    key->length += REGISTER;
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
    struct key key = {.length = 0};
    key_put_number(&key, port);
    key_put_number(&key, slot); /* numgen gives numbers of the host's order */
    return key;
}

struct key value_of_backend(enum family family, const struct backend *backend)
{
    struct key value = {.length = 0};
    key_put_address(&value, family, &backend->address);
    key_put_port(&value, backend->port);
    return value;
}

static uint16_t get_port(const uint8_t *from)
{
    uint16_t big;
    memcpy(&big, from, sizeof(big));
    return ntohs(big);
}

/* Other padding would make it a key that no message of ours ever names. */
static bool is_same(const struct key *ours, const uint8_t *bytes, size_t length)
{
    return length == ours->length && memcmp(bytes, ours->bytes, length) == 0;
}

bool frontend_of_key(enum family family, const uint8_t *key, size_t length,
                     struct frontend *frontend)
{
    size_t address = address_length(family);
    if (length != frontend_length(family))
        return false;
    memset(frontend, 0, sizeof(*frontend));
    memcpy(frontend->address.bytes, key, address);
    frontend->protocol = key[address];
    frontend->port = get_port(key + address + REGISTER);
    frontend->family = (uint8_t)family;
    struct key ours = key_of_frontend(frontend);
    return protocol_name(frontend->protocol) && frontend->port != 0 && is_same(&ours, key, length);
}

bool number_of_key(const uint8_t *key, size_t length, uint32_t *number)
{
    if (length != REGISTER)
        return false;
    memcpy(number, key, sizeof(*number));
    return true;
}

bool slot_of_key(const uint8_t *key, size_t length, uint32_t *port, uint32_t *slot)
{
    if (length != 2 * REGISTER)
        return false;
    memcpy(port, key, sizeof(*port));
    memcpy(slot, key + REGISTER, sizeof(*slot));
    return *port != 0 && low_of_value(*port) == 0 && *slot < MAX_BACKENDS;
}

bool backend_of_value(enum family family, const uint8_t *value, size_t length,
                      struct backend *backend)
{
    size_t address = address_length(family);
    if (length != address + REGISTER)
        return false;
    memset(backend, 0, sizeof(*backend));
    memcpy(backend->address.bytes, value, address);
    backend->port = get_port(value + address);
    struct key ours = value_of_backend(family, backend);
    return backend->port != 0 && is_same(&ours, value, length);
}

/* ---- lists of sources ---- */

#define LENGTH_BITS 8
#define LENGTH_MASK ((1u << LENGTH_BITS) - 1)

uint32_t value_of_list(uint32_t list)
{
    return list << LENGTH_BITS;
}

uint32_t list_of_value(uint32_t value)
{
    return value >> LENGTH_BITS;
}

bool is_list_value(uint32_t value)
{
    return value != 0 && (value & LENGTH_MASK) == 0;
}

struct key key_of_source(enum family family, uint32_t list, const struct cidr *prefix)
{
    struct key key = {.length = 0};
    key_put_address(&key, family, &prefix->address);
    key_put_number(&key, value_of_list(list) | prefix->length);
    return key;
}

bool source_of_key(enum family family, const uint8_t *key, size_t length, uint32_t *list,
                   struct cidr *prefix)
{
    size_t address = address_length(family);
    uint32_t value;
    if (length != address + REGISTER)
        return false;
    memset(prefix, 0, sizeof(*prefix));
    memcpy(prefix->address.bytes, key, address);
    memcpy(&value, key + address, sizeof(value));
    prefix->length = (uint8_t)(value & LENGTH_MASK);
    *list = list_of_value(value);
    return *list != 0 && prefix->length > 0 && prefix->length <= 8 * address &&
           cidr_contains(prefix, &prefix->address);
}
