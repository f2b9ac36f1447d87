/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Frontends, slots and backends as the bytes that the kernel's maps hold. Pure. */
#ifndef KUBE_NFTD_RULESET_KEYS_H
#define KUBE_NFTD_RULESET_KEYS_H

#include "kube-nftd/model/cidr.h"
#include "kube-nftd/model/frontend.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Room for any key or value of the maps. */
#define KEY_SIZE 64

/* A key or value while it is put together: a concatenation, in which each field fills whole 32-bit
 * registers, padded with zeros. Starts zeroed. */
struct key {
    uint8_t bytes[KEY_SIZE];
    size_t length;
};

void key_put_address(struct key *key, enum family family, const struct address *address);
void key_put_protocol(struct key *key, uint8_t protocol);
void key_put_port(struct key *key, uint16_t port);
/** A number of the host's byte order: a slot or a classid. */
void key_put_number(struct key *key, uint32_t number);

/** The key of a frontend: address, protocol, port. */
struct key key_of_frontend(const struct frontend *frontend);

/** The key of a frontend's slot. */
struct key key_of_slot(const struct frontend *frontend, uint32_t slot);

/** A backend as a value: address, port. */
struct key value_of_backend(enum family family, const struct backend *backend);

/** The reverse; false if the bytes cannot be one of ours. */
bool frontend_of_key(enum family family, const uint8_t *key, size_t length,
                     struct frontend *frontend);
bool slot_of_key(enum family family, const uint8_t *key, size_t length, struct frontend *frontend,
                 uint32_t *slot);
bool backend_of_value(enum family family, const uint8_t *value, size_t length,
                      struct backend *backend);

/* Lists of sources have numbers from 1 on. */
#define MOST_LISTS 0xffffffu

/** What leads a frontend to a list of sources: the number, and below it room for the length of a
 * prefix. */
uint32_t value_of_list(uint32_t list);
uint32_t list_of_value(uint32_t value);
/** Whether it can be one of ours. */
bool is_list_value(uint32_t value);

/** The key of a prefix in a list: its address, the list's value with its length. */
struct key key_of_source(enum family family, uint32_t list, const struct cidr *prefix);
bool source_of_key(enum family family, const uint8_t *key, size_t length, uint32_t *list,
                   struct cidr *prefix);

#endif
