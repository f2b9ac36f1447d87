/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Entries: what has elements in the table. Each is dirty, quarantined or as applied; what it
 * desires and what is applied of it are values in sets, whatever its kind.
 *
 *     frontend  its value in services
 *     port      the values of a service port, and its slots
 *     plain     one element of another set
 */
#ifndef KUBE_NFTD_TABLE_ENTRY_H
#define KUBE_NFTD_TABLE_ENTRY_H

#include "affinity.h"
#include "element.h"
#include "kube-nftd/base.h"
#include "kube-nftd/table.h"
#include "numbers.h"
#include "slots.h"
#include "source_lists.h"

struct ruleset;

enum entry_kind { ENTRY_FRONTEND, ENTRY_PORT, ENTRY_PLAIN };

/* Common to all of them. */
struct entry {
    struct hash_link link; /* frontends: by frontend; ports: by id; plain ones: by set and key */
    enum entry_kind kind : 2;
    bool desired : 1;     /* a Service has the frontend or port; somebody needs the element */
    bool dirty : 1;       /* in ruleset->dirty: the desired state may differ from the applied one */
    bool quarantined : 1; /* the kernel rejected it: never dirty, stays as applied */
    bool queued : 1; /* in ruleset->steps: has slots to add, or unreachable elements to delete */
    bool trim : 1;   /* dirty, and this commit deletes those */
    bool aside : 1;  /* dirty, but in portions->entries instead */
    uint32_t rejection : 24; /* index among rejections, from 1; 0: not rejected */
    uint32_t seen;           /* in the audited set: index into audit->seen, from 1 */
};

struct frontend_entry {
    struct entry entry;
    struct frontend frontend;
    uint8_t class;                      /* desired; enum frontend_class */
    uint32_t applied;                   /* value in the kernel; 0: none */
    struct port_entry *port;            /* desired port, counted in its refs; NULL: undesired */
    struct frontend_entry *prev, *next; /* in port->frontends */
};

/* The two slot tables of a service port: all backends, and those on this node. */
enum port_part { PART_ALL, PART_LOCAL, PARTS };

/* How many frontends have an applied value that leads to a service port. */
struct led {
    uint32_t to[PARTS];  /* by the part that they reach */
    uint32_t counted;    /* of those, by a count of their own */
    uint32_t affine;     /* with session affinity */
    uint32_t restricted; /* with source ranges */
};

struct port_entry {
    struct entry entry;
    uint32_t id; /* from routes; FOUND_ID with the number: found in the kernel, without a Service */
    uint32_t number;            /* P, see port_of_value(); 0: none yet, nothing is applied */
    struct number_share *share; /* of its namespace; NULL: found in the kernel, without a Service */
    struct port_entry *prev, *next;   /* in share->waiting */
    struct frontend_entry *frontends; /* that desire to lead here */
    uint32_t refs;                    /* how many */
    uint32_t refs_plain;              /* of these, of class 0: one of them may be counted */
    struct frontend_entry *counted;   /* whose value has N, applied or desired; NULL: none */
    uint32_t n_dirty;                 /* number of dirty ones among them */
    struct led led;
    /* Values in the kernel; 0: none. */
    uint32_t applied[NUMBER_SETS - FRONTEND_SETS];
    bool removed : 1;   /* no Service has it: desired until no frontend leads here */
    bool has_any : 1;   /* desired: see struct port_route */
    bool needs_all : 1; /* likewise */
    bool needs_local : 1;
    bool adopted : 1;    /* its number was found in the kernel */
    bool renumbered : 1; /* counts of its number may be another port's, until a commit */
    bool waits : 1;      /* for a number: never in ruleset->dirty during a commit */
    bool trimmed : 1;    /* this commit does nothing else with it */
    bool holds_sources : 1;
    bool wait_logged : 1;
    bool excess_logged : 1;
    uint8_t
        found_classes; /* during adoption: of frontends that lead here just as desired, as bits */
    uint32_t excess : 24; /* endpoints beyond the available slots */
    double shrunk_at;     /* when an element may last have fallen out of use; clock_monotonic */
    struct slot_table all;
    struct slot_table *local;  /* NULL if never used */
    struct affinity *affinity; /* likewise */
    /* Desired: the sources that may connect to restricted frontends; NULL: none are. */
    struct source_list *sources;
};

