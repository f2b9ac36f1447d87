/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The list of the table's maps and sets (base.nft) that hold what we put there: what their keys and
 * values consist of, whose their elements are, and where a record has them. Whoever
 * encodes, reads, compares or prints elements goes by it. Not in it are the maps of verdicts, which
 * belong to the rules, and those that packets write: records of session affinity, and connections.
 */
#ifndef KUBE_NFTD_TABLE_SCHEMA_H
#define KUBE_NFTD_TABLE_SCHEMA_H

#include "keys.h"
#include "kube-nftd/netlink.h"
#include "shapes.h"

#include <stdbool.h>

struct part;
struct record;
struct ruleset;

/* The first NUMBER_SETS are those of OWNER_PORT and OWNER_FRONTEND, in the order in which a batch
 * changes them. Slots are read after what leads to them. */
enum table_set {
    SET_AFFINITY_TIMEOUTS,
    SET_LOCAL_PORTS,
    SET_PORTS,
    SET_REJECTED,
    SET_DROPPED,
    SET_SERVICES,
    SET_RESTRICTED,
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

/** Its name in base.nft; always the same pointer. */
const char *set_name(enum table_set set);

/** The set of that name; TABLE_SETS if it is none of these. */
enum table_set set_of_name(const char *name);

/* Whose elements there are in a set. */
enum set_owner {
    OWNER_PORT,     /* one of each service port: a number, or it is just there or not */
    OWNER_FRONTEND, /* likewise of each frontend */
    OWNER_SLOTS,    /* one of each slot of a service port */
    OWNER_TABLE,    /* nobody's: contents.h */
    OWNER_RANGES    /* nobody's; the kernel tells the ends of ranges, see boundaries.h */
};

enum set_owner set_owner(enum table_set set);
bool set_is_ranged(enum table_set set);
/** Whether the elements are those of contents.h. */
bool set_has_contents(enum table_set set);

/* What keys and values consist of, a letter for each field. */
enum set_field {
    FIELD_ADDRESS = 'A',
    FIELD_RANGE = 'R', /* the first and the last address */
    FIELD_PROTOCOL = 'P',
    FIELD_PORT = 'S',
    FIELD_NUMBER = 'N',
    FIELD_CLASSID = 'C'
};

const char *set_key_fields(enum table_set set);
const char *set_value_fields(enum table_set set); /* empty for a set */

/** Whether the key of @element can be one of ours, in a set with contents; and its value, in any.
 */
bool set_fits_key(enum table_set set, enum family family, const struct nft_element *element);
bool set_fits_value(enum table_set set, enum family family, const struct nft_element *element);

/* Whose an element is. */
struct set_subject {
    bool is_port;
    uint32_t port;            /* its number in the table */
    struct frontend frontend; /* else */
    uint32_t slot;            /* of OWNER_SLOTS */
};

/** Whose a key is, in a set without contents. False if it cannot be one of ours. */
bool set_subject_of(enum table_set set, enum family family, const uint8_t *key, size_t length,
                    struct set_subject *subject);

/** The key under which a record has its element; in a set of OWNER_SLOTS that of @slot. */
struct key set_key(enum table_set set, const struct record *record, uint32_t slot);

/* A number in a map, or 0 if it is not there. A member of a set has the number 1. */
struct set_number {
    uint32_t held;   /* in the kernel */
    uint32_t wanted; /* made when a commit is planned */
};

/** Whether the owner of the elements of @set is of the sort of @record. */
bool set_is_of(enum table_set set, const struct record *record);

/** What @record has in a set of its owner, of those with numbers. */
struct set_number set_number(enum table_set set, const struct record *record);

/** The kernel has @number of @record, and so a use for the chains, or the service port, that it
 * leads to. */
void set_hold_number(struct ruleset *ruleset, enum table_set set, struct record *record,
                     uint32_t number);

/** The chains that a number in such a set leads to; false if the table always has them. */
bool set_shape(enum table_set set, uint32_t number, struct shape *shape);

/** The slots that @record has in a set of OWNER_SLOTS; NULL if it never had any. */
struct part *set_part(enum table_set set, const struct record *record);
/** The same; it is made if there is none. */
struct part *set_make_part(enum table_set set, struct record *record);

#endif
