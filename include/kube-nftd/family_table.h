/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * One family's table and how its commits go: when one is tried and, after a failure, tried again
 * (docs/behaviour.md 9.4), what is logged and counted of it, and since when a change waits. Owns
 * the ruleset.
 */
#ifndef KUBE_NFTD_FAMILY_TABLE_H
#define KUBE_NFTD_FAMILY_TABLE_H

#include "kube-nftd/netlink/nft_socket.h"
#include "kube-nftd/ruleset/ruleset.h"
#include "kube-nftd/sync_figures.h"
#include "kube-nftd/table_guard.h"

struct family_table {
    struct ruleset *ruleset; /* NULL if the family is not in use */
    bool programmed;         /* committed at least once */
    bool more_to_come;       /* the ruleset was not told of all that has changed so far */
    bool partly;             /* nor was it at the last commit */
    double waiting_since;    /* a change waits to be committed; monotonic, or 0 */
    double last_updated;     /* last success or start; realtime */
    double retry_wait, retry_time, failed_time; /* monotonic; 0 while nothing failed */
    bool changed;                               /* since the last try */
    bool queued;                                /* a change that was not counted as one yet */
    char *said;                                 /* the failure that was logged last */
    const char *about;  /* the Services of a commit, for its line (change_log.h); NULL: none */
    double sync_period; /* seconds */
    struct sync_figures syncs;
    struct table_guard guard;
    double kept;     /* when family_table_keep() looked last; monotonic; 0: never */
    bool look_again; /* another program was seen changing the table since */
};

/** A family that is not in use yet: give it a ruleset if it shall be.
 * @sync_period  kube-proxy's, in seconds; 0: its default
 * Release with family_table_clear(). */
void family_table_init(struct family_table *family, double sync_period);
void family_table_clear(struct family_table *family);

/**
 * Commits if there is something to commit and its time has come. Says and counts failures itself.
 * @name  of the family, for the log
 * @now   clock_monotonic
 * Returns when it wants to be looked at again, or 0.
 */
double family_table_turn(struct family_table *family, const char *name, struct nft_socket *socket,
                         double now);

/**
 * Before the first programming, while the rules of an earlier run serve on: puts them right if
 * another program changed them (ruleset_mend()). Looks at once, when such a program was seen, and
 * every 2 s, since that of an earlier owner is not. Says and counts what it did.
 * Returns when it wants to be called again, or 0.
 */
double family_table_keep(struct family_table *family, const char *name, struct nft_socket *socket,
                         double now);

/** Likewise, while nothing is known of what the table shall hold: takes @frontend out of it, unless
 * its address is a cluster IP. Says so, and why not if that fails. */
void family_table_give_way(struct family_table *family, const struct frontend *frontend,
                           struct nft_socket *socket);

/**
 * Whether the kernel holds all that has come so far, but for what it refused: nothing waits for a
 * commit, for the repair of what another program changed, or for a later turn. /programmed and
 * readiness speak of that; health checks, stale flows and programming times ask for each frontend
 * (ruleset_is_waiting()).
 */
bool family_table_is_in_force(const struct family_table *family);

/** For how long a change has waited to be in force, in seconds; 0 if none does. */
double family_table_waiting(const struct family_table *family, double now);

/** Whether one waits for so long that the proxy counts as unhealthy (docs/behaviour.md 6.2): twice
 * the period.
 */
bool family_table_is_overdue(const struct family_table *family, double now);

#endif
