/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * One family's table and its time: when it is committed and, after a failure, committed again
 * (docs/behaviour.md 9.4), when what other programs changed is put right, when it is looked through
 * for what nobody was seen changing, and since when a change waits. What is logged and counted of
 * all that. Owns the ruleset. Times are clock_monotonic's, unless it says otherwise.
 */
#ifndef KUBE_NFTD_RULESET_TABLE_H
#define KUBE_NFTD_RULESET_TABLE_H

#include "kube-nftd/netlink/nft_socket.h"
#include "kube-nftd/netlink/table_monitor.h"
#include "kube-nftd/ruleset/ruleset.h"
#include "kube-nftd/ruleset/sync_figures.h"

struct table;

struct table_config {
    enum family family;
    struct ruleset_config ruleset;
    double sync_period;  /* kube-proxy's, in seconds; 0: its default */
    double audit_period; /* seconds from one look through the table to the next; 0: none */
};

/** A table of which nothing is wanted yet; NULL if a template is broken (the error says where). */
struct table *table_new(const struct table_config *config, struct error *err);
void table_free(struct table *table);

/** Where to say what is wanted. table_changing() for those who are about to. */
const struct ruleset *table_ruleset(const struct table *table);
struct ruleset *table_changing(struct table *table);

/** What is counted of commits, for those who know when changes began. */
struct sync_figures *table_syncs(struct table *table);

/**
 * Commits if there is something to commit and its time has come, and goes on with the look through
 * the table. Says and counts failures itself.
 * @more_to_come  the ruleset was not told of all that has changed so far
 * @about         the Services of a commit, for its line (change_log.h); NULL: none
 * Returns when it wants to be called again, or 0.
 */
double table_turn(struct table *table, bool more_to_come, const char *about,
                  struct nft_socket *socket, double now);

/** See ruleset_read_connections() in connections.h. */
bool table_read_connections(struct table *table, double since);

/**
 * Before the first turn, while the rules of an earlier run serve on: puts them right if another
 * program changed them (ruleset_mend()). Looks at once, when such a program was seen, and every
 * 2 s, since that of an earlier owner is not. Says and counts what it did.
 * Returns when it wants to be called again.
 */
double table_keep(struct table *table, struct nft_socket *socket, double now);

/** Likewise, while nothing is known of what the table shall hold: takes @frontend out of it, unless
 * its address is a cluster IP. Says so, and why not if that fails. */
void table_give_way(struct table *table, const struct frontend *frontend,
                    struct nft_socket *socket);

/** What came from the monitor (netlink/table_monitor.h); table_foreign_lost() if events were lost.
 * It is put right by turns that follow. */
void table_foreign_change(struct table *table, const struct table_change *change);
void table_foreign_lost(struct table *table);
void table_foreign_settled(struct table *table, const struct table_program *program);

/** Whether all was committed at least once, be it without what the kernel refuses. */
bool table_is_programmed(const struct table *table);

/**
 * Whether the kernel holds all that has come so far, but for what it refused: nothing waits for a
 * commit, for the repair of what another program changed, or for a later turn. /programmed and
 * readiness speak of that; health checks, stale flows and programming times ask for each frontend
 * (ruleset_is_waiting()).
 */
bool table_is_in_force(const struct table *table);

/** Whether a change has waited for so long that the proxy counts as unhealthy
 * (docs/behaviour.md 6.2): twice the sync period. */
bool table_is_overdue(const struct table *table, double now);

/* How it does. */
struct table_view {
    double waiting;      /* seconds that a change has waited to be in force; 0: none does */
    double last_updated; /* the last success, or the start; seconds since 1970 */
    const char *failure; /* why it waits, as it was logged; NULL: it does not; borrowed */
    uint64_t repairs;    /* commits that put right what a program was seen doing */
    uint64_t drift;      /* elements that were sent to put right what an audit found */
    uint64_t audits;     /* times that all of it was looked through */
};
void table_view(const struct table *table, double now, struct table_view *view);

#endif
