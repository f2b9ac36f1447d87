/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What is desired of a family's table and what is applied, and what the files of the table do with
 * it. What is keyed by a frontend or a service port is in its entry; the elements of the other sets
 * are plain (plain.h), the chains that backends are picked by are instances of templates
 * (instances.h).
 *
 *     desired.c     policy's routes -> entries, which are dirty then
 *     plan.c        numbers of service ports, slots; what is desired of an entry in each set
 *     encode.c      the difference of dirty entries as messages
 *     commit.c      one transaction, and what is applied after it
 *     quarantine.c  what the kernel rejected, until when
 *     observe.c     what the kernel holds under a key; all of it: adopt.c, in pieces: audit.c
 */
#ifndef KUBE_NFTD_TABLE_STATE_H
#define KUBE_NFTD_TABLE_STATE_H

#include "affinity.h"
#include "connections.h"
#include "element.h"
#include "instances.h"
#include "kube-nftd/base.h"
#include "kube-nftd/table.h"
#include "plain.h"
#include "rules.h"
#include "slots.h"
#include "source_lists.h"

/* ---- entries ---- */

/* What frontends and service ports have in common. */
struct entry {
    struct hash_link link; /* of a frontend by that, of a port by its id */
    bool is_port : 1;
    bool desired : 1;     /* somebody claims the frontend, or has the port */
    bool dirty : 1;       /* in ruleset->dirty: what is desired may differ from what is applied */
    bool staged : 1;      /* dirty, and just a part of its slots goes with this commit */
    bool quarantined : 1; /* the kernel rejected it: never dirty, and stays as it is applied */
    bool trimming : 1;    /* in ruleset->trims: what nothing leads to any more is to be deleted */
    bool trim : 1;        /* dirty, and that goes with this commit */
    bool left : 1;        /* in ruleset->left */
    uint32_t
        rejection : 24; /* 0 unless the kernel rejected it last: the place among them, from 1 */
    uint32_t seen;      /* of the set that is audited: the place of what was, from 1 */
};

struct frontend_entry {
    struct entry entry;
    struct frontend frontend;
    uint8_t class;                   /* desired; of enum frontend_class */
    uint32_t applied[FRONTEND_SETS]; /* values in the kernel; 0: none. A list is held */
    struct port_entry *port;         /* where it is to lead, which counts it; NULL if undesired */
    struct source_list *sources;     /* desired, held; NULL: everybody may connect */
};

/* The two slot tables of a service port: for all of its backends, and for those on this node. */
enum port_part { PART_ALL, PART_LOCAL, PARTS };

struct port_entry {
    struct entry entry;
    uint32_t id;         /* of routes; FOUND_ID with the number: nobody's, it was found */
    uint32_t number;     /* P, as port_of_value() gives it; 0: none yet, nothing is applied */
    uint32_t refs;       /* frontends that are to lead here */
    uint32_t n_dirty;    /* of these, how many are dirty */
    uint32_t led[PARTS]; /* frontends that lead to the part by what is applied */
    uint32_t applied[NUMBER_SETS - FRONTEND_SETS]; /* values in the kernel; 0: none */
    bool removed : 1;   /* nobody has it any more: desired until no frontend is to lead here */
    bool has_any : 1;   /* desired: see struct port_route */
    bool needs_all : 1; /* likewise */
    bool needs_local : 1;
    bool adopted : 1;    /* its number was found in the kernel */
    bool renumbered : 1; /* what is counted for its number may be of another one, until a commit */
    bool too_many_logged : 1;
    uint32_t excess : 24; /* endpoints that there are no slots for */
    double shrunk_at;     /* when something fell out of use last; clock_monotonic */
    struct slot_table all;
    struct slot_table *local;  /* NULL if there never was one */
    struct affinity *affinity; /* likewise */
};

/* Above all ids of routes. */
#define FOUND_ID (MOST_ROUTE_ID + 1u)

static inline struct frontend_entry *as_frontend(const struct entry *entry)
{
    return (struct frontend_entry *)entry;
}

static inline struct port_entry *as_port(const struct entry *entry)
{
    return (struct port_entry *)entry;
}

/* Whether frontends of a class lead to a part; external ones do so by the short-circuit too. */
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

/* ---- all of it ---- */