/* An element of a set that is not keyed by a frontend or a service port. The key of a range is its
 * first and last address. */
struct plain {
    struct entry entry;
    uint32_t refs; /* how many desire it */
    bool applied;
    uint8_t value_length;
    uint8_t key_length;
    /* Set, key, desired value, applied value. */
    uint8_t bytes[];
};

/* Above all ids from routes. */
#define FOUND_ID (MOST_ROUTE_ID + 1u)

static inline struct frontend_entry *as_frontend(const struct entry *entry)
{
    return (struct frontend_entry *)entry;
}

static inline struct port_entry *as_port(const struct entry *entry)
{
    return (struct port_entry *)entry;
}

static inline struct plain *as_plain(const struct entry *entry)
{
    return (struct plain *)entry;
}

/** The service port that @entry is, or desires to lead to; NULL: none. */
static inline struct port_entry *port_of_entry(const struct entry *entry)
{
    return entry->kind == ENTRY_PORT       ? as_port(entry)
           : entry->kind == ENTRY_FRONTEND ? as_frontend(entry)->port
                                           : NULL;
}

/* Whether frontends of a class lead to a part. External ones also lead to PART_ALL, by the
 * short-circuit. */
static inline bool class_leads_to(unsigned class, enum port_part which)
{
    return which == PART_LOCAL ? class & CLASS_LOCAL
                               : !(class & CLASS_LOCAL) || class & CLASS_EXTERNAL;
}

static inline enum table_set set_of_count(enum port_part which)
{
    return which == PART_LOCAL ? SET_LOCAL_PORTS : SET_PORTS;
}

static inline enum table_set set_of_slots(enum port_part which)
{
    return which == PART_LOCAL ? SET_LOCAL_ENDPOINTS : SET_ENDPOINTS;
}

static inline enum port_part part_of_set(enum table_set set)
{
    return set == SET_LOCAL_ENDPOINTS ? PART_LOCAL : PART_ALL;
}

static inline enum table_set plain_set(const struct plain *plain)
{
    return (enum table_set)plain->bytes[0];
}

static inline const uint8_t *plain_key(const struct plain *plain)
{
    return plain->bytes + 1;
}

static inline uint8_t *plain_value(struct plain *plain)
{
    return plain->bytes + 1 + plain->key_length;
}

static inline uint8_t *plain_applied_value(struct plain *plain)
{
    return plain_value(plain) + plain->value_length;
}

/** Whether @frontend has, or shall have, the number of backends of @port in its own value. */
bool frontend_has_count(const struct frontend_entry *frontend, const struct port_entry *port);
static inline bool frontend_wants_count(const struct frontend_entry *frontend)
{
    return frontend->port && frontend->port->counted == frontend && frontend->class == 0;
}

/** The entry of @frontend, or of the service port with @id. find returns NULL if there is none, get
 * creates it. */
struct frontend_entry *ruleset_find_frontend(const struct ruleset *rs,
                                             const struct frontend *frontend);
struct frontend_entry *ruleset_get_frontend(struct ruleset *rs, const struct frontend *frontend);
struct port_entry *ruleset_find_port(const struct ruleset *rs, uint32_t id);
struct port_entry *ruleset_get_port(struct ruleset *rs, uint32_t id);

/** The same by P. get creates ports that were found in the kernel and have no Service. */
struct port_entry *ruleset_port_of_number(const struct ruleset *rs, uint32_t number);
struct port_entry *ruleset_get_port_of_number(struct ruleset *rs, uint32_t number);

/** Frees an entry that is neither desired nor applied. */
void ruleset_free_entry(struct ruleset *rs, struct entry *entry);

/** Marks @entry dirty, unless it is quarantined; or clean. */
void ruleset_mark_dirty(struct ruleset *rs, struct entry *entry);
void entry_clean(struct entry *entry);

/** The first frontend, in sort order, that desires to lead to @port; NULL if none does. Scans its
 * frontends. */
