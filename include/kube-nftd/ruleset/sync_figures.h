/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What is counted of one family's syncs, in kube-proxy's terms (docs/behaviour.md 7, 9.2 to 9.4).
 *
 * A sync is one try to make the kernel's table of the family what is wanted: read it back if it is
 * not known, compute the difference, send it as one transaction if there is any. It is full if the
 * table had to be read back, that is for the first programming and after each failure, and partial
 * otherwise. So a refused partial sync and the full one that makes up for it in the same turn are
 * two. The later transaction that deletes what packets may just still have looked up (see
 * ruleset.h) is a partial sync as well, as it is for kube-proxy, who deletes chains later.
 *
 * kube-proxy's time of a sync holds the work on Services and endpoints, too. Here that is done once
 * for both families, before; it is not in it.
 */
#ifndef KUBE_NFTD_SYNC_FIGURES_H
#define KUBE_NFTD_SYNC_FIGURES_H

#include "kube-nftd/base/histogram.h"
#include "kube-nftd/base/vec.h"
#include "kube-nftd/policy/policy.h"
#include "kube-nftd/ruleset/ruleset.h"

#include <stdbool.h>

/* So many trigger times wait for a sync to succeed; those of further changes are not sampled. */
#define SYNC_TRIGGERS_MOST 65536

/* When what made a slice another one happened. */
struct sync_trigger {
    const char *service_id; /* of the slice, interned; or NULL */
    double time;            /* seconds since 1970 */
};

struct sync_figures {
    struct histogram all, full, partial; /* seconds of syncs, failed ones too */
    struct histogram programming;        /* seconds from the trigger to the sync's success */
    VEC(struct sync_trigger) triggers;   /* not applied yet */
    double started;                      /* seconds since 1970; triggers before do not count */
    double last_success, last_queued;    /* likewise; 0: never */
    uint64_t failures;
    uint64_t transactions; /* that the kernel took; the next ones are of them */
    uint64_t elements_added, elements_deleted;
    uint64_t bytes;
    double seconds; /* inside the kernel */
    size_t last_bytes;
    double last_seconds;
    struct ports_without_local without_local; /* as of the last success */
};

/** No sync yet; the loop begins at @now. Release with sync_figures_clear(). */
void sync_figures_init(struct sync_figures *figures, double now);
void sync_figures_clear(struct sync_figures *figures);

/** A change asks for a sync at @now (seconds since 1970). */
void sync_figures_queued(struct sync_figures *figures, double now);

/** A slice of @service_id (NULL: of none) whose trigger time is @trigger, 0 for none, became
 * another. */
void sync_figures_triggered(struct sync_figures *figures, const char *service_id, double trigger);

/** A sync took @seconds. @sent is what it sent, zeros if that was nothing; NULL: it failed. */
void sync_figures_count(struct sync_figures *figures, bool full, double seconds,
                        const struct ruleset_stats *sent);

/** A sync succeeded at @now (seconds since 1970). */
void sync_figures_succeeded(struct sync_figures *figures, double now);

/** All triggers so far are applied at @now, but those of Services that wait; with @waits NULL,
 * all. Those of slices that made no difference needed no sync, where kube-proxy makes one. */
void sync_figures_in_force(struct sync_figures *figures, double now,
                           bool (*waits)(const void *ctx, const char *service_id,
                                         enum family family),
                           const void *ctx, enum family family);

#endif