/* An entry that the kernel rejected last. */
struct rejection {
    struct entry *entry;
    double wait, retry_time; /* seconds; clock_monotonic, while it is quarantined */
};

/* Whose element a message of the batch is about: an entry's, or else a plain one. */
struct message_owner {
    size_t begin; /* in the batch */
    struct entry *entry;
    struct plain *plain;
};

/* Starts zeroed. */
struct quarantine {
    VEC(struct rejection) all;
    VEC(struct message_owner) owners; /* of a batch whose elements are sent singly, in its order */
    double next;                      /* when the first is tried again; clock_monotonic, or 0 */
    double wait, retry_time;          /* of plain elements; 0: none is quarantined */
    bool ports_left; /* frontends may have waited for a service port that is out of it */
};

/* An instance whose messages are in the batch. */
struct new_instance {
    struct instance instance;
    size_t end; /* where they end */
};

/* An element that another program may have changed. */
struct recheck {
    enum table_set set;
    struct key key; /* means nothing for a set of ranges */
};

struct ruleset {
    enum family family;
    struct ruleset_config config;
    struct layout base;
    struct layout_vars vars;
    char mark[16], *from_pod, *not_from_pod; /* texts that vars points to */
    char comment[64];                        /* by which a table with our maps and sets is known */

    struct hash_table frontends, ports; /* of entries */
    struct port_entry **by_number;      /* [MOST_PORTS + 1], by P; the kernel gives no memory for
                                         * those without a number */
    uint32_t last_number;               /* P that was given last */
    VEC(struct entry *) dirty;
    VEC(struct entry *) waiting; /* dirty ones, during a commit: their lists are not complete */
    size_t n_desired;            /* frontends */
    struct plain_elements plain;
    range_vec service_cidrs, pod_cidrs; /* desired */
    struct source_lists lists;
    struct connections connections;
    struct instances instances; /* what the table has */

    struct nft_batch batch;
    VEC(struct new_instance) new_instances; /* of the batch; the first begins at instances_begin */
    size_t instances_begin;
    bool is_read; /* the table was, for this commit, or is to be made */
    bool filling; /* some frontends still wait for their lists, or slots */
    VEC(struct port_entry *) trims;
    VEC(struct port_entry *) left; /* after a commit: of which something may be left behind */
    double trim_time;              /* of the first of trims; clock_monotonic */
    double collect_time; /* when chains that nothing uses are looked for; 0: there are none */
    double collect_wait; /* how long that takes, longer after a failure */
    struct quarantine quarantine;

    VEC(struct recheck) rechecks;
    bool recheck_all;    /* anything may have been changed */
    bool recheck_rules;  /* rules, chains or the table's flags may have been */
    bool rules_wrong;    /* rules or chains were: they are to be written anew */
    bool strangers_stay; /* chains that are not ours and that no packet gets to cannot be deleted */
    size_t repaired;     /* bytes that were sent for rules since the last commit */
    bool adopted;        /* a table was looked for at least once */
    bool kernel_known;   /* all of this says what the kernel holds */
    bool table_missing;  /* valid if kernel_known: there is no table yet */
    bool owned_elsewhere; /* by what was seen last */
    bool table_replaced; /* there is one of another layout, to be deleted in the same transaction */
    bool has_shadows;    /* and that has shadow chains (previous_table.h) */
    int records_logged;  /* how full the map of affinity records was when that was logged last */
    struct ruleset_figures figures;
};

/* ---- state.c ---- */

/** An empty ruleset for the table of @family; NULL if a template is broken (the error says where).
 */
struct ruleset *ruleset_new(enum family family, const struct ruleset_config *config,
                            struct error *err);
void ruleset_free(struct ruleset *rs);

/** How many frontends are desired; of those in quarantine, how many are applied. */
size_t ruleset_frontends(const struct ruleset *rs);

/** The entry of @frontend, or of the service port with an id; NULL, or made if there is none. */
struct frontend_entry *ruleset_find_frontend(const struct ruleset *rs,
                                             const struct frontend *frontend);
struct frontend_entry *ruleset_get_frontend(struct ruleset *rs, const struct frontend *frontend);
struct port_entry *ruleset_find_port(const struct ruleset *rs, uint32_t id);
struct port_entry *ruleset_get_port(struct ruleset *rs, uint32_t id);

