/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Desired and applied state of a family's table, and the functions of the table's files. Elements
 * keyed by a frontend or a service port belong to its entry; elements of other sets are plain
 * (plain.h); the chains that pick backends are instances of templates (instances.h).
 *
 *     desired.c     policy's routes -> dirty entries
 *     numbers.c     which service port has a number; limits.c: what the limits leave out
 *     plan.c        slots; the desired value of an entry in each set; what waits for later commits
 *     encode.c      the difference of dirty entries as messages
 *     commit.c      one transaction, and the applied state after it
 *     portions.c    what can wait, and is in which transaction: a new table, steps of service ports
 *     quarantine.c  entries that the kernel rejected, and their retries
 *     observe.c     what the kernel has under a key; audit.c: whether all of it is as applied
 *     flowtable.c   devices of the flowtable, apart from all that
 *     claim.c       whether there is a table, and whose it is
 *     adopt.c       takes over a table, after reading.c has read all of it
 */
#ifndef KUBE_NFTD_TABLE_STATE_H
#define KUBE_NFTD_TABLE_STATE_H

#include "affinity.h"
#include "connections.h"
#include "element.h"
#include "flowtable.h"
#include "instances.h"
#include "kube-nftd/base.h"
#include "kube-nftd/table.h"
#include "numbers.h"
#include "plain.h"
#include "rules.h"
#include "slots.h"
#include "source_lists.h"

/* ---- entries ---- */

