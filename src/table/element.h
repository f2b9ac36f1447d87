/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The elements of the table's maps and sets (base.nft): THE list of these, what keys and values
 * consist of, and the bytes that the kernel has for frontends, slots, backends, prefixes and
 * ranges. Not in the list are the maps of verdicts, which belong to the rules, and those that
 * packets write: records of session affinity, and counted connections. Pure.
 */
#ifndef KUBE_NFTD_TABLE_ELEMENT_H
#define KUBE_NFTD_TABLE_ELEMENT_H

#include "kube-nftd/base.h"
#include "kube-nftd/model.h"
#include "kube-nftd/netlink.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- numbers in values ---- */

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

/* Lists of sources have numbers from 1 on. What leads a frontend to a list is the number, and below
 * it room for the length of a prefix. */
#define LIST_LENGTH_BITS 8
#define MOST_LISTS (UINT32_MAX >> LIST_LENGTH_BITS)

static inline uint32_t value_of_list(uint32_t list)
{
    return list << LIST_LENGTH_BITS;
}

static inline uint32_t list_of_value(uint32_t value)
{
    return value >> LIST_LENGTH_BITS;
}

/* ---- keys ---- */

/* How long what nothing leads to stays, in seconds: longer than a packet takes from one lookup to
 * the next. */
#define RULESET_TRIM_DELAY 0.1

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

struct key key_of_bytes(const uint8_t *bytes, size_t length);
struct key key_of_number(uint32_t number);
/** Address, protocol, port. */
struct key key_of_frontend(const struct frontend *frontend);
/** Slot @slot of service port P. */
struct key key_of_slot(uint32_t port, uint32_t slot);
/** A prefix in a list of sources: its address, the list's value with its length. */
struct key key_of_source(enum family family, uint32_t list, const struct cidr *prefix);
/** The first and the last address. */
struct key key_of_range(enum family family, const struct address_range *range);
/** A backend as a value: address, port. */
struct key value_of_backend(enum family family, const struct backend *backend);

/* The reverse; false if the bytes cannot be one of ours. */
bool frontend_of_key(enum family family, const uint8_t *key, size_t length,
                     struct frontend *frontend);
bool source_of_key(enum family family, const uint8_t *key, size_t length, uint32_t *list,
                   struct cidr *prefix);
bool backend_of_value(enum family family, const uint8_t *value, size_t length,
                      struct backend *backend);
struct address_range range_of_key(enum family family, const uint8_t *key);

/* ---- the list of maps and sets ---- */

/* Those of frontends, then those of service ports, each in the order in which a batch changes them.
 * A table is read back in this order: what leads to a service port is known before its slots. */
enum table_set {
    SET_SERVICES,
    SET_RESTRICTED,
    FRONTEND_SETS,
    SET_AFFINITY_TIMEOUTS = FRONTEND_SETS,
    SET_LOCAL_PORTS,
    SET_PORTS,
    SET_REJECTED,
    SET_DROPPED,
    NUMBER_SETS,
    SET_ENDPOINTS = NUMBER_SETS,
    SET_LOCAL_ENDPOINTS,
    SET_CLUSTER_IPS,
    SET_HAIRPIN,
    SET_ALLOWED_SOURCES,
    SET_AFFINITY_NUMBERS,
    SET_AFFINITY_BACKENDS,
    SET_LOCAL_AFFINITY_BACKENDS,
    SET_SERVICE_CIDRS,
    SET_POD_CIDRS,
    TABLE_SETS
};

/* Whose elements there are in a set. */
enum set_owner {
    OWNER_FRONTEND, /* one of each frontend: a number */
    OWNER_PORT,     /* likewise of each service port; in a set without values the number is 1 */
    OWNER_SLOTS,    /* one of each slot of a service port */
    OWNER_TABLE,    /* nobody's: plain elements */
    OWNER_RANGES    /* likewise, and the kernel tells the ends of ranges */
};

/* What keys and values consist of, a letter for each field. */
enum set_field {
    FIELD_ADDRESS = 'A',
    FIELD_RANGE = 'R', /* the first and the last address */
    FIELD_PROTOCOL = 'P',
    FIELD_PORT = 'S',
    FIELD_NUMBER = 'N',
    FIELD_CLASSID = 'C'
};

struct set_schema {
    const char *name; /* in base.nft */
    enum set_owner owner;
    const char *key, *value; /* their fields; no value: a set */
    uint32_t low;            /* OWNER_PORT: what stands below P in the key */
};

extern const struct set_schema set_schema[TABLE_SETS];

static inline const char *set_name(enum table_set set)
{
    return set_schema[set].name;
}

static inline enum set_owner set_owner(enum table_set set)
{
    return set_schema[set].owner;
}

static inline bool set_is_plain(enum table_set set)
{
    return set_schema[set].owner >= OWNER_TABLE;
}

/** The set of that name; TABLE_SETS if it is none of these. */
enum table_set set_of_name(const char *name);

/* An element of the kernel's, taken apart. Plain ones stay bytes. */
struct element {
    struct frontend frontend; /* OWNER_FRONTEND */
    uint32_t port, slot;      /* P: OWNER_PORT and OWNER_SLOTS; OWNER_SLOTS */
    uint32_t number;          /* its value; 1 in a set without values */
    struct backend backend;   /* OWNER_SLOTS: its value */
};

/** Takes apart the key, or the value, of @from. False if that cannot be one of ours. */
bool element_take_key(enum table_set set, enum family family, const struct nft_element *from,
                      struct element *to);
bool element_take_value(enum table_set set, enum family family, const struct nft_element *from,
                        struct element *to);

/* ---- ranges in a set of single addresses, of which the kernel tells the ends one by one ---- */

/* One end of a range. */
struct boundary {
    struct address address;
    bool is_end; /* the first address behind the range */
};

/* Of one set, as they are read. Starts zeroed. */
struct boundaries {
    VEC(struct boundary) all;
    bool foreign; /* there was something that is no end of a range of addresses */
};

void boundaries_take(struct boundaries *boundaries, enum family family,
                     const struct nft_element *element);
/** Nothing is in it any more; frees what it holds. */
void boundaries_clear(struct boundaries *boundaries);

enum boundaries_verdict {
    BOUNDARIES_PAIRED,
    BOUNDARIES_TORN,   /* some came twice: read the set again */
    BOUNDARIES_FOREIGN /* they make no ranges, so they cannot be ours */
};

/** Pairs what was taken, and sorts it: the ranges are appended to @out in ascending order. */
enum boundaries_verdict boundaries_pair(struct boundaries *boundaries, enum family family,
                                        range_vec *out);

/** How many elements the kernel has for a range: no end is behind the highest address. */
size_t range_elements(enum family family, const struct address_range *range);

#endif