const struct frontend_entry *ruleset_frontend_of(const struct port_entry *port);

/** The order of frontends: by address, port and protocol. */
int compare_frontends(const struct frontend *a, const struct frontend *b);

/** Takes those out of ruleset->dirty for which @goes returns true; it may change them. */
void ruleset_drop_dirty(struct ruleset *rs, bool (*goes)(struct ruleset *rs, struct entry *entry));

/** What @entry is to people: "frontend=ADDRESS:PORT/PROTOCOL service=NAMESPACE/NAME", of a service
 * port the first one; "set=NAME address=ADDRESS". NULL for elements of a service port, which has a
 * name itself. The caller frees it. */
char *ruleset_name(const struct ruleset *rs, const struct entry *entry);

/** Sorts dirty entries, frontends first, so that equal contents give equal tables. */
void ruleset_sort_dirty(struct ruleset *rs);

/** The slots of a part; NULL if never used. make creates them. */
struct slot_table *port_slots(const struct port_entry *port, enum port_part which);
struct slot_table *port_make_slots(struct port_entry *port, enum port_part which);
struct affinity *port_affinity(struct port_entry *port);

/** Turns the desired state of both parts into lists, since the slots in the kernel may differ. */
void port_list_desired(struct port_entry *port);

/** The applied number of backends that packets can reach. */
uint32_t port_count(const struct port_entry *port, enum port_part which);

static inline bool port_needs(const struct port_entry *port, enum port_part which)
{
    return port->entry.desired && (which == PART_LOCAL ? port->needs_local : port->needs_all);
}

/* The sets in which @entry has one value: from first_set() up to end_of_sets(). */
static inline enum table_set first_set(const struct entry *entry)
{
    return entry->kind == ENTRY_PORT    ? FRONTEND_SETS
           : entry->kind == ENTRY_PLAIN ? plain_set(as_plain(entry))
                                        : SET_SERVICES;
}

static inline enum table_set end_of_sets(const struct entry *entry)
{
    return entry->kind == ENTRY_PORT ? NUMBER_SETS : first_set(entry) + 1;
}

/** The applied value of @entry in such a set; 0: none. That of a plain element is 1, whatever its
 * bytes are. */
static inline uint32_t entry_applied(enum table_set set, const struct entry *entry)
{
    switch (entry->kind) {
    case ENTRY_FRONTEND:
        return as_frontend(entry)->applied;
    case ENTRY_PORT:
        return as_port(entry)->applied[set - FRONTEND_SETS];
    default:
        return as_plain(entry)->applied;
    }
}

/** Sets the applied value to @value, and updates the use counts of the chains or service port it
 * leads to. */
void entry_set_applied(struct ruleset *rs, enum table_set set, struct entry *entry, uint32_t value);

/** What @frontend has or desires has changed: it may have become, or be no longer, the counted one
 * of @port (may be NULL). */
void frontend_renew_counted(struct frontend_entry *frontend, struct port_entry *port);

/** How many keys @entry has in @set: one, or its slots in the kernel. Something is applied under
 * the key of @slot (0, but in sets of slots); that key; what is applied, as the kernel has it. */
uint32_t entry_keys(enum table_set set, const struct entry *entry);
bool entry_has(enum table_set set, const struct entry *entry, uint32_t slot);
struct key entry_key(enum table_set set, const struct entry *entry, uint32_t slot);
struct key entry_value(enum family family, enum table_set set, const struct entry *entry,
                       uint32_t slot);

/* The applied state under the key of an element. */
struct applied_element {
    struct element element; /* decoded */
    struct entry *entry;    /* its owner; NULL: none */
    bool there;             /* something is applied under the key */
    bool same;              /* and equals the element; valid if its value can be ours */
};

/** Looks up the key of @from; of a range, both ends. False if it cannot be ours. */
bool ruleset_find_applied(const struct ruleset *rs, enum table_set set,
                          const struct nft_element *from, struct applied_element *out);

/** All entries that may have elements in @set. */
const struct hash_table *ruleset_entries(const struct ruleset *rs, enum table_set set);

#endif