/* Common to frontends and service ports. */
struct entry {
    struct hash_link link; /* frontends: by frontend; ports: by id */
    bool is_port : 1;
    bool desired : 1;     /* a Service has the frontend or port */
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
    uint32_t led[PARTS];              /* frontends whose applied value leads to the part */
    uint32_t led_counted;             /* of those, by a count of their own */
    uint32_t led_affine;              /* those with session affinity */
    uint32_t led_restricted;          /* those with source ranges */
    /* Values in the kernel; 0: none. Holds the source list. */
    uint32_t applied[NUMBER_SETS - FRONTEND_SETS];
    bool removed : 1;   /* no Service has it: desired until no frontend leads here */
    bool has_any : 1;   /* desired: see struct port_route */
    bool needs_all : 1; /* likewise */
    bool needs_local : 1;
    bool adopted : 1;    /* its number was found in the kernel */
    bool renumbered : 1; /* counts of its number may be another port's, until a commit */
    bool waits : 1;      /* for a number: never in ruleset->dirty during a commit */
    bool trimmed : 1;    /* this commit does nothing else with it */
    bool wait_logged : 1;
    bool excess_logged : 1;
    uint8_t
        found_classes; /* during adoption: of frontends that lead here just as desired, as bits */
    uint32_t excess : 24; /* endpoints beyond the available slots */
    double shrunk_at;     /* when an element may last have fallen out of use; clock_monotonic */
    struct slot_table all;
    struct slot_table *local;  /* NULL if never used */
    struct affinity *affinity; /* likewise */
    /* Desired, held: the sources that may connect to restricted frontends; NULL: none are. */
    struct source_list *sources;
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

/** Whether @frontend has, or shall have, the number of backends of @port in its own value. */
bool frontend_has_count(const struct frontend_entry *frontend, const struct port_entry *port);
static inline bool frontend_wants_count(const struct frontend_entry *frontend)
{
    return frontend->port && frontend->port->counted == frontend && frontend->class == 0;
}

/* ---- ruleset ---- */

/* An entry rejected by the kernel. */
struct rejection {
    struct entry *entry;
    double wait, retry_time; /* seconds; clock_monotonic, while quarantined */
};

/* The owner of the element in a message of the batch: an entry or a plain element. */
struct message_owner {
    size_t begin; /* offset in the batch */
    struct entry *entry;
    struct plain *plain;
};

/* Starts zeroed. */
struct quarantine {
    VEC(struct rejection) all;
    VEC(struct message_owner) owners; /* of a batch with single-element messages, in batch order */
    double next;                      /* time of the first retry; clock_monotonic, or 0 */
    double wait, retry_time;          /* of plain elements; 0: none quarantined */
    bool ports_left;                  /* frontends may have waited for a service port that left */
};

/* A desired value of an entry that differs from the applied one. */
struct difference {
    struct entry *entry;
    enum table_set set;
    uint32_t applied, desired; /* 0: none */
};

/* An instance whose messages are in the batch. */
struct new_instance {
    struct instance instance;
    size_t end; /* end of its messages */
};

/* An element that another program may have changed. */
struct recheck {
    enum table_set set;
    struct key key; /* unused for sets of ranges */
};

/* What else another program may have changed. */
enum recheck_scope {
    RECHECK_ELEMENTS, /* nothing else */
    RECHECK_RULES,    /* rules, chains, declarations or table flags */
    RECHECK_ALL       /* anything */
};

/* What is known of the table in the kernel. */
enum table_state {
    TABLE_UNKNOWN,         /* to be read; nothing is committed before */
    TABLE_OWNED_ELSEWHERE, /* likewise, once the program that owns it has ended */
    TABLE_MISSING,         /* the next commit makes it */
    TABLE_REPLACED,        /* likewise, and deletes one that is not like ours */
    TABLE_RULES_DIFFER,    /* as applied but for rules and chains: the next commit rewrites them */
    TABLE_OURS             /* as applied */
};

enum adoption_state {
    ADOPTION_LOOK,         /* not begun: is there a table of ours? */
    ADOPTION_DECLARATIONS, /* are its maps and sets declared as ours? Others are logged */
    ADOPTION_FORGET,       /* what was applied, entry by entry */
    ADOPTION_COUNT,        /* the next set: how large is it? */
    ADOPTION_KEYS,         /* its elements are read by the keys that they should have */
    ADOPTION_DUMP,         /* all of its elements are read */
    ADOPTION_RULES,        /* all sets are read: repair the rules */
    ADOPTION_COMPARE       /* entries that are as desired become clean */
};

/* Contents of a table as found. */
struct table_contents {
    size_t elements; /* without verdicts */
    size_t counted;  /* as the kernel counts: two for most ranges */
    bool foreign;    /* has elements that we cannot have written, or lacks a set: recreate it */
};

/* Attempts to read a table that changes meanwhile. */
#define ADOPTION_TRIES 3

/* Starts zeroed. */
struct adoption {
    enum adoption_state state;
    unsigned tries; /* that failed */
    size_t work;    /* of the present piece, see ADOPTION_PIECE */
    bool exists;    /* a table, when it was looked at */
    bool ours;      /* and is to be read; else it is to be made */
    bool ports;     /* FORGET: frontends are forgotten, ports are next */
    bool rejected;  /* RULES: the kernel rejected the rewritten ones */
    struct table_contents found;
    list_value_vec lists; /* that service ports were found to have */
    size_t at;     /* FORGET: next bucket; next entry: KEYS: quarantined, then dirty ones; COMPARE:
                      dirty ones */
    uint32_t slot; /* and its next slot */
    VEC(struct entry *) sent; /* KEYS: frontends of the present piece that are sent instead */
    size_t requested;         /* up to this entry all are requested */
    unsigned rejections;      /* of what was sent */
    /* The set being read. */
    enum table_set set;
    bool counted;              /* the kernel reports the number of elements: */
    uint32_t count;            /* before the reading */
    uint32_t generation;       /* otherwise, of the ruleset */
    size_t recorded, repeated; /* elements read first, and again */
    struct element_dump *dump;
    struct boundaries boundaries; /* in a set of ranges */
};

/* What is to come into a new table. Starts zeroed. */
struct portions {
    VEC(struct entry *) entries; /* service ports before their frontends */
    size_t at;                   /* the first that is not in a commit yet */
    bool left;                   /* another portion follows, perhaps an empty one */
};

struct ruleset {
    enum family family;
    struct ruleset_config config;
    struct layout base;
    struct layout_vars vars;
    char mark[16], *from_pod, *not_from_pod; /* strings that vars points to */
    char comment[64];                        /* identifies tables with our maps and sets */

    struct hash_table frontends, ports; /* hold entries */
    struct port_numbers numbers;        /* of service ports */
    size_t limits_reported;             /* by limits.c during this commit */
    VEC(struct entry *) dirty;
    struct portions portions;
    VEC(struct difference) differences; /* of dirty entries, during a commit */
    size_t n_desired;                   /* frontends */
    struct plain_elements plain;
    range_vec service_cidrs, service_ranges, pod_cidrs; /* desired */
    struct cidr cover; /* covers the cluster IPs that are in no service CIDR; */
    bool has_cover;    /* if there were any */
    struct source_lists lists;
    struct connections connections;
    struct flowtable flowtable;
    struct instances instances; /* in the table */