/** The same by P. One that is not known was found in the kernel, and is nobody's. */
struct port_entry *ruleset_port_of_number(const struct ruleset *rs, uint32_t number);
struct port_entry *ruleset_get_port_of_number(struct ruleset *rs, uint32_t number);

/** @port has a number, P; 0: none any more. */
void ruleset_number_port(struct ruleset *rs, struct port_entry *port, uint32_t number);

/** Frees an entry that nobody desires and of which nothing is left. */
void ruleset_free_entry(struct ruleset *rs, struct entry *entry);

/** Puts @entry among the dirty ones, unless it is quarantined; it is not one of them any more. */
void ruleset_mark_dirty(struct ruleset *rs, struct entry *entry);
void entry_clean(struct entry *entry);

/** Some frontend that is to lead to @port, the first one of all; NULL if there is none. Looks at
 * all. */
const struct frontend_entry *ruleset_frontend_of(const struct ruleset *rs,
                                                 const struct port_entry *port);

/** Sorts dirty entries, frontends first, so that a table made from them is always the same. */
void ruleset_sort_dirty(struct ruleset *rs);

/** The slots of a part; NULL, or made if there never were any. */
struct slot_table *port_slots(const struct port_entry *port, enum port_part which);
struct slot_table *port_make_slots(struct port_entry *port, enum port_part which);
struct affinity *port_affinity(struct port_entry *port);

/** What is desired of both parts becomes lists, since the slots in the kernel may be others. */
void port_list_desired(struct port_entry *port);

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

/* The sets of numbers that @entry has elements in: from first_set() up to end_of_sets(). */
static inline enum table_set first_set(const struct entry *entry)
{
    return entry->is_port ? FRONTEND_SETS : 0;
}

static inline enum table_set end_of_sets(const struct entry *entry)
{
    return entry->is_port ? NUMBER_SETS : FRONTEND_SETS;
}

/** What the kernel has of @entry in a set of numbers; 0: nothing. */
static inline uint32_t entry_applied(enum table_set set, const struct entry *entry)
{
    const uint32_t *applied =
        entry->is_port ? as_port(entry)->applied : as_frontend(entry)->applied;
    return applied[set - first_set(entry)];
}

/** That is @value now, and so there is a use for the chains, or the service port, that it leads to.
 */
void entry_set_applied(struct ruleset *rs, enum table_set set, struct entry *entry, uint32_t value);

/** The key under which @entry has its element; in a set of slots that of @slot. */
struct key entry_key(enum table_set set, const struct entry *entry, uint32_t slot);

/** The frontend is not led to its list, if there is one, any more, since @now. */
void frontend_release_list(struct ruleset *rs, struct frontend_entry *frontend, double now);

/* ---- plan.c ---- */

/** The class of a frontend with @route. */
unsigned route_class(const struct route *route);

/** Whether new connections to a service port are refused: its value in SET_REJECTED, and in
 * SET_DROPPED. */
uint32_t route_rejects(const struct port_route *route);
uint32_t route_drops(const struct port_route *route);

/** What is desired of @entry, once it is planned, in a set of numbers; for now that is what is
 * applied of one that is quarantined, or of which just some slots go with this commit. */
uint32_t entry_desired(enum table_set set, const struct entry *entry);

/** Plans dirty entries: numbers of service ports, slots, affinity. */
void ruleset_plan(struct ruleset *rs);

/** The frontend was found to lead to the service port with number P: that is the one it is to lead
 * to, if that has no number and nobody has this one. */
void ruleset_adopt_number(struct ruleset *rs, struct frontend_entry *frontend, uint32_t number);

/** The chains that a number in such a set leads to; false if the table always has them. */
bool set_instance(enum table_set set, uint32_t number, struct instance *instance);

/** The instances that dirty entries need and the table does not have, each after those that it
 * builds on. The caller frees the array in @out. */
void ruleset_new_instances(const struct ruleset *rs, instance_vec *out);

/** Reads the template of @instance for this table. */
int ruleset_read_instance(const struct ruleset *rs, struct instance instance, struct layout *layout,
                          struct error *err);

/** Fills the lists that dirty entries desire, @most elements of them; the entries whose lists are
 * not complete wait, until ruleset_end_waiting() makes them dirty again. */
void ruleset_fill_lists(struct ruleset *rs, size_t *most);
void ruleset_end_waiting(struct ruleset *rs);

