/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What src/ruleset's files share: a table, wanted and in the kernel.
 *
 * What is keyed by a frontend or a service port is in its record; the elements of the other sets
 * are in contents.h, the chains that backends are picked by in shapes.h.
 */
#ifndef KUBE_NFTD_TABLE_RECORD_H
#define KUBE_NFTD_TABLE_RECORD_H

#include "affinity.h"
#include "boundaries.h"
#include "connections.h"
#include "contents.h"
#include "held.h"
#include "keys.h"
#include "kube-nftd/base.h"
#include "kube-nftd/table.h"
#include "part.h"
#include "refusals.h"
#include "rules.h"
#include "schema.h"
#include "shapes.h"
#include "source_lists.h"

/* What frontends and service ports have in common: wishes, what is in force of them, and how far
 * the one is from the other. */
struct record {
    struct hash_link link; /* of a frontend by that, of a port by its id */
    bool is_port : 1;
    bool wanted : 1;    /* somebody claims the frontend, or has the port */
    bool pending : 1;   /* in ruleset->pending: what is wanted may differ from the kernel */
    bool staged : 1;    /* pending, and just a part of its slots goes with this commit */
    bool trimming : 1;  /* in ruleset->trims: what nothing leads to any more is to be deleted */
    bool held_back : 1; /* never pending, and stays as it is in force: see refusals.h */
    uint32_t
        refusal : 26; /* 0 unless the kernel refused it last: the place in refusals.h, from 1 */
    uint32_t seen;    /* which elements of the set that is looked through (drift.c) */
};

/* Which sources may connect to a frontend; few have that. */
struct restriction {
    struct set_number number;    /* of a list of sources; the one in force is held */
    struct source_list *sources; /* wanted; NULL: everybody may connect; held */
};

struct frontend_record {
    struct record record;
    struct frontend frontend;
    uint8_t class_wanted; /* of enum frontend_class */
    bool waits_for_port;  /* in ruleset->refusals.frontends */
    struct set_number service;
    struct port_record *port; /* where it is to lead, which counts it; NULL if it is not wanted */
    struct restriction *restriction; /* NULL if there never was one */
};

/* What few packets of a service port meet; a bit each. */
enum port_flag { FLAG_REJECTED = 1 << 0, FLAG_DROPPED = 1 << 1 };

/* The two parts of a service port. */
enum port_part { PART_ALL, PART_LOCAL, PARTS };

struct port_record {
    struct record record;
    uint32_t id;            /* of routes; FOUND_ID with the number above: nobody's, it was found */
    uint32_t number;        /* P, as port_of_value() gives it; 0: none yet, nothing is in force */
    uint32_t refs;          /* how often it is held: by frontends that are to lead here */
    uint32_t n_pending;     /* of these, how many are pending */
    uint32_t led[PARTS];    /* frontends in force that lead to the part */
    uint8_t flags;          /* of enum port_flag, in the kernel */
    uint8_t wanted_flags;   /* likewise, wanted */
    bool too_many_said : 1; /* that is in the log */
    bool adopted : 1;       /* its number was found in the kernel */
    bool renumbered : 1; /* what is counted for its number may be of another one, until a commit */
    bool removed : 1;    /* nobody has it any more: wanted until it is not held any more */
    bool has_any : 1;    /* wanted: see struct port_route */
    bool needs_cluster : 1; /* likewise */
    bool needs_local : 1;
    uint32_t n_offered; /* endpoints, if they are more than MAX_BACKENDS */
    double shrunk_at;   /* when something fell out of use last; clock_monotonic */
    struct part all;
    struct part *local;        /* NULL if there never was one */
    struct affinity *affinity; /* likewise */
};

/* Whether frontends of a class lead to a part; external ones do so by the short-circuit too. */
static inline bool class_leads_to(unsigned class, enum port_part which)
{
    return which == PART_LOCAL ? class & CLASS_LOCAL
                               : !(class & CLASS_LOCAL) || class & CLASS_EXTERNAL;
}

static inline struct frontend_record *as_frontend(const struct record *record)
{
    return (struct frontend_record *)record;
}

static inline struct port_record *as_port(const struct record *record)
{
    return (struct port_record *)record;
}

/* Above all ids of routes. */
#define FOUND_ID (MOST_ROUTE_ID + 1u)

/* A shape whose messages are in the batch. */
struct new_shape {
    struct shape shape;
    size_t end; /* where they end */
};

/* An element that another program may have changed. */
struct suspect {
    enum table_set set;
    struct key key; /* means nothing for a ranged set */
};

