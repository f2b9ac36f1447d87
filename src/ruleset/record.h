/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What src/ruleset's files share: a table, wanted and in the kernel.
 *
 * What is keyed by a frontend is in its record; the elements of the other sets are in contents.h,
 * the chains that backends are picked by in shapes.h.
 */
#ifndef KUBE_NFTD_RULESET_RECORD_H
#define KUBE_NFTD_RULESET_RECORD_H

#include "affinity.h"
#include "boundaries.h"
#include "kube-nftd/base/hash_table.h"
#include "kube-nftd/base/vec.h"
#include "kube-nftd/ruleset/contents.h"
#include "kube-nftd/ruleset/held.h"
#include "kube-nftd/ruleset/keys.h"
#include "kube-nftd/ruleset/ruleset.h"
#include "kube-nftd/ruleset/schema.h"
#include "kube-nftd/ruleset/shapes.h"
#include "kube-nftd/ruleset/template.h"
#include "part.h"
#include "refusals.h"
#include "rules.h"
#include "source_lists.h"

/* A set that a frontend is in, or what it is like; a bit each. */
enum frontend_flag {
    FLAG_REJECTED = 1 << 0,
    FLAG_DROPPED = 1 << 1,
    FLAG_EXTERNAL = 1 << 2, /* wanted only: see struct route */
    FLAG_LOCAL = 1 << 3     /* wanted only */
};

/* What few frontends have. */
struct extras {
    struct set_number affinity_id, affinity_timeout;
    struct set_number restriction; /* to a list of sources; the one in force is held */
    uint32_t group_in_force;       /* 0 if it is not known */
    /* Wanted. */
    uint32_t group, timeout;     /* of the route */
    struct source_list *sources; /* NULL: everybody may connect; held */
    struct affinity_hold hold;
};

struct record {
    struct hash_link link; /* by frontend */
    struct frontend frontend;
    bool wanted;          /* somebody claims the frontend */
    bool pending;         /* in ruleset->pending: what is wanted may differ from the kernel */
    bool staged;          /* pending, and just a part of its slots goes with this commit */
    bool trimming;        /* in ruleset->trims: what nothing leads to any more is to be deleted */
    uint8_t flags;        /* of enum frontend_flag, in the kernel */
    uint8_t wanted_flags; /* likewise, wanted */
    uint32_t seen;        /* which elements of the set that is looked through (drift.c) */
    double shrunk_at;     /* when something fell out of use last; clock_monotonic */
    struct part all;
    struct part *local;      /* NULL if there never was one */
    struct extras *extras;   /* NULL if there never were any */
    struct refusal *refusal; /* NULL unless the kernel refused it last: see refusals.h */
};

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
    uint32_t dump_most, portion;
    enum pod_detector detector;
    struct layout base;
    struct layout_vars vars;
    void (*abandoned)(void *ctx, const struct frontend *frontend);
    char *(*owner)(void *ctx, const struct frontend *frontend);
    void *ctx;
    char mark[16], *from_pod, *not_from_pod; /* texts that vars points to */
    char comment[64];                        /* by which a table with our maps and sets is known */
    struct hash_table records;               /* of struct record */
    VEC(struct record *) pending;
    VEC(struct record *) waiting; /* pending ones, during a commit: their lists are not complete */
    VEC(struct record *) trims;
    size_t due_trims; /* so many of the first ones go with this commit */
    bool read_back;   /* the table was, for this commit, or is to be made */
    double trim_time; /* of the records in trims; clock_monotonic */
    size_t n_wanted;  /* frontends that shall be there */
    struct contents contents;
    range_vec service_cidrs, pod_cidrs; /* as they are wanted in contents */
    struct affinity affinity;
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
struct record *ruleset_find_record(const struct ruleset *ruleset, const struct frontend *frontend);

/** The record of @frontend, made if there is none. */
struct record *ruleset_record(struct ruleset *ruleset, const struct frontend *frontend);
struct part *record_local(struct record *record);
struct extras *record_extras(struct record *record);

/** What is wanted of both parts becomes lists, that the slots in the kernel do not count for. */
void record_list_wishes(struct record *record);

/** Puts @record into the list of pending ones. */
void ruleset_mark_pending(struct ruleset *ruleset, struct record *record);

/** How many slots a service value reaches. */
uint32_t service_count(uint32_t value);

/** Whether a service value leads to local_services. */
bool service_leads_to_local(uint32_t value);

/** Sorts pending records by frontend, so that a table made from them is always the same. */
void ruleset_sort_pending(struct ruleset *ruleset);

/* What a frontend is to be, but for slots and the numbers of session affinity. */
struct frontend_plan {
    uint32_t all, local; /* the values in services and local_services; 0: it is not there */
    size_t n, n_local;   /* how many backends, the first ones of the route */
    uint8_t flags;       /* of enum frontend_flag */
};

/** What @route makes of a frontend. @affine is CLASS_AFFINE with session affinity, else 0. */
struct frontend_plan ruleset_plan_frontend(const struct ruleset *ruleset, const struct route *route,
                                           unsigned affine);

/** Fills the lists that pending records want, @most elements of them; the records whose lists are
 * not complete wait, until ruleset_end_waiting() makes them pending again. */
void ruleset_fill_lists(struct ruleset *ruleset, size_t *most);
void ruleset_end_waiting(struct ruleset *ruleset);

/** The frontend, which has extras, is not led to its list any more, since @now. */
void record_release_list(struct ruleset *ruleset, struct record *record, double now);

/** Frontends of a table that was read back hold the lists that they are led to. */
void ruleset_adopt_lists(struct ruleset *ruleset, double now);

/** Plans every pending record: its service values, slots, affinity. */
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

/**
 * Reads the slots of @set that the values which lead to them say, which records know already, by
 * their keys. @done: whether it did, and gave all of the map to @fn; it does only if they are many
 * and the kernel says that it has just as many. -1 also if some of them are not there.
 */
int ruleset_read_slots(const struct ruleset *ruleset, struct nft_socket *socket, enum table_set set,
                       nft_element_fn fn, void *ctx, bool *done, struct error *err);

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

/** Whether something of @record, planned if it is pending, is left that nothing leads to. */
bool record_has_leftovers(const struct ruleset *ruleset, const struct record *record);

/** Whether the value of local_services is one that no value in services leads to, in force or
 * planned: it goes by a trim, and its slots by the next one. */
bool local_is_unreachable(const struct record *record);

/** Deletes chains that nothing leads to any more, when that is due. What cannot be deleted stays,
 * and nothing else is the worse for it. */
void ruleset_collect(struct ruleset *ruleset, struct nft_socket *socket, double now);

/** How many slots of a part stay when it is trimmed: those that the old or the new count reaches,
 * and what is more than a portion. */
uint32_t trim_keeps(const struct ruleset *ruleset, const struct record *record,
                    const struct part *part);

/** Puts the messages for the shapes that are new into ruleset->batch, and notes them in
 * ruleset->new_shapes: they are the table's only when that is in force. */
int ruleset_encode_shapes(struct ruleset *ruleset, struct error *err);

/** Puts the messages for all that is pending, and trims that are due, into ruleset->batch; for a
 * table that is missing also itself and its shapes. */
int ruleset_encode(struct ruleset *ruleset, struct error *err);

/** The same for what is keyed by frontends, in encode_frontends.c: part of ruleset_encode(). */
void encode_frontends(struct ruleset *ruleset);
void encode_trims(struct ruleset *ruleset);
void encode_slots(struct ruleset *ruleset);

#endif