/** Whether nothing leads to a part that is not needed any more: it goes by a trim. */
bool port_is_left(const struct port_entry *port, enum port_part which);

/** How many slots of a part stay when it is trimmed: those that the old or the new count reaches,
 * and what is more than a portion. */
uint32_t port_kept_slots(const struct ruleset *rs, const struct port_entry *port,
                         enum port_part which);

/** How many elements of @port a trim deletes; 0: nothing is left behind. */
size_t port_leftovers(const struct ruleset *rs, const struct port_entry *port);

/* ---- encode.c ---- */

/** Puts the messages for the instances that are new into ruleset->batch, and notes them in
 * ruleset->new_instances: they are the table's only when that is applied. */
int ruleset_encode_instances(struct ruleset *rs, struct error *err);

/** Puts the messages for all that is dirty into ruleset->batch; for a table that is missing also
 * itself and its instances. */
int ruleset_encode(struct ruleset *rs, struct error *err);

/* ---- quarantine.c ---- */

/** The next element in the batch is of @entry, or if that is NULL it is @plain. */
void quarantine_note_owner(struct ruleset *rs, struct entry *entry, struct plain *plain);

/**
 * Looks at what the kernel rejected of the ruleset's batch, of which nothing is applied, and puts
 * that into quarantine. True if something was: the rest is worth another try at once. Answers that
 * say that the table is not what it was believed to be, or that the kernel is short of something,
 * name nothing that could be; others may be mere consequences of those that do.
 * @singly  each element had a message of its own: only then the kernel names all that it rejects,
 *          and it is known whose that is
 */
bool quarantine_take(struct ruleset *rs, double now, bool singly);

/** What is due at @now is desired again, a portion of it. */
void quarantine_retry(struct ruleset *rs, double now);

/** @entry, which is about to become dirty, leaves it. */
void quarantine_leave(struct ruleset *rs, struct entry *entry);

/** Sorts dirty entries, which are planned: those that take up more room in the kernel come last, so
 * that a set that is full rejects these and no others. */
void quarantine_sort_dirty(struct ruleset *rs);

/** The kernel took @entry, or it is about to be freed; all but what is quarantined is applied. */
void quarantine_end(struct ruleset *rs, struct entry *entry);
void quarantine_applied(struct ruleset *rs);
void quarantine_free(struct ruleset *rs);

/* ---- observe.c ---- */

enum observation {
    OBSERVED_SAME,
    OBSERVED_CHANGED, /* it is dirty now, to be repaired */
    OBSERVED_ALIEN    /* this cannot be told by the element alone: the table has to be read back */
};

/* What is believed of the element under a key. */
struct sighting {
    struct element element; /* taken apart */
    struct entry *entry;    /* whose it is; NULL: there is none, or the set is plain */
    struct plain *plain;
    bool there; /* something is believed applied */
    bool same;  /* and it is the element; only if that has a value that can be ours */
};

/** By the key of @from. False if that cannot be one of ours, or is an end of a range, which tells
 * something only together with all others. */
bool ruleset_sight(const struct ruleset *rs, enum table_set set, const struct nft_element *from,
                   struct sighting *out);

/** Whether @found, ascending, is what a set of ranges is believed to hold. */
bool ruleset_has_ranges(const struct ruleset *rs, enum table_set set, const range_vec *found);

/** The kernel holds @from, whose value was taken, or nothing under its key, which was sighted. */
void ruleset_believe(struct ruleset *rs, enum table_set set, const struct nft_element *from,
                     const struct sighting *sighting, bool there);

/**
 * Another program changed an element of @set; or something else of the table; or anything, since it
 * was not seen what. This is only noted, until ruleset_recheck().
 */
void ruleset_recheck_element(struct ruleset *rs, const char *set, const struct nft_element *from);
void ruleset_recheck_rules(struct ruleset *rs);
void ruleset_recheck_all(struct ruleset *rs);
bool ruleset_has_rechecks(const struct ruleset *rs);

/**
 * Asks the kernel for the elements that were noted. What is not as it should be is repaired by the
 * next commit, which is due then: by the elements or chains concerned, by reading back all of the
 * table, or by making it anew if its maps and sets are others. Returns how much of it there is.
 */