    struct nft_batch batch;
    VEC(struct new_instance) new_instances; /* in the batch; the first begins at instances_begin */
    size_t instances_begin;
    VEC(struct port_entry *) steps;
    double step_time;    /* when the first of these is due; clock_monotonic */
    bool growing;        /* one of them has slots to add */
    double collect_time; /* next check for unused chains; 0: there are none */
    double collect_wait; /* interval of these checks, longer after failures */
    struct quarantine quarantine;

    VEC(struct recheck) rechecks;
    enum recheck_scope recheck_scope;
    bool strangers_stay; /* unreachable chains of other programs cannot be deleted */
    size_t repaired;     /* bytes sent to repair rules since the last commit */
    enum table_state state;
    struct adoption adoption;
    bool adopted;       /* a table was looked for at least once */
    bool has_applied;   /* something is applied, as far as is known */
    bool filling;       /* a commit adds to a new table */
    bool has_shadows;   /* the table to be replaced has shadow chains (previous_table.h) */
    int records_logged; /* logged fill level of the affinity map */
    bool uncounted;     /* the kernel does not count the elements of a set */
    struct ruleset_stats stats;
};

/* ---- state.c ---- */

/** The only way into a state. */
void ruleset_enter(struct ruleset *rs, enum table_state state);

/** Whether the next commit makes the table; whether it has ours. Neither before it is known. */
static inline bool ruleset_makes_table(const struct ruleset *rs)
{
    return rs->state == TABLE_MISSING || rs->state == TABLE_REPLACED;
}

static inline bool ruleset_has_table(const struct ruleset *rs)
{
    return rs->state >= TABLE_RULES_DIFFER;
}

/** Creates an empty ruleset for the table of @family; NULL if a template is broken (the error has
 * its line). */
struct ruleset *ruleset_new(enum family family, const struct ruleset_config *config,
                            struct error *err);
void ruleset_free(struct ruleset *rs);

/** Adds the fixed part of the table to @layout: the base, and the flowtable if it has one. -1 if a
 * template is broken. */
int ruleset_add_base(const struct ruleset *rs, struct layout *layout, struct error *err);

/** The number of desired frontends; quarantined ones count if they are applied. */
size_t ruleset_frontends(const struct ruleset *rs);

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

/** Whether @entry has elements in @set. */
static inline bool set_is_of(enum table_set set, const struct entry *entry)
{
    return entry->is_port ? set_owner(set) == OWNER_PORT || set_owner(set) == OWNER_SLOTS
                          : set_owner(set) == OWNER_FRONTEND;
}

/* The number sets in which @entry has elements: from first_set() up to end_of_sets(). */
static inline enum table_set first_set(const struct entry *entry)
{
    return entry->is_port ? FRONTEND_SETS : 0;
}

static inline enum table_set end_of_sets(const struct entry *entry)
{
    return entry->is_port ? NUMBER_SETS : FRONTEND_SETS;
}

/** The applied value of @entry in a number set; 0: none. */
static inline uint32_t entry_applied(enum table_set set, const struct entry *entry)
{
    const uint32_t *applied =
        entry->is_port ? as_port(entry)->applied : &as_frontend(entry)->applied;
    return applied[set - first_set(entry)];
}

/** Sets the applied value to @value, and updates the use counts of the chains or service port it
 * leads to. */
void entry_set_applied(struct ruleset *rs, enum table_set set, struct entry *entry, uint32_t value);

/** What @frontend has or desires has changed: it may have become, or be no longer, the counted one
 * of @port (may be NULL). */
void frontend_renew_counted(struct frontend_entry *frontend, struct port_entry *port);

/** The key of @entry's element; in slot sets, that of @slot. */
struct key entry_key(enum table_set set, const struct entry *entry, uint32_t slot);

/** The service port, since @now, no longer has its applied source list (if any): releases it. */
void port_release_list(struct ruleset *rs, struct port_entry *port, double now);

/* ---- plan.c ---- */

/** The class of a frontend with @route. */
unsigned route_class(const struct route *route);

/** The values of a service port in SET_REJECTED and SET_DROPPED: whether new connections are
 * refused. */
uint32_t route_rejects(const struct port_route *route);
uint32_t route_drops(const struct port_route *route);

/** The desired value of a planned @entry in a number set; while it is quarantined, the applied
 * one. */
uint32_t entry_desired(enum table_set set, const struct entry *entry);

/** Plans dirty entries: service port numbers, slots, affinity, source lists. Service ports that
 * wait for a number are not dirty then. The second plans one entry that has a number.
 * @most_added  slots that a service port may get at once: with more, it grows in steps */
void ruleset_plan(struct ruleset *rs, size_t most_added);
void ruleset_plan_entry(struct ruleset *rs, struct entry *entry, size_t most_added);

/** Lists the differences of planned dirty entries. */
void ruleset_find_differences(struct ruleset *rs);

/** A frontend was found to lead to the service port number P. Its desired port takes that number,
 * if it has none, no other port has this one, and no other port's affinity records are there. */
void ruleset_adopt_number(struct ruleset *rs, struct frontend_entry *frontend, uint32_t number);

/** The chain instance that a value in @set leads to; false if the chains are in the fixed part. */
bool set_instance(enum table_set set, uint32_t number, struct instance *instance);

/** The instances that desired values need and the table lacks, each after those it builds on. The
 * caller frees the array in @out. */
void ruleset_new_instances(const struct ruleset *rs, instance_vec *out);

/** Adds the template of @instance to @layout, with this table's variables; the second, the fixed
 * part of the table and then the instances. */
void ruleset_add_template(const struct ruleset *rs, struct instance instance,
                          struct layout *layout);
void ruleset_add_templates(const struct ruleset *rs, const instance_vec *instances,
                           struct layout *layout);

/** Whether a part is neither needed nor led to: a trim deletes it. */
bool port_is_left(const struct port_entry *port, enum port_part which);

/** Whether backends of @port have affinity numbers. */
bool port_is_affine(const struct port_entry *port);

/** How many slots of a part remain after this commit. */
uint32_t port_kept_slots(const struct port_entry *port, enum port_part which);

/** The existing slots of a part that a planned commit empties: beyond the new count, where its
 * chain draws (octave_of()). */
struct slot_range port_emptied_slots(const struct port_entry *port, enum port_part which);

/** How many elements a slot of @port takes, with those of its backend. */
size_t port_slot_elements(const struct port_entry *port);

/** Whether @port gets further slots in later commits: it has the first of those that are desired.
 */
bool port_grows(const struct port_entry *port);

/** Plans to add some of these slots, of up to @most elements. Returns how many elements. */
size_t ruleset_begin_growth(struct ruleset *rs, struct port_entry *port, size_t most);

/** The number of elements of @port that trims have to delete. */
size_t port_leftovers(const struct port_entry *port);

/** Plans to delete up to @most of these, beside the few that are not of backends. Returns how many.
 */
size_t ruleset_begin_trim(struct ruleset *rs, struct port_entry *port, uint32_t most);

/* ---- limits.c ---- */

/** Logs and reports, once, that @port has no number, or has got one; that it has more endpoints
 * than slots. */
void limits_log_number(struct ruleset *rs, struct port_entry *port);
void limits_log_excess(struct ruleset *rs, struct port_entry *port);

/* ---- encode.c ---- */

/** Adds the messages of new instances to ruleset->batch and lists them in ruleset->new_instances.
 * They join the table when the batch is applied. */
void ruleset_encode_instances(struct ruleset *rs);

/** Adds the messages of everything dirty to ruleset->batch; for a missing table also the table and
 * its instances. */
void ruleset_encode(struct ruleset *rs);

/* ---- quarantine.c ---- */

/** The next element in the batch belongs to @entry, or, if that is NULL, is @plain. */
void quarantine_set_owner(struct ruleset *rs, struct entry *entry, struct plain *plain);

/**
 * Quarantines what the kernel rejected of the ruleset's batch, of which nothing is applied. True if
 * something was quarantined: retry the rest at once. Errors that mean unexpected table contents or
 * a lack of resources blame no element; other errors may just be consequences of them.
 * @singly  each element had its own message; only then the kernel names all elements that it
 *          rejects, and their owners are known
 */
bool quarantine_take(struct ruleset *rs, double now, bool singly);

/** Makes quarantined elements due at @now desired again, one portion at most. */
void quarantine_retry(struct ruleset *rs, double now);

/** Takes @entry, which is about to become dirty, out of quarantine. */
void quarantine_leave(struct ruleset *rs, struct entry *entry);

/** Sorts planned dirty entries: those that need more room in the kernel come last, so that a full
 * set rejects only these. */
void quarantine_sort_dirty(struct ruleset *rs);

/** The kernel accepted @entry, or it is about to be freed; all but quarantined elements are
 * applied. */
void quarantine_end(struct ruleset *rs, struct entry *entry);
void quarantine_applied(struct ruleset *rs);
void quarantine_free(struct ruleset *rs);

/* ---- observe.c ---- */

enum observation {
    OBSERVED_SAME,
    OBSERVED_CHANGED, /* dirty now, to be repaired */
    OBSERVED_ALIEN    /* needs a read-back of the table */
};

/* The applied state under the key of an element. */
struct applied_element {
    struct element element; /* decoded */
    struct entry *entry;    /* its owner; NULL: none, or the set is plain */
    struct plain *plain;
    bool there; /* something is applied under the key */
    bool same;  /* and equals the element; valid if its value can be ours */
};

/** Looks up the key of @from. False if the key cannot be ours, or is the end of a range, which says
 * nothing without the other ends. */
bool ruleset_find_applied(const struct ruleset *rs, enum table_set set,
                          const struct nft_element *from, struct applied_element *out);

/** Whether @found (ascending) matches the applied ranges of a set. */
bool ruleset_has_ranges(const struct ruleset *rs, enum table_set set, const range_vec *found);

/** Records that the kernel has @from (value decoded), or nothing under its key. Needs the @applied
 * of that key. */
void ruleset_record(struct ruleset *rs, enum table_set set, const struct nft_element *from,
                    const struct applied_element *applied, bool there);

/**
 * Another program changed an element of @set; or other parts of the table; or something unknown.
 * Only recorded, until ruleset_recheck(), or forgotten, since all is read.
 */
void ruleset_recheck_element(struct ruleset *rs, const char *set, const struct nft_element *from);
void ruleset_recheck_rules(struct ruleset *rs);
void ruleset_recheck_all(struct ruleset *rs);
bool ruleset_has_rechecks(const struct ruleset *rs);
void ruleset_forget_rechecks(struct ruleset *rs);

/**
 * Queries the recorded elements from the kernel. The next commit, which is then due, repairs
 * differences: single elements or chains, after a read-back of the whole table, or by replacing a
 * table with other maps and sets. Returns the number of differences.
 */
size_t ruleset_recheck(struct ruleset *rs, struct nft_socket *socket);

/* ---- adopt.c ---- */

/* Work of a piece: some milliseconds, for which the rest of the loop waits. The unit is an element
 * that the kernel passes over in a dump: 30 nanoseconds. */
#define ADOPTION_PIECE ((size_t)150000)

enum adoption_result {
    ADOPTION_ENDED,   /* the kernel's state is known */
    ADOPTION_GOES_ON, /* call again */
    ADOPTION_FAILED   /* so far, nothing is known; the error has the reason */
};

/**
 * Takes over the table if it is ours, so that the next plan is the difference to its contents. Ends
 * after about @most work; SIZE_MAX: when all is read. Desired state may change between calls;
 * nothing may be committed. What other programs change meanwhile must be reported as usual, and
 * rechecked at the end.
 */
enum adoption_result ruleset_adopt(struct ruleset *rs, struct nft_socket *socket, double now,
                                   size_t most, struct error *err);

/** Whether that has begun and goes on. */
bool ruleset_is_reading(const struct ruleset *rs);

/* ---- claim.c ---- */

/** Looks for a table: whether there is one, and whether it is like ours. That one is claimed if it
 * is to be owned, and no longer dormant. -1, and TABLE_OWNED_ELSEWHERE, if another program owns
 * it. */
int ruleset_look(struct ruleset *rs, struct nft_socket *socket, bool *exists, bool *ours,
                 struct error *err);

/** The same, but a table of another program is just not @ours. */
int ruleset_claim(struct ruleset *rs, struct nft_socket *socket, bool *ours, struct error *err);

/** Whether the table still exists, is not dormant, and has our layout. */
bool ruleset_is_still_ours(struct ruleset *rs, struct nft_socket *socket);

/* ---- reading.c ---- */

/** The next piece of work in the states COUNT, KEYS and DUMP; enters RULES at the end. Nothing may
 * be applied before. -1: read all of it again. */
int reading_step(struct ruleset *rs, struct nft_socket *socket, struct error *err);

/** Back to the first set; frees what the reading holds. */
void reading_stop(struct ruleset *rs);

/* ---- portions.c ---- */

/* About so many elements that can wait are in one transaction: those of a new table, slots that
 * are added to service ports in steps, trims. Others wait for some 10 milliseconds. */
#define COMMIT_PIECE 6144
/* A service port gets so many slots at once: a large EndpointSlice has 1,000 endpoints. */
#define SLOTS_AT_ONCE 1024

static inline size_t ruleset_piece(const struct ruleset *rs)
{
    return rs->config.portion ? rs->config.portion : COMMIT_PIECE;
}

static inline size_t ruleset_most_added(const struct ruleset *rs)
{
    return rs->config.most_added ? rs->config.most_added : SLOTS_AT_ONCE;
}

/** Sets all that is dirty aside, before a table is made, and gives service ports their numbers. */
void portions_begin(struct ruleset *rs);

/** What the next commit is to add to it becomes dirty again. */
void portions_next(struct ruleset *rs);

/** All of it becomes dirty. */
void portions_end(struct ruleset *rs);

/** Marks service ports dirty whose steps are due, for a portion. */
void steps_begin(struct ruleset *rs, double now);

/** After a failed commit: what is tried again may be more than steps. */
void steps_failed(struct ruleset *rs);

/** After a commit that concerned @port: queues its next step, or frees it if it is unused.
 * @goes_on  the commit did nothing but trim it, so nothing else has fallen out of use */
void steps_finish(struct ruleset *rs, struct port_entry *port, bool goes_on, double now);

/** Whether more is to come: all of the desired state is applied only after further commits. */
static inline bool ruleset_is_filling(const struct ruleset *rs)
{
    return rs->portions.left;
}

/* ---- commit.c ---- */

/* Statistics of a commit. */
struct commit_stats {
    size_t elements_added, elements_deleted; /* in maps and sets */
    size_t bytes;                            /* 0: nothing to send */
    double seconds;                          /* spent in the kernel */
    bool may_be_applied; /* the commit failed, but some or all of it may be applied */
};

/**
 * Makes the kernel match the desired state, except for what it rejects. -1: failed; the desired
 * state is kept, call again later.
 *
 * A table created from scratch is filled in several transactions, and, while ruleset_is_filling(),
 * in further commits. Everything else goes in one, the replacement of a table, too: if that fails,
 * the old one stays.
 */
int ruleset_commit(struct ruleset *rs, struct nft_socket *socket, double now,
                   struct commit_stats *stats, struct error *err);

/** Makes a dirty @entry clean if it is desired and the kernel has all of it. The caller takes it
 * out of ruleset->dirty. */
bool ruleset_clean_unchanged(struct ruleset *rs, struct entry *entry, double now);

/** Whether a commit at @now has something to do; when it will without further changes, or 0: the
 * first of the next step or trim, check for unused chains, and retry of rejected elements. */
bool ruleset_needs_commit(const struct ruleset *rs, double now);
double ruleset_due(const struct ruleset *rs);
double ruleset_trim_time(const struct ruleset *rs);

/* kube-proxy's minSyncPeriod: a new change waits at most so long, in seconds, for the next attempt
 * after a failed commit or a repair (docs/behaviour.md 9.4). */
#define CHANGE_RETRY 1.0

/** Counts a sync of @seconds. @sent: what it sent, zeros for nothing; NULL: it failed. */
void sync_metrics_count(struct sync_metrics *metrics, bool full, double seconds,
                        const struct commit_stats *sent);

/** Deletes unused chains, when due. A failure is harmless: the chains stay. */
void ruleset_collect(struct ruleset *rs, struct nft_socket *socket, double now);

#endif