struct ruleset {
    enum family family;
    bool owned; /* see struct ruleset_config */
    enum connection_counting counting;
    struct connections connections;
    uint32_t dump_most, portion;
    enum pod_detector detector;
    struct layout base;
    struct layout_vars vars;
    void (*abandoned)(void *ctx, const struct frontend *frontend);
    char *(*owner)(void *ctx, const struct frontend *frontend);
    void *ctx;
    char mark[16], *from_pod, *not_from_pod; /* texts that vars points to */
    char comment[64];                        /* by which a table with our maps and sets is known */
    struct hash_table frontends;             /* of struct frontend_record */
    struct hash_table ports;                 /* of struct port_record */
    struct port_record **by_number;          /* [MOST_PORTS + 1], by P; the kernel gives no memory
                                              * for those without a number */
    uint32_t last_number;                    /* P that was given last */
    VEC(struct record *) pending;
    VEC(struct record *) waiting; /* pending ones, during a commit: their lists are not complete */
    VEC(struct port_record *) trims;
    size_t due_trims; /* so many of the first ones go with this commit */
    bool read_back;   /* the table was, for this commit, or is to be made */
    double trim_time; /* of the records in trims; clock_monotonic */
    size_t n_wanted;  /* frontends that shall be there */
    struct contents contents;
    range_vec service_cidrs, pod_cidrs; /* as they are wanted in contents */
    struct source_lists lists;
    bool filling;         /* some frontends still wait for their lists, or slots */
    int records_said;     /* how full the map of its records was when that was logged last */
    struct shapes shapes; /* what the table has */
    VEC(struct new_shape) new_shapes; /* of the batch; the first begins at shapes_begin */
    size_t shapes_begin;
    double collect_time; /* when chains that nothing uses are looked for; 0: there are none */
    double collect_wait; /* how long that takes, longer after a failure */
    struct refusals refusals;
    VEC(struct suspect) suspects;
    struct boundaries boundaries; /* of the ranged set that is looked through (drift.h) */
    VEC(uint32_t) seen;           /* of records with many elements of it (drift.c) */
    bool all_suspect;             /* anything may have been changed */
    bool shapes_clash;            /* the kernel had a new chain already, at the last commit */
    bool rules_suspect;           /* rules, chains or the table's flags may have been */
    bool rules_wrong;             /* rules or chains were: they are to be written anew */
    bool strangers_stay; /* chains that are not ours and that no packet gets to cannot be deleted */
    size_t repaired;     /* bytes that were sent for rules since the last commit */
    struct ruleset_figures figures;
    bool adopted;         /* a table was looked for at least once */
    bool kernel_known;    /* all of this says what the kernel holds */
    bool table_missing;   /* valid if kernel_known: there is no table yet */
    bool owned_elsewhere; /* by what was seen last */
    bool table_replaced;  /* there is one of another shape, to be deleted in the same transaction */
    bool handed_over;     /* and it was prepared for that (hand_over.h) */
    struct nft_batch batch;
};

/** Frees @record, which nobody wants and nothing is left of. */
void ruleset_free_record(struct ruleset *ruleset, struct record *record);

/** The record of @frontend, or NULL. */
struct frontend_record *ruleset_find_frontend(const struct ruleset *ruleset,
                                              const struct frontend *frontend);

/** The record of the service port with an id, or NULL; and by its number in the table. */
struct port_record *ruleset_find_port(const struct ruleset *ruleset, uint32_t id);
struct port_record *ruleset_port_of_number(const struct ruleset *ruleset, uint32_t number);

/** The same, made if there is none. */
struct frontend_record *ruleset_get_frontend(struct ruleset *ruleset,
                                             const struct frontend *frontend);
struct port_record *ruleset_get_port(struct ruleset *ruleset, uint32_t id);

/** The record of @subject; NULL, or made if there is none. */
struct record *ruleset_find_subject(const struct ruleset *ruleset,
                                    const struct set_subject *subject);
struct record *ruleset_subject(struct ruleset *ruleset, const struct set_subject *subject);

/** The records that have elements in @set, which has no contents. */
const struct hash_table *ruleset_records_of(const struct ruleset *ruleset, enum table_set set);

struct part *port_local(struct port_record *port);
struct affinity *port_affinity(struct port_record *port);
struct restriction *frontend_restriction(struct frontend_record *frontend);

/** A part of @port; NULL if there never was one. */
struct part *port_part(const struct port_record *port, enum port_part which);
bool port_needs(const struct port_record *port, enum port_part which);

/** What is wanted of both parts becomes lists, that the slots in the kernel do not count for. */
void port_list_wishes(struct port_record *port);

/** The backends that are in force are wanted, of a part that nothing leads to any more none. */
void port_want_in_force(struct port_record *port);

/** A service value in force leads to its port, or does so no more; 0 leads nowhere. */
void ruleset_lead(struct ruleset *ruleset, uint32_t value, bool more);

/** @port has a number, P; 0: none any more. */
void ruleset_number_port(struct ruleset *ruleset, struct port_record *port, uint32_t number);

/** Some frontend that is to lead to @port, the first one of all; NULL if there is none. Looks at
 * all. */
