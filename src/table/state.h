/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The table of a family: struct ruleset, which the table's files share. Each file says in its own
 * header what it does with it; the way of a change:
 *
 *     desired.c       policy's routes -> dirty entries (entry.h)
 *     numbers.c       numbers of service ports
 *     plan.c          these, and desired_value.c -> differences
 *     chains.c        chains that they need
 *     encode.c        differences -> messages
 *     commit.c        messages -> one transaction, and the applied state after it
 *     portions.c      what of a new table is in which transaction
 *     steps.c         what of service ports is
 *     quarantine.c    entries that the kernel rejected, and their retries
 *
 * The way back, from what the kernel has:
 *
 *     walk.c          all elements, in pieces -> adopt.c, at the start; audit.c, now and then
 *     observe.c       one element -> the applied state
 *     kept.c          what stays as applied, whatever is found
 *     foreign.c       what others change: when it is looked at
 *
 * limits.c says what does not fit. flowtable.c has the devices of the flowtable, connections.c the
 * counts that packets write, apart from all that.
 */
#ifndef KUBE_NFTD_TABLE_STATE_H
#define KUBE_NFTD_TABLE_STATE_H

#include "adopt.h"
#include "chains.h"
#include "connections.h"
#include "entry.h"
#include "flowtable.h"
#include "kept.h"
#include "observe.h"
#include "plan.h"
#include "portions.h"
#include "quarantine.h"
#include "rules.h"
#include "steps.h"
#include "walk.h"

/* What is known of the table in the kernel. */
enum table_state {
    TABLE_UNKNOWN,         /* to be read; nothing is committed before */
    TABLE_OWNED_ELSEWHERE, /* likewise, once the program that owns it has ended */
    TABLE_MISSING,         /* the next commit makes it */
    TABLE_REPLACED,        /* likewise, and deletes one that is not like ours */
    TABLE_OURS             /* as applied */
};

struct ruleset {
    enum family family;
    struct ruleset_config config;
    struct layout base;
    struct layout_vars vars;
    char mark[16], *from_pod, *not_from_pod; /* strings that vars points to */
    char comment[64];                        /* identifies tables with our maps and sets */

    struct hash_table frontends, ports, plains; /* hold entries */
    struct port_numbers numbers;                /* of service ports */
    size_t limits_reported;                     /* by limits.c during this commit */
    VEC(struct entry *) dirty;
    struct portions portions;
    VEC(struct difference) differences; /* of dirty entries, during a commit, in order */
    size_t n_desired;                   /* frontends */
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
    struct keeping keeping;

    VEC(struct recheck) rechecks;
    enum recheck_scope recheck_scope;
    bool strangers_stay; /* unreachable chains of other programs cannot be deleted */
    size_t repaired;     /* bytes sent to repair rules; the next commit reports them */
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
    return rs->state == TABLE_OURS;
}

/** See struct table_view. */
bool ruleset_is_lost(const struct ruleset *rs);

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

/** Whether more is to come: all of the desired state is applied only after further commits. */
static inline bool ruleset_is_filling(const struct ruleset *rs)
{
    return rs->portions.left;
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

/* kube-proxy's minSyncPeriod: a new change waits at most so long, in seconds, for the next attempt
 * after a failed commit or a repair (docs/behaviour.md 9.4). */
#define CHANGE_RETRY 1.0

/** Counts a sync of @seconds. @sent: what it sent, zeros for nothing; NULL: it failed. */
void sync_metrics_count(struct sync_metrics *metrics, bool full, double seconds,
                        const struct commit_stats *sent);

#endif
