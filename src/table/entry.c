/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "entry.h"

#include "plain.h"
#include "state.h"

#include <string.h>
#include <utlist.h>

/* ---- entries ---- */

static struct hash_key key_of_frontend_entry(const struct hash_link *link)
{
    return hash_key_of_frontend(&((const struct frontend_entry *)link)->frontend);
}

static struct hash_key key_of_port_entry(const struct hash_link *link)
{
    return (struct hash_key){&((const struct port_entry *)link)->id, sizeof(uint32_t)};
}

struct frontend_entry *ruleset_find_frontend(const struct ruleset *rs,
                                             const struct frontend *frontend)
{
    return hash_table_find(&rs->frontends, key_of_frontend_entry, hash_key_of_frontend(frontend));
}

struct frontend_entry *ruleset_get_frontend(struct ruleset *rs, const struct frontend *frontend)
{
    struct frontend_entry *entry = ruleset_find_frontend(rs, frontend);
    if (!entry) {
        entry = xcalloc(1, sizeof(*entry));
        entry->frontend = *frontend;
        hash_table_add(&rs->frontends, key_of_frontend_entry, &entry->entry.link);
    }
    return entry;
}

struct port_entry *ruleset_find_port(const struct ruleset *rs, uint32_t id)
{
    return hash_table_find(&rs->ports, key_of_port_entry, (struct hash_key){&id, sizeof(id)});
}

struct port_entry *ruleset_get_port(struct ruleset *rs, uint32_t id)
{
    struct port_entry *port = ruleset_find_port(rs, id);
    if (!port) {
        port = xcalloc(1, sizeof(*port));
        port->entry.kind = ENTRY_PORT;
        port->id = id;
        hash_table_add(&rs->ports, key_of_port_entry, &port->entry.link);
    }
    return port;
}

struct port_entry *ruleset_port_of_number(const struct ruleset *rs, uint32_t number)
{
    return rs->numbers.ports[number >> PORT_LOW_BITS];
}

struct port_entry *ruleset_get_port_of_number(struct ruleset *rs, uint32_t number)
{
    struct port_entry *port = ruleset_port_of_number(rs, number);
    if (!port) {
        port = ruleset_get_port(rs, FOUND_ID | number >> PORT_LOW_BITS);
        port->adopted = true;
        ruleset_number_port(rs, port, number);
        ruleset_mark_dirty(rs, &port->entry);
    }
    return port;
}

static void clear_port(struct ruleset *rs, struct port_entry *port)
{
    affinity_release(rs, port, SIZE_MAX);
    free(port->affinity);
    port_set_sources(rs, port, NULL, 0);
    entry_set_applied(rs, SET_SOURCE_LISTS, &port->entry, 0);
    numbers_leave(rs, port);
    slots_clear(&port->all);
    if (port->local)
        slots_clear(port->local);
    free(port->local);
}

void ruleset_free_entry(struct ruleset *rs, struct entry *entry)
{
    if (entry->kind == ENTRY_PORT)
        clear_port(rs, as_port(entry));
    else if (entry->kind == ENTRY_FRONTEND && as_frontend(entry)->port)
        DL_DELETE(as_frontend(entry)->port->frontends, as_frontend(entry));
    hash_table_remove((struct hash_table *)ruleset_entries(rs, first_set(entry)), &entry->link);
    free(entry);
}

void ruleset_mark_dirty(struct ruleset *rs, struct entry *entry)
{
    if (entry->dirty || entry->quarantined)
        return;
    entry->dirty = true;
    if (entry->kind == ENTRY_FRONTEND && as_frontend(entry)->port)
        as_frontend(entry)->port->n_dirty++;
    vec_push(&rs->dirty, entry);
}

void entry_clean(struct entry *entry)
{
    if (entry->dirty && entry->kind == ENTRY_FRONTEND && as_frontend(entry)->port)
        as_frontend(entry)->port->n_dirty--;
    entry->dirty = entry->trim = false;
}

void ruleset_drop_dirty(struct ruleset *rs, bool (*goes)(struct ruleset *rs, struct entry *entry))
{
    size_t n = 0;
    vec_each (&rs->dirty, it)
        if (!goes(rs, *it))
            rs->dirty.v[n++] = *it;
    rs->dirty.n = n;
}

/* ---- order ---- */

int compare_frontends(const struct frontend *a, const struct frontend *b)
{
    int order = memcmp(&a->address, &b->address, sizeof(a->address));
    if (order == 0)
        order = (int)a->port - (int)b->port;
    return order ? order : (int)a->protocol - (int)b->protocol;
}

/* By number, or, if they have none, by id. */
static int compare_service_ports(const struct port_entry *a, const struct port_entry *b)
{
    if (a->number != b->number)
        return a->number < b->number ? -1 : 1;
    return (a->id > b->id) - (a->id < b->id);
}

/* By set and key. */
static int compare_plains(const struct plain *a, const struct plain *b)
{
    const int order = plain_set(a) - plain_set(b);
    return order ? order : memcmp(plain_key(a), plain_key(b), a->key_length);
}