const struct frontend_record *ruleset_frontend_of(const struct ruleset *ruleset,
                                                  const struct port_record *port);

/** Puts @record into the list of pending ones. */
void ruleset_mark_pending(struct ruleset *ruleset, struct record *record);
/** It is not one of them any more. */
void record_settle(struct record *record);

/** Sorts pending records, frontends first, so that a table made from them is always the same. */
void ruleset_sort_pending(struct ruleset *ruleset);

/** The class of a frontend with @route. */
unsigned route_class(const struct route *route);

/** What of enum port_flag is wanted of a port. */
uint8_t route_flags(const struct port_route *route);

/** Fills the lists that pending records want, @most elements of them; the records whose lists are
 * not complete wait, until ruleset_end_waiting() makes them pending again. */
void ruleset_fill_lists(struct ruleset *ruleset, size_t *most);
void ruleset_end_waiting(struct ruleset *ruleset);

/** The frontend is not led to its list, if there is one, any more, since @now. */
void frontend_release_list(struct ruleset *ruleset, struct frontend_record *frontend, double now);

/** Frontends of a table that was read back hold the lists that they are led to. */
void ruleset_adopt_lists(struct ruleset *ruleset, double now);

/** Plans every pending record: numbers of service ports, values, slots, affinity. */
void ruleset_plan(struct ruleset *ruleset);

/** The shapes that pending records need and the table does not have, each after those that it
 * builds on. The caller frees the array in @out. */
void ruleset_new_shapes(const struct ruleset *ruleset, shape_vec *out);

/** Reads the template of @shape for this table. */
int ruleset_read_shape(const struct ruleset *ruleset, struct shape shape, struct layout *layout,
                       struct error *err);

/* What a table was found to hold. */
struct table_contents {
    size_t elements;
    size_t held;  /* counted as the kernel does: two for most ranges */
    bool foreign; /* something that we cannot have written: the table is to be made anew */
};

/**
 * Reads all elements of the table but verdicts into records and contents, which know of nothing in
 * the kernel before. -1 also if the kernel gave elements twice: read again.
 * @by_keys  slots may be read by their keys: if that fails, read again without
 */
int ruleset_read_back(struct ruleset *ruleset, struct nft_socket *socket, bool by_keys,
                      struct table_contents *found, struct error *err);

/** rules_repair(), said and noted for the next commit. */
int ruleset_repair_rules(struct ruleset *ruleset, struct nft_socket *socket,
                         struct rules_repaired *done, struct error *err);

/** Whether the table is gone, dormant, another one or another program's. */
bool ruleset_has_changed(struct ruleset *ruleset, struct nft_socket *socket);

/**
 * Takes over the table if it is one of ours and makes all records pending, so that the next plan is
 * the difference between what is wanted and what is there.
 */
int ruleset_adopt(struct ruleset *ruleset, struct nft_socket *socket, double now,
                  struct error *err);

/** Looks whether there is a table like ours, and becomes its owner if it shall have one. -1 also if
 * another program owns it. */
int ruleset_claim(struct ruleset *ruleset, struct nft_socket *socket, bool *ours,
                  struct error *err);

/** Sets @err: another program owns the table. Returns -1. */
int ruleset_say_owner(enum family family, const struct nft_table_state *state, struct error *err);

/** Puts those trims first that a commit at @now makes, a portion at most, and counts them in
 * due_trims. */
void ruleset_choose_trims(struct ruleset *ruleset, double now);

/** Whether something of @port, planned if it is pending, is left that nothing leads to. */
bool port_has_leftovers(const struct ruleset *ruleset, const struct port_record *port);

/** Whether nothing in force leads to a part that is not needed any more: it goes by a trim. */
bool port_is_left(const struct port_record *port, enum port_part which);

/** Flags of @port in the kernel that go by a trim: they stayed for frontends that led to a part
 * which is not needed any more, and nothing does now. */
uint8_t port_left_flags(const struct port_record *port);

/** Deletes chains that nothing leads to any more, when that is due. What cannot be deleted stays,
 * and nothing else is the worse for it. */
void ruleset_collect(struct ruleset *ruleset, struct nft_socket *socket, double now);

/** How many slots of a part stay when it is trimmed: those that the old or the new count reaches,
 * and what is more than a portion. */
uint32_t trim_keeps(const struct ruleset *ruleset, const struct port_record *port,
                    enum port_part which);

/** Puts the messages for the shapes that are new into ruleset->batch, and notes them in
 * ruleset->new_shapes: they are the table's only when that is in force. */
int ruleset_encode_shapes(struct ruleset *ruleset, struct error *err);

/** Puts the messages for all that is pending, and trims that are due, into ruleset->batch; for a
 * table that is missing also itself and its shapes. */
int ruleset_encode(struct ruleset *ruleset, struct error *err);

#endif
