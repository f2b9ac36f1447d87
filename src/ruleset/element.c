/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Frontends, slots and backends as the bytes that the kernel's maps hold. */
#include "kube-nftd/ruleset/record.h"

#include <arpa/inet.h>
#include <string.h>

/* Each field of a concatenation fills whole 32-bit registers, padded with zeros. */
#define PROTOCOL_FIELD 4
#define PORT_FIELD 4
#define SLOT_FIELD 4

static void put_port(uint8_t *to, uint16_t port)
{
    uint16_t big = htons(port);
    memcpy(to, &big, sizeof(big));
}

static uint16_t get_port(const uint8_t *from)
{
    uint16_t big;
    memcpy(&big, from, sizeof(big));
    return ntohs(big);
}

size_t key_of_frontend(const struct frontend *frontend, uint8_t key[KEY_SIZE])
{
    size_t length = address_length((enum family)frontend->family);
    memset(key, 0, KEY_SIZE);
    memcpy(key, frontend->address.bytes, length);
    key[length] = frontend->protocol;
    put_port(key + length + PROTOCOL_FIELD, frontend->port);
    return length + PROTOCOL_FIELD + PORT_FIELD;
}

size_t key_of_slot(const struct frontend *frontend, uint32_t slot, uint8_t key[KEY_SIZE])
{
    size_t length = key_of_frontend(frontend, key);
    memcpy(key + length, &slot, sizeof(slot)); /* numgen gives numbers of the host's order */
    return length + SLOT_FIELD;
}

size_t value_of_backend(enum family family, const struct backend *backend, uint8_t value[KEY_SIZE])
{
    size_t length = address_length(family);
    memset(value, 0, KEY_SIZE);
    memcpy(value, backend->address.bytes, length);
    put_port(value + length, backend->port);
    return length + PORT_FIELD;
}

bool frontend_of_key(enum family family, const uint8_t *key, size_t length,
                     struct frontend *frontend)
{
    size_t address = address_length(family);
    if (length != address + PROTOCOL_FIELD + PORT_FIELD)
        return false;
    memset(frontend, 0, sizeof(*frontend));
    memcpy(frontend->address.bytes, key, address);
    frontend->protocol = key[address];
    frontend->port = get_port(key + address + PROTOCOL_FIELD);
    frontend->family = (uint8_t)family;
    /* Other padding would make it a key that no message of ours ever names. */
    uint8_t ours[KEY_SIZE];
    key_of_frontend(frontend, ours);
    return protocol_name(frontend->protocol) && frontend->port != 0 &&
           memcmp(key, ours, length) == 0;
}

bool slot_of_key(enum family family, const uint8_t *key, size_t length, struct frontend *frontend,
                 uint32_t *slot)
{
    if (length < SLOT_FIELD || !frontend_of_key(family, key, length - SLOT_FIELD, frontend))
        return false;
    memcpy(slot, key + length - SLOT_FIELD, sizeof(*slot));
    return *slot < MAX_BACKENDS;
}

bool backend_of_value(enum family family, const uint8_t *value, size_t length,
                      struct backend *backend)
{
    size_t address = address_length(family);
    if (length != address + PORT_FIELD)
        return false;
    memset(backend, 0, sizeof(*backend));
    memcpy(backend->address.bytes, value, address);
    backend->port = get_port(value + address);
    uint8_t ours[KEY_SIZE];
    value_of_backend(family, backend, ours);
    return backend->port != 0 && memcmp(value, ours, length) == 0;
}
