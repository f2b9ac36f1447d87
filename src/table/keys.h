/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Frontends, slots and backends as the bytes that the kernel's maps hold. Pure. */
#ifndef KUBE_NFTD_TABLE_KEYS_H
#define KUBE_NFTD_TABLE_KEYS_H

#include "kube-nftd/model.h"

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

/*
 * The number of a service port is the upper part of a classid: P. Below it there is room for the
 * class of a frontend, a number of backends, or the number of one backend.
 */
#define PORT_LOW_BITS 15
#define PORT_LOW_MASK ((1u << PORT_LOW_BITS) - 1)
#define MOST_PORTS (UINT32_MAX >> PORT_LOW_BITS)
#define MAX_BACKENDS PORT_LOW_MASK

/* What the class of a frontend is the sum of (base.nft). */
enum frontend_class { CLASS_EXTERNAL = 1, CLASS_LOCAL = 2, CLASS_AFFINE = 4, CLASSES = 8 };

/** P of a value, with nothing below it; and what is below it. */
static inline uint32_t port_of_value(uint32_t value)
{
    return value & ~PORT_LOW_MASK;
}

static inline uint32_t low_of_value(uint32_t value)
{
    return value & PORT_LOW_MASK;
}

/** The key of slot @slot of service port P. */
struct key key_of_slot(uint32_t port, uint32_t slot);

/** A backend as a value: address, port. */
struct key value_of_backend(enum family family, const struct backend *backend);

/** The reverse; false if the bytes cannot be one of ours. */
bool frontend_of_key(enum family family, const uint8_t *key, size_t length,
                     struct frontend *frontend);
bool number_of_key(const uint8_t *key, size_t length, uint32_t *number);
bool slot_of_key(const uint8_t *key, size_t length, uint32_t *port, uint32_t *slot);
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
