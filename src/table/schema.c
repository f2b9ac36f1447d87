/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "schema.h"

#include "record.h"

#include <stddef.h>
#include <string.h>

/* Where a record has something. */
enum home { IN_RECORD, IN_LOCAL, IN_AFFINITY, IN_RESTRICTION };

#define FRONTEND "APS"
#define BACKEND "AS"
#define SLOT "CN"

static const struct {
    const char *name, *key, *value;
    enum set_owner owner;
    enum home home;      /* of the number, or of the part */
    size_t at;           /* there */
    enum port_flag flag; /* OWNER_PORT without a value: which flag of the record it is */
} sets[TABLE_SETS] = {
    [SET_AFFINITY_TIMEOUTS] = {"affinity_timeouts", "C", "C", OWNER_PORT, IN_AFFINITY,
                               offsetof(struct affinity, timeout), 0},
    [SET_LOCAL_PORTS] = {"local_ports", "C", "C", OWNER_PORT, IN_LOCAL,
                         offsetof(struct part, value), 0},
    [SET_PORTS] = {"ports", "C", "C", OWNER_PORT, IN_RECORD,
                   offsetof(struct port_record, all.value), 0},
    [SET_REJECTED] = {"rejected_ports", "C", "", OWNER_PORT, IN_RECORD, 0, FLAG_REJECTED},
    [SET_DROPPED] = {"dropped_ports", "C", "", OWNER_PORT, IN_RECORD, 0, FLAG_DROPPED},
    [SET_SERVICES] = {"services", FRONTEND, "C", OWNER_FRONTEND, IN_RECORD,
                      offsetof(struct frontend_record, service), 0},
    [SET_RESTRICTED] = {"restricted", FRONTEND, "C", OWNER_FRONTEND, IN_RESTRICTION,
                        offsetof(struct restriction, number), 0},
    [SET_ENDPOINTS] = {"endpoints", SLOT, BACKEND, OWNER_SLOTS, IN_RECORD,
                       offsetof(struct port_record, all), 0},
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

/* What stands below P in the key of a port. */
static uint32_t low_of_key(enum table_set set)
{
    return set == SET_DROPPED ? CLASS_LOCAL : 0;
}

bool set_subject_of(enum table_set set, enum family family, const uint8_t *key, size_t length,
                    struct set_subject *subject)
{
    uint32_t number;
    memset(subject, 0, sizeof(*subject));
    if (sets[set].owner == OWNER_FRONTEND)
        return frontend_of_key(family, key, length, &subject->frontend);
    subject->is_port = true;
    if (sets[set].owner == OWNER_SLOTS)
        return slot_of_key(key, length, &subject->port, &subject->slot);
    if (!number_of_key(key, length, &number))
        return false;
    subject->port = port_of_value(number);
    return subject->port != 0 && low_of_value(number) == low_of_key(set);
}

struct key set_key(enum table_set set, const struct record *record, uint32_t slot)
{
    struct key key = {.length = 0};
    if (!record->is_port)
        return key_of_frontend(&as_frontend(record)->frontend);
    if (sets[set].owner == OWNER_SLOTS)
        return key_of_slot(as_port(record)->number, slot);
    key_put_number(&key, as_port(record)->number | low_of_key(set));
    return key;
}

bool set_fits_key(enum table_set set, enum family family, const struct nft_element *element)
{
    struct cidr prefix;
    uint32_t list;
    return element->key_length == length_of(family, sets[set].key) &&
           (set != SET_ALLOWED_SOURCES ||
            source_of_key(family, element->key, element->key_length, &list, &prefix));
}

/* Whether a value has the same P as the key. */
static bool leads_back(const struct nft_element *element, uint32_t value)
{
    uint32_t key;
    return number_of_key(element->key, element->key_length, &key) && port_of_value(value) == key;
}

bool set_fits_value(enum table_set set, enum family family, const struct nft_element *element)
{
    struct backend backend;
    uint32_t number = 1;
    if (element->data_length != length_of(family, sets[set].value))
        return false;
    if (sets[set].owner == OWNER_SLOTS)
        return backend_of_value(family, element->data, element->data_length, &backend);
    if (set < NUMBER_SETS && element->data_length)
        memcpy(&number, element->data, sizeof(number));
    if (set == SET_RESTRICTED)
        return is_list_value(number);
    if (set == SET_SERVICES)
        return port_of_value(number) != 0 && low_of_value(number) < CLASSES;
    if (set == SET_PORTS || set == SET_LOCAL_PORTS)
        return leads_back(element, number) && low_of_value(number) != 0;
    return number != 0;
}

/* ---- records ---- */

bool set_is_of(enum table_set set, const struct record *record)
{
    return record->is_port ? sets[set].owner == OWNER_PORT || sets[set].owner == OWNER_SLOTS
                           : sets[set].owner == OWNER_FRONTEND;
}

/* NULL if @record has no such home. */
static char *home_of(enum table_set set, const struct record *record)
{
    const void *home = sets[set].home == IN_LOCAL         ? (const void *)as_port(record)->local
                       : sets[set].home == IN_AFFINITY    ? (const void *)as_port(record)->affinity
                       : sets[set].home == IN_RESTRICTION ? as_frontend(record)->restriction
                                                          : (const void *)record;
    return home ? (char *)home + sets[set].at : NULL;
}

static char *make_home(enum table_set set, struct record *record)
{
    if (sets[set].home == IN_LOCAL)
        port_local(as_port(record));
    else if (sets[set].home == IN_AFFINITY)
        port_affinity(as_port(record));
    else if (sets[set].home == IN_RESTRICTION)
        frontend_restriction(as_frontend(record));
    return home_of(set, record);
}

struct set_number set_number(enum table_set set, const struct record *record)
{
    const unsigned flag = sets[set].flag;
    if (flag)
        return (struct set_number){(as_port(record)->flags & flag) != 0,
                                   (as_port(record)->wanted_flags & flag) != 0};
    const struct set_number *number = (const void *)home_of(set, record);
    return number ? *number : (struct set_number){0, 0};
}

bool set_shape(enum table_set set, uint32_t number, struct shape *shape)
{
    if (number == 0)
        return false;
    switch (set) {
    case SET_PORTS:
        *shape = (struct shape){TEMPLATE_PICK, low_of_value(number)};
        return true;
    case SET_LOCAL_PORTS:
        *shape = (struct shape){TEMPLATE_LOCAL_PICK, low_of_value(number)};
        return true;
    case SET_AFFINITY_TIMEOUTS:
        *shape = (struct shape){TEMPLATE_LEARN, number};
        return true;
    case SET_RESTRICTED:
        *shape = (struct shape){TEMPLATE_SOURCE_RANGES, 0};
        return true;
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
    if (set == SET_SERVICES) {
        ruleset_lead(rs, number, true);
        ruleset_lead(rs, before, false);
    }
    if (flag) {
        struct port_record *port = as_port(record);
        port->flags = (uint8_t)(number ? port->flags | flag : port->flags & ~flag);
    } else {
        ((struct set_number *)(void *)make_home(set, record))->held = number;
    }
}

struct part *set_part(enum table_set set, const struct record *record)
{
    return (void *)home_of(set, record);
}

struct part *set_make_part(enum table_set set, struct record *record)
{
    return (void *)make_home(set, record);
}
