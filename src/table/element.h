/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The elements of the table's maps and sets (base.nft): the list of sets, the fields of keys and
 * values, and the kernel's encoding of frontends, slots, backends, prefixes and ranges. Excludes
 * verdict maps, which belong to the rules, and sets written by packets: session affinity records
 * and counted connections. Pure.
 */
#ifndef KUBE_NFTD_TABLE_ELEMENT_H
#define KUBE_NFTD_TABLE_ELEMENT_H

#include "kube-nftd/base.h"
#include "kube-nftd/net.h"
#include "kube-nftd/netlink.h"
#include "kube-nftd/table.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- numbers in values ---- */

/*
 * The upper bits of a classid are P, the number of a service port. The lower bits hold a frontend
 * class, a number of backends, or the number of a backend.
 */
#define PORT_LOW_BITS 15
#define PORT_LOW_MASK ((1u << PORT_LOW_BITS) - 1)
#define MOST_PORTS (UINT32_MAX >> PORT_LOW_BITS)

/* The lower bits of a frontend's value, from here on, are this and the class; below, they are the
 * number of backends itself: the frontend is counted. */
#define CLASS_BASE 0x7ff0u
#define MAX_BACKENDS (CLASS_BASE - 1)

/** P of a value, with the lower bits zero; the lower bits. */
static inline uint32_t port_of_value(uint32_t value)
{
    return value & ~PORT_LOW_MASK;
}

static inline uint32_t low_of_value(uint32_t value)
{
    return value & PORT_LOW_MASK;
}

/** Whether @value is that of a counted frontend; the class in a frontend's value. */
static inline bool value_is_counted(uint32_t value)
{
    return value != 0 && low_of_value(value) < CLASS_BASE;
}

static inline unsigned class_of_value(uint32_t value)
{
    return value_is_counted(value) ? 0 : low_of_value(value) - CLASS_BASE;
}

/* Each number of backends below this has a chain of its own, which draws once. Those of an octave,
 * from a power of two up to twice that, share one, which draws again where no slot is: for each new
 * chain, the kernel walks all elements of the map of slots. */
#define EXACT_COUNTS 32u

/** The power of two from which on @n backends share a chain; 0: they have one of their own. */
static inline uint32_t octave_of(uint32_t n)
{
    uint32_t octave = EXACT_COUNTS;
    while (octave <= n / 2)
        octave *= 2;
    return n < EXACT_COUNTS ? 0 : octave;
}

/** How many slots the chain of @n backends draws from; the first @n of them exist. */
static inline uint32_t drawn_slots(uint32_t n)
{
    return n < EXACT_COUNTS ? n : 2 * octave_of(n);
}

/* What is known of a service port's affinity records: the lower bits are their timeout in seconds,
 * the upper ones its identity (struct port_route), folded to 1 or more; 0: a previous version wrote
 * none. */
#define TIMEOUT_BITS 17
#define MOST_IDENTITIES (UINT32_MAX >> TIMEOUT_BITS)

static inline uint32_t timeout_of_value(uint32_t value)
{
    return value & ((1u << TIMEOUT_BITS) - 1);
}

static inline uint32_t identity_of_value(uint32_t value)
{
    return value >> TIMEOUT_BITS;
}

static inline uint32_t value_of_timeout(uint32_t timeout, uint32_t identity)
{
    const uint32_t folded = identity ? identity % MOST_IDENTITIES + 1 : 0;
    return timeout | folded << TIMEOUT_BITS;
}

/* Source lists are numbered from 1. A service port's list value is the number, with room for a
 * prefix length in the lower bits. */
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

/* Seconds that unreachable elements stay: longer than a packet takes between two lookups. */
#define RULESET_TRIM_DELAY 0.1

/* Large enough for any key or value of the maps. */
#define KEY_SIZE 64

/* A key or value under construction: a concatenation whose fields are zero-padded to whole 32-bit
 * registers. Starts zeroed. */
struct key {
    uint8_t bytes[KEY_SIZE];
    size_t length;
};

void key_put_address(struct key *key, enum family family, const struct address *address);
void key_put_protocol(struct key *key, uint8_t protocol);
void key_put_port(struct key *key, uint16_t port);
/** A number in host byte order: a slot or a classid. */
void key_put_number(struct key *key, uint32_t number);

struct key key_of_bytes(const uint8_t *bytes, size_t length);
struct key key_of_number(uint32_t number);
/** Address, protocol, port. */
struct key key_of_frontend(const struct frontend *frontend);
/** Slot @slot of service port P. */
struct key key_of_slot(uint32_t port, uint32_t slot);
/** A prefix in a source list: its address; the list's value with the prefix length. */
struct key key_of_source(enum family family, uint32_t list, const struct cidr *prefix);
/** The first and the last address. */
struct key key_of_range(enum family family, const struct address_range *range);
/** A backend as a value: address, port. */
struct key value_of_backend(enum family family, const struct backend *backend);

/* Decoding; false if the bytes cannot be ours. */
bool source_of_key(enum family family, const uint8_t *key, size_t length, uint32_t *list,
                   struct cidr *prefix);
