/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Frontends, slots and backends as the bytes that the kernel's maps hold. Pure. */
#ifndef KUBE_NFTD_RULESET_KEYS_H
#define KUBE_NFTD_RULESET_KEYS_H

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

/** One end of an element of allowed_sources: a frontend and an address. */
struct key key_of_source(const struct frontend *frontend, const struct address *source);
bool source_of_key(enum family family, const uint8_t *key, size_t length, struct frontend *frontend,
                   struct address *source);

#endif