size_t ruleset_recheck(struct ruleset *rs, struct nft_socket *socket);

/* ---- adopt.c ---- */

/* What a table was found to hold. */
struct table_contents {
    size_t elements; /* but for verdicts */
    size_t held;     /* counted as the kernel does: two for most ranges */
    bool foreign;    /* something that we cannot have written: the table is to be made anew */
};

/**
 * Reads all elements of the table but verdicts, of which nothing is believed applied before. -1
 * also if the kernel gave elements twice: read again.
 * @by_keys  slots may be read by their keys: if that fails, read again without
 */
int ruleset_read_back(struct ruleset *rs, struct nft_socket *socket, bool by_keys,
                      struct table_contents *found, struct error *err);

/** Takes over the table if it is one of ours, so that the next plan is the difference between what
 * is desired and what is there. */
int ruleset_adopt(struct ruleset *rs, struct nft_socket *socket, double now, struct error *err);

/** Whether the table is there, awake, and like ours. */
bool ruleset_is_still_ours(struct ruleset *rs, struct nft_socket *socket);

/** rules_repair(), logged and noted for the next commit. */
int ruleset_repair_rules(struct ruleset *rs, struct nft_socket *socket, struct rules_repaired *done,
                         struct error *err);

/**
 * If there is a table from the previous process whose chains, rules or verdicts are not those that
 * the templates make, makes them so in one transaction, while nothing is known of what its elements
 * shall be: what another program did might keep this one from ever learning that. Elements and the
 * records of packets stay. Any other table, and one that another program owns, is left alone; one
 * that can be owned is claimed. For a ruleset that knows nothing of the kernel yet.
 * @repaired  whether something was wrong
 * -1: it is as it was; the error says why
 */
int ruleset_repair_previous(struct ruleset *rs, struct nft_socket *socket, bool *repaired,
                            struct error *err);

/** Looks whether there is a table like ours, and becomes its owner if it shall have one. One that
 * another program owns is not. */
int ruleset_claim(struct ruleset *rs, struct nft_socket *socket, bool *ours, struct error *err);

/* ---- commit.c ---- */

/* Figures of a commit. */
struct ruleset_stats {
    size_t elements_added, elements_deleted; /* of maps and sets */
    size_t bytes;                            /* 0: nothing had to be sent */
    double seconds;                          /* inside the kernel */
};

/**
 * Makes the kernel hold what is desired, but for what it rejects. -1: nothing that is desired is
 * lost; call again later.
 *
 * The kernel holds its caller until a transaction is applied, so frontends with more new slots than
 * a portion get them in several, one a call, before anything else of them changes: ruleset->filling
 * says that some are left. So do trims. What a table lacks that was read back goes in one; one that
 * is made where there was none in several, all of them in this call.
 */
int ruleset_commit(struct ruleset *rs, struct nft_socket *socket, double now,
                   struct ruleset_stats *stats, struct error *err);

/** Whether a commit at @now would have something to do; when it has although nothing changes, or 0:
 * the first of when what nothing leads to is to be deleted, chains that nothing leads to are looked
 * for, and what the kernel rejected is tried again. */
bool ruleset_needs_commit(const struct ruleset *rs, double now);
double ruleset_due(const struct ruleset *rs);
double ruleset_trim_time(const struct ruleset *rs);

/** A sync took @seconds. @sent is what it sent, zeros if that was nothing; NULL: it failed. */
void sync_figures_count(struct sync_figures *figures, bool full, double seconds,
                        const struct ruleset_stats *sent);

/** Deletes chains that nothing leads to any more, when that is due. What cannot be deleted stays,
 * and nothing else is the worse for it. */
void ruleset_collect(struct ruleset *rs, struct nft_socket *socket, double now);

/* ---- table.c ---- */

/* When what another program changed may be repaired: at once, but if that goes on, ever more
 * seldom, so that two programs cannot keep each other busy. Starts zeroed. Pure. */
struct repair_pace {
    double last; /* repair; 0: none yet */
    double wait; /* after it */
};
#define REPAIR_FIRST_WAIT 0.05
#define REPAIR_LONGEST_WAIT 10.0

/** When the next repair may begin; one ended at @now and took @seconds. */
double repair_pace_due(const struct repair_pace *pace);
void repair_pace_done(struct repair_pace *pace, double now, double seconds);

#endif