static int compare_entries(const void *a, const void *b)
{
    const struct entry *p = *(struct entry *const *)a, *q = *(struct entry *const *)b;
    if (p->kind != q->kind)
        return p->kind - q->kind;
    switch (p->kind) {
    case ENTRY_FRONTEND:
        return compare_frontends(&as_frontend(p)->frontend, &as_frontend(q)->frontend);
    case ENTRY_PORT:
        return compare_service_ports(as_port(p), as_port(q));
    default:
        return compare_plains(as_plain(p), as_plain(q));
    }
}

void ruleset_sort_dirty(struct ruleset *rs)
{
    vec_sort(&rs->dirty, compare_entries);
}

const struct frontend_entry *ruleset_frontend_of(const struct port_entry *port)
{
    const struct frontend_entry *first = port->frontends, *it;
    DL_FOREACH(port->frontends, it)
    if (compare_frontends(&it->frontend, &first->frontend) < 0)
        first = it;
    return first;
}

/* ---- names ---- */

/* @frontend may be NULL. */
static char *name_frontend(const struct ruleset *rs, const struct frontend_entry *frontend)
{
    char text[FRONTEND_TEXT_SIZE];
    char *owner =
        rs->config.owner && frontend ? rs->config.owner(rs->config.ctx, &frontend->frontend) : NULL;
    char *name =
        xasprintf("frontend=%s%s%s", frontend ? frontend_format(&frontend->frontend, text) : "",
                  owner ? " service=" : "", owner ? owner : "");
    free(owner);
    return name;
}

char *ruleset_name(const struct ruleset *rs, const struct entry *entry)
{
    char text[ADDRESS_TEXT_SIZE];
    struct address address = {{0}};
    if (entry->kind == ENTRY_FRONTEND)
        return name_frontend(rs, as_frontend(entry));
    if (entry->kind == ENTRY_PORT)
        return name_frontend(rs, ruleset_frontend_of(as_port(entry)));
    const enum table_set set = plain_set(as_plain(entry));
    if (*set_schema[set].key == FIELD_CLASSID)
        return NULL;
    memcpy(address.bytes, plain_key(as_plain(entry)), address_length(rs->family));
    return xasprintf("set=%s address=%s", set_name(set),
                     address_format(rs->family, &address, text));
}

/* ---- parts of entries ---- */

struct slot_table *port_slots(const struct port_entry *port, enum port_part which)
{
    return which == PART_LOCAL ? port->local : (struct slot_table *)&port->all;
}

struct slot_table *port_make_slots(struct port_entry *port, enum port_part which)
{
    if (which == PART_LOCAL && !port->local)
        port->local = xcalloc(1, sizeof(*port->local));
    return port_slots(port, which);
}

struct affinity *port_affinity(struct port_entry *port)
{
    if (!port->affinity)
        port->affinity = xcalloc(1, sizeof(*port->affinity));
    return port->affinity;
}

/* Nothing is desired of an unneeded part; slots sent ahead of their count are. */
void port_list_desired(struct port_entry *port)
{
    const bool changing = port->entry.dirty || port->entry.quarantined || port->waits;
    for (enum port_part which = 0; which < PARTS; which++) {
        struct slot_table *slots = port_slots(port, which);
        if (slots)
            slots_list(slots, changing || port_needs(port, which) ? slots->n_desired : 0);
    }
    if (port->affinity)
        port->affinity->current = false;
}

static void use_instance(struct ruleset *rs, enum table_set set, uint32_t value, bool more)
{
    struct instance instance;
    if (set_instance(set, value, &instance))
        instances_use(&rs->instances, instance, more);
}

bool frontend_has_count(const struct frontend_entry *frontend, const struct port_entry *port)
{
    const uint32_t value = frontend->applied;
    return value_is_counted(value) && port_of_value(value) == port->number;
}

uint32_t port_count(const struct port_entry *port, enum port_part which)
{
    const uint32_t count = low_of_value(entry_applied(set_of_count(which), &port->entry));
    const struct frontend_entry *counted = which == PART_ALL ? port->counted : NULL;
    const uint32_t own =
        counted && frontend_has_count(counted, port) ? low_of_value(counted->applied) : 0;
    return own > count ? own : count;
}

/* A frontend starts or stops leading to its port by @value; 0 leads nowhere. */
static void lead(struct ruleset *rs, uint32_t value, bool more)
{
    if (value == 0)
        return;
    struct port_entry *port = ruleset_get_port_of_number(rs, port_of_value(value));
    for (enum port_part which = 0; which < PARTS; which++)
        if (class_leads_to(class_of_value(value), which))
            port->led.to[which] += more ? 1 : -1u;
    if (value_is_counted(value))
        port->led.counted += more ? 1 : -1u;
    if (class_of_value(value) & CLASS_AFFINE)
        port->led.affine += more ? 1 : -1u;
    if (class_of_value(value) & CLASS_RESTRICTED)
        port->led.restricted += more ? 1 : -1u;
}

void frontend_renew_counted(struct frontend_entry *frontend, struct port_entry *port)
{
    if (!port)
        return;
    if (!port->counted && frontend_has_count(frontend, port))
        port->counted = frontend; /* found in the kernel */
    else if (port->counted == frontend && !frontend_has_count(frontend, port) &&
             !(frontend->port == port && frontend->class == 0))
        port->counted = NULL;
}