bool backend_of_value(enum family family, const uint8_t *value, size_t length,
                      struct backend *backend);
struct address_range range_of_key(enum family family, const uint8_t *key);

/* ---- the list of maps and sets ---- */

/* The set of frontends, then those of service ports in the order in which a batch changes them.
 * A read-back uses this order: the values that lead to a service port come before its slots. */
enum table_set {
    SET_SERVICES,
    FRONTEND_SETS,
    SET_SOURCE_LISTS = FRONTEND_SETS,
    SET_AFFINITY_TIMEOUTS,
    SET_LOCAL_PORTS,
    SET_PORTS,
    SET_REJECTED,
    SET_DROPPED,
    NUMBER_SETS,
    SET_ENDPOINTS = NUMBER_SETS,
    SET_LOCAL_ENDPOINTS,
    SET_CLUSTER_IPS,
    SET_HAIRPIN,
    SET_LOCALHOST_PORTS,
    SET_ALLOWED_SOURCES,
    SET_AFFINITY_NUMBERS,
    SET_AFFINITY_BACKENDS,
    SET_LOCAL_AFFINITY_BACKENDS,
    SET_SERVICE_CIDRS,
    SET_SERVICE_RANGES,
    SET_POD_CIDRS,
    TABLE_SETS
};

/* Owners of the elements in a set. */
enum set_owner {
    OWNER_FRONTEND, /* one element per frontend: a number */
    OWNER_PORT,     /* one per service port: a number, 1 in a set without values */
    OWNER_SLOTS,    /* one per slot of a service port */
    OWNER_TABLE,    /* plain elements, without an owner */
    OWNER_RANGES    /* likewise; the kernel reports the ends of ranges */
};

/* When the elements of a set are sent: what packets are led to comes before what leads there, and
 * goes after that. The table rejects packets to unserved ports of a cluster IP, so those come last,
 * and go first; ranges make room for others before these come. */
enum set_phase {
    PHASE_RANGES,
    PHASE_NOT_REJECTED, /* cluster IPs go */
    PHASE_PLAIN,        /* what slots, ports and frontends need comes */
    PHASE_SLOTS,
    PHASE_PORTS,
    PHASE_FRONTENDS, /* they come and go */
    PHASE_PORTS_GO,
    PHASE_SLOTS_GO,
    PHASE_PLAIN_GOES,
    PHASE_REJECTED, /* cluster IPs come */
    PHASES
};

/* Fields of keys and values, one letter each. */
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
    enum set_phase comes, goes; /* a new value comes */
    const char *key, *value;    /* fields; value empty: a set */
    uint32_t low;               /* OWNER_PORT: the bits below P in the key */
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

/** The set with that name; TABLE_SETS if none. */
enum table_set set_of_name(const char *name);

/* A decoded element. Plain ones stay bytes. */
struct element {
    struct frontend frontend; /* OWNER_FRONTEND */
    uint32_t port, slot;      /* P: ports and slots; slot: OWNER_SLOTS */
    uint32_t number;          /* its value; 1 in a set without values */
    struct backend backend;   /* OWNER_SLOTS: its value */
};

/** Decodes the key, or the value, of @from. False if it cannot be ours. */
bool element_take_key(enum table_set set, enum family family, const struct nft_element *from,
                      struct element *to);
bool element_take_value(enum table_set set, enum family family, const struct nft_element *from,
                        struct element *to);

/* ---- ranges in a set of single addresses, whose ends the kernel reports one by one ---- */

/* One end of a range. */
struct boundary {
    struct address address;
    bool is_end; /* the first address after the range */
};

/* The ends in one set, while it is read. Starts zeroed, but for the family. */
struct boundaries {
    enum family family;
    VEC(struct boundary) all;
    bool foreign; /* an element was not the end of an address range */
};

/** Takes one; @boundaries is a struct boundaries. */
void boundaries_take(void *boundaries, const struct nft_element *element);
/** Empties it and frees its memory. */
void boundaries_clear(struct boundaries *boundaries);

enum boundaries_verdict {
    BOUNDARIES_PAIRED,
    BOUNDARIES_TORN,   /* some ends came twice: read the set again */
    BOUNDARIES_FOREIGN /* they form no ranges, so they are not ours */
};

/** Pairs the ends and appends the ranges to @out, ascending. */
enum boundaries_verdict boundaries_pair(struct boundaries *boundaries, range_vec *out);

/** Whether @boundary is an end of the range with that key. */
bool range_ends_at(enum family family, const uint8_t *key, const struct nft_element *boundary);

/** Passes @ranges on as elements, whose keys are both ends; whether such a key is among them
 * (ascending). */
void ranges_each(enum family family, const range_vec *ranges, nft_element_fn fn, void *ctx);
bool ranges_have(enum family family, const range_vec *ranges, const uint8_t *key);

/** How many elements of the kernel one of @set is: a range has two, unless it includes the highest
 * address. */
size_t kernel_elements(enum family family, enum table_set set, const uint8_t *key);

#endif
