/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "kube-nftd/ruleset/schema.h"

#include "record.h"

#include <stddef.h>
#include <string.h>

/* Where a record has something. */
enum home { IN_RECORD, IN_LOCAL, IN_EXTRAS };

#define FRONTEND "APS"
#define BACKEND "AS"
#define SLOT FRONTEND "N"

static const struct {
    const char *name, *key, *value;
    enum set_owner owner;
    enum home home;          /* OWNER_FRONTEND, of the number; OWNER_SLOTS, of the part */
    size_t at;               /* there */
    enum frontend_flag flag; /* OWNER_FRONTEND without a value: which flag of the record it is */
} sets[TABLE_SETS] = {
    [SET_AFFINITY_IDS] = {"affinity_ids", FRONTEND, "C", OWNER_FRONTEND, IN_EXTRAS,
                          offsetof(struct extras, affinity_id), 0},
    [SET_AFFINITY_TIMEOUTS] = {"affinity_timeouts", FRONTEND, "C", OWNER_FRONTEND, IN_EXTRAS,
                               offsetof(struct extras, affinity_timeout), 0},
    [SET_LOCAL_SERVICES] = {"local_services", FRONTEND, "C", OWNER_FRONTEND, IN_LOCAL,
                            offsetof(struct part, value), 0},
    [SET_SERVICES] = {"services", FRONTEND, "C", OWNER_FRONTEND, IN_RECORD,
                      offsetof(struct record, all.value), 0},
    [SET_REJECTS] = {"reject_frontends", FRONTEND, "", OWNER_FRONTEND, IN_RECORD, 0, FLAG_REJECTED},
    [SET_DROPS] = {"drop_frontends", FRONTEND, "", OWNER_FRONTEND, IN_RECORD, 0, FLAG_DROPPED},
    [SET_RESTRICTED] = {"restricted", FRONTEND, "C", OWNER_FRONTEND, IN_EXTRAS,
                        offsetof(struct extras, restriction), 0},
    [SET_ENDPOINTS] = {"endpoints", SLOT, BACKEND, OWNER_SLOTS, IN_RECORD,
                       offsetof(struct record, all), 0},
    [SET_LOCAL_ENDPOINTS] = {"local_endpoints", SLOT, BACKEND, OWNER_SLOTS, IN_LOCAL, 0, 0},
    [SET_CLUSTER_IPS] = {"cluster_ips", "A", "", OWNER_TABLE, 0, 0, 0},
    [SET_HAIRPIN] = {"hairpin", "AAPS", "", OWNER_TABLE, 0, 0, 0},
    [SET_ALLOWED_SOURCES] = {"allowed_sources", "AC", "", OWNER_TABLE, 0, 0, 0},
    [SET_AFFINITY_NUMBERS] = {"affinity_numbers", "CAS", "C", OWNER_TABLE, 0, 0, 0},
    [SET_AFFINITY_BACKENDS] = {"affinity_backends", "C", BACKEND, OWNER_TABLE, 0, 0, 0},
    [SET_LOCAL_AFFINITY_BACKENDS] = {"local_affinity_backends", "C", BACKEND, OWNER_TABLE, 0, 0, 0},
    [SET_SERVICE_CIDRS] = {"service_cidrs", "R", "", OWNER_RANGES, 0, 0, 0},
    [SET_POD_CIDRS] = {"pod_cidrs", "R", "", OWNER_RANGES, 0, 0, 0},
};

const char *set_name(enum table_set set)
{
    return sets[set].name;
}

enum table_set set_of_name(const char *name)
{
    unsigned set = 0;
    while (set < TABLE_SETS && strcmp(sets[set].name, name) != 0)
        set++;
    return (enum table_set)set;
}

enum set_owner set_owner(enum table_set set)
{
    return sets[set].owner;
}

bool set_is_ranged(enum table_set set)
{
    return sets[set].owner == OWNER_RANGES;
}

bool set_has_contents(enum table_set set)
{
    return sets[set].owner == OWNER_TABLE || sets[set].owner == OWNER_RANGES;
}

/* ---- bytes ---- */