static void set_frontend_applied(struct ruleset *rs, struct frontend_entry *frontend,
                                 uint32_t value)
{
    const uint32_t before = frontend->applied;
    lead(rs, value, true);
    lead(rs, before, false);
    frontend->applied = value;
    frontend_renew_counted(frontend, ruleset_port_of_number(rs, port_of_value(before)));
    frontend_renew_counted(frontend, ruleset_port_of_number(rs, port_of_value(value)));
}

void entry_set_applied(struct ruleset *rs, enum table_set set, struct entry *entry, uint32_t value)
{
    const uint32_t before = entry_applied(set, entry);
    if (before == value)
        return;
    use_instance(rs, set, value, true);
    use_instance(rs, set, before, false);
    switch (entry->kind) {
    case ENTRY_FRONTEND:
        set_frontend_applied(rs, as_frontend(entry), value);
        break;
    case ENTRY_PORT:
        if (set == SET_SOURCE_LISTS)
            source_lists_lead(rs, before, value);
        as_port(entry)->applied[set - FRONTEND_SETS] = value;
        break;
    default:
        plain_set_applied(as_plain(entry), value);
    }
}

/* ---- elements of an entry ---- */

const struct hash_table *ruleset_entries(const struct ruleset *rs, enum table_set set)
{
    return set_owner(set) == OWNER_FRONTEND ? &rs->frontends
           : set_is_plain(set)              ? &rs->plains
                                            : &rs->ports;
}

static struct slot_table *slots_in(enum table_set set, const struct entry *entry)
{
    return set_owner(set) == OWNER_SLOTS ? port_slots(as_port(entry), part_of_set(set)) : NULL;
}

uint32_t entry_keys(enum table_set set, const struct entry *entry)
{
    const struct slot_table *slots = slots_in(set, entry);
    return set_owner(set) != OWNER_SLOTS ? 1 : slots ? slots->n_slots : 0;
}

bool entry_has(enum table_set set, const struct entry *entry, uint32_t slot)
{
    const struct slot_table *slots = slots_in(set, entry);
    return set_owner(set) != OWNER_SLOTS
               ? entry_applied(set, entry) != 0
               : slots && slot < slots->n_slots && !slot_is_empty(&slots->slots[slot]);
}

struct key entry_key(enum table_set set, const struct entry *entry, uint32_t slot)
{
    switch (set_owner(set)) {
    case OWNER_FRONTEND:
        return key_of_frontend(&as_frontend(entry)->frontend);
    case OWNER_PORT:
        return key_of_number(as_port(entry)->number | set_schema[set].low);
    case OWNER_SLOTS:
        return key_of_slot(as_port(entry)->number, slot);
    default:
        return key_of_bytes(plain_key(as_plain(entry)), as_plain(entry)->key_length);
    }
}

struct key entry_value(enum family family, enum table_set set, const struct entry *entry,
                       uint32_t slot)
{
    const struct key none = {.length = 0};
    if (entry->kind == ENTRY_PLAIN)
        return key_of_bytes(plain_applied_value(as_plain(entry)), as_plain(entry)->value_length);
    if (set_owner(set) == OWNER_SLOTS)
        return value_of_backend(family, &slots_in(set, entry)->slots[slot]);
    return *set_schema[set].value ? key_of_number(entry_applied(set, entry)) : none;
}

/* ---- the entry of an element ---- */

static bool is_value(const uint8_t *ours, size_t length, const struct nft_element *from)
{
    return length == from->data_length && (length == 0 || memcmp(ours, from->data, length) == 0);
}

/* The entry with the decoded key; NULL if there is none. */
static struct entry *find_entry(const struct ruleset *rs, enum table_set set,
                                const struct nft_element *from, const struct element *element)
{
    struct frontend_entry *frontend;
    struct port_entry *port;
    struct plain *plain;
    switch (set_owner(set)) {
    case OWNER_FRONTEND:
        frontend = ruleset_find_frontend(rs, &element->frontend);
        return frontend ? &frontend->entry : NULL;
    case OWNER_TABLE:
    case OWNER_RANGES: {
        const struct key key = key_of_bytes(from->key, from->key_length);
        plain = plain_find(rs, set, &key);
        return plain ? &plain->entry : NULL;
    }
    default:
        port = ruleset_port_of_number(rs, element->port);
        return port ? &port->entry : NULL;
    }
}

bool ruleset_find_applied(const struct ruleset *rs, enum table_set set,
                          const struct nft_element *from, struct applied_element *out)
{
    out->element.slot = 0;
    out->there = out->same = false;
    if (!element_take_key(set, rs->family, from, &out->element))
        return false;
    out->entry = find_entry(rs, set, from, &out->element);
    out->there = out->entry && entry_has(set, out->entry, out->element.slot);
    if (out->there) {
        const struct key value = entry_value(rs->family, set, out->entry, out->element.slot);
        out->same = is_value(value.bytes, value.length, from);
    }
    return true;
}
