/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the kernel rejects is quarantined: its entry stays as applied, and everything else goes on.
 * A quarantined entry is never dirty, until its retry is due or its desired state changes.
 */
#ifndef KUBE_NFTD_TABLE_QUARANTINE_H
#define KUBE_NFTD_TABLE_QUARANTINE_H

#include "entry.h"

struct ruleset;

/* An entry rejected by the kernel. */
struct rejection {
    struct entry *entry;
    double wait, retry_time; /* seconds; clock_monotonic, while quarantined */
};

/* Starts zeroed. */
struct quarantine {
    VEC(struct rejection) all;
    double next;     /* time of the first retry; clock_monotonic, or 0 */
    size_t n_plain;  /* plain elements among all */
    bool ports_left; /* frontends may have waited for a service port that left */
};

/**
 * Quarantines what the kernel rejected of the ruleset's batch, of which nothing is applied. True if
 * something was quarantined: retry the rest at once. Errors that mean unexpected table contents or
 * a lack of resources blame no element; other errors may just be consequences of them.
 * @singly  each element had its own message; only then the kernel names all elements that it
 *          rejects
 */
bool quarantine_take(struct ruleset *rs, double now, bool singly);

/** Releases planned affinity numbers: the applied backends of @port have them, no others. None
 * have while the table is read. */
void port_keep_affinity(struct ruleset *rs, struct port_entry *port);

/** Makes quarantined elements due at @now desired again, one portion at most. */
void quarantine_retry(struct ruleset *rs, double now);

/** Takes @entry, which is about to become dirty, out of quarantine. */
void quarantine_leave(struct ruleset *rs, struct entry *entry);

/** Sorts planned dirty entries: those that need more room in the kernel come last, so that a full
 * set rejects only these. */
void quarantine_sort_dirty(struct ruleset *rs);

/** The kernel accepted @entry, or it is about to be freed; a commit has ended. */
void quarantine_end(struct ruleset *rs, struct entry *entry);
void quarantine_applied(struct ruleset *rs);
void quarantine_free(struct ruleset *rs);

#endif