const char *set_key_fields(enum table_set set)
{
    return sets[set].key;
}

const char *set_value_fields(enum table_set set)
{
    return sets[set].value;
}

static size_t length_of(enum family family, const char *fields)
{
    size_t length = 0;
    for (; *fields; fields++)
        length += *fields == FIELD_ADDRESS ? address_length(family)
                  : *fields == FIELD_RANGE ? 2 * address_length(family)
                                           : sizeof(uint32_t);
    return length;
}

bool set_frontend_of(enum table_set set, enum family family, const uint8_t *key, size_t length,
                     struct frontend *frontend, uint32_t *slot)
{
    *slot = 0;
    return sets[set].owner == OWNER_SLOTS ? slot_of_key(family, key, length, frontend, slot)
                                          : frontend_of_key(family, key, length, frontend);
}

bool set_fits_key(enum table_set set, enum family family, const struct nft_element *element)
{
    struct cidr prefix;
    uint32_t list;
    return element->key_length == length_of(family, sets[set].key) &&
           (set != SET_ALLOWED_SOURCES ||
            source_of_key(family, element->key, element->key_length, &list, &prefix));
}

bool set_fits_value(enum table_set set, enum family family, const struct nft_element *element)
{
    struct backend backend;
    uint32_t number = 1;
    if (element->data_length != length_of(family, sets[set].value))
        return false;
    if (sets[set].owner == OWNER_SLOTS)
        return backend_of_value(family, element->data, element->data_length, &backend);
    if (sets[set].owner == OWNER_FRONTEND && element->data_length)
        memcpy(&number, element->data, sizeof(number));
    return set == SET_RESTRICTED ? is_list_value(number) : number != 0;
}

/* ---- records ---- */

/* NULL if @record has no such home. */
static char *home_of(enum table_set set, const struct record *record)
{
    const void *home = sets[set].home == IN_LOCAL    ? (const void *)record->local
                       : sets[set].home == IN_EXTRAS ? (const void *)record->extras
                                                     : record;
    return home ? (char *)home + sets[set].at : NULL;
}

static char *make_home(enum table_set set, struct record *record)
{
    if (sets[set].home == IN_LOCAL)
        record_local(record);
    else if (sets[set].home == IN_EXTRAS)
        record_extras(record);
    return home_of(set, record);
}

struct set_number set_number(enum table_set set, const struct record *record)
{
    const unsigned flag = sets[set].flag;
    if (flag)
        return (struct set_number){(record->flags & flag) != 0, (record->wanted_flags & flag) != 0};
    const struct set_number *number = (const void *)home_of(set, record);
    return number ? *number : (struct set_number){0, 0};
}

bool set_shape(enum table_set set, uint32_t number, struct shape *shape)
{
    switch (set) {
    case SET_SERVICES:
    case SET_LOCAL_SERVICES:
        return shape_of_service(number, shape);
    case SET_AFFINITY_TIMEOUTS:
        *shape = shape_of_timeout(number);
        return number != 0;
    case SET_RESTRICTED:
        *shape = shape_of_source_ranges();
        return number != 0;
    default:
        return false;
    }
}

static void use_shape(struct ruleset *rs, enum table_set set, uint32_t number, bool more)
{
    struct shape shape;
    if (set_shape(set, number, &shape))
        shapes_use(&rs->shapes, shape, more);
}

void set_hold_number(struct ruleset *rs, enum table_set set, struct record *record, uint32_t number)
{
    const unsigned flag = sets[set].flag;
    const uint32_t before = set_number(set, record).held;
    if (before == number)
        return;
    use_shape(rs, set, number, true);
    use_shape(rs, set, before, false);
    if (flag)
        record->flags = (uint8_t)(number ? record->flags | flag : record->flags & ~flag);
    else
        ((struct set_number *)(void *)make_home(set, record))->held = number;
}

struct part *set_part(enum table_set set, const struct record *record)
{
    return (void *)home_of(set, record);
}

struct part *set_make_part(enum table_set set, struct record *record)
{
    return (void *)make_home(set, record);
}
