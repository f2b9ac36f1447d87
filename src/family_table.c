/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "kube-nftd/family_table.h"

#include "kube-nftd/base/clock.h"
#include "kube-nftd/base/log.h"
#include "kube-nftd/ruleset/give_way.h"

#include <math.h>
#include <string.h>

/* kube-proxy's syncPeriod. A change that waits for twice as long makes the proxy unhealthy. */
#define DEFAULT_SYNC_PERIOD 30.0
/* Waits before a failed commit is tried again: doubled each time, up to kube-proxy's syncPeriod;
 * with a new change, no longer than its minSyncPeriod. */
#define RETRY_FIRST 0.1
#define RETRY_CHANGED 1.0
/* How often to ask whether the other program that owns the table is gone: nothing tells of it. */
#define OWNER_POLL 0.2
/* How often to look at the rules before the first programming, and after another program was seen
 * changing them. */
#define KEEP_PERIOD 2.0
#define KEEP_PAUSE 0.1

void family_table_init(struct family_table *family, double sync_period)
{
    *family = (struct family_table){
        .last_updated = clock_realtime(),
        .sync_period = sync_period > 0 ? sync_period : DEFAULT_SYNC_PERIOD,
    };
    sync_figures_init(&family->syncs, family->last_updated);
}

void family_table_clear(struct family_table *family)
{
    sync_figures_clear(&family->syncs);
    ruleset_free(family->ruleset);
    free(family->said);
}

/* Each failure once. */
static void say_failure(struct family_table *family, const char *name, const char *text)
{
    if (family->said && strcmp(family->said, text) == 0)
        return;
    if (ruleset_is_owned_elsewhere(family->ruleset))
        log_warn("proxy", "family=%s waiting for the table's owner to exit: %s", name, text);
    else
        log_error("proxy", "family=%s sync failed, the previous rules stay active: %s", name, text);
    free(family->said);
    family->said = xstrdup(text);
}

static double wait_after_failure(const struct family_table *family)
{
    return ruleset_is_owned_elsewhere(family->ruleset)
               ? OWNER_POLL
               : fmin(fmax(2 * family->retry_wait, RETRY_FIRST), family->sync_period);
}

static void wait_from(struct family_table *family, double now)
{
    if (family->waiting_since == 0)
        family->waiting_since = now;
}

static void commit_failed(struct family_table *family, const char *name, double now,
                          struct error *err)
{
    say_failure(family, name, err->text);
    wait_from(family, now);
    family->retry_wait = wait_after_failure(family);
    family->retry_time = now + family->retry_wait;
    family->failed_time = now;
    error_clear(err);
}

/* A change waits for as long as some of it is not in the kernel. */
static void note_waiting(struct family_table *family, double now)
{
    if (ruleset_is_filling(family->ruleset))
        wait_from(family, now);
    else
        family->waiting_since = 0;
}

static void commit_succeeded(struct family_table *family, const char *name,
                             const struct ruleset_stats *stats)
{
    if (!family->programmed || family->said)
        log_info("proxy", "family=%s applied frontends=%zu added=%zu deleted=%zu seconds=%.6f",
                 name, ruleset_frontends(family->ruleset), stats->elements_added,
                 stats->elements_deleted, stats->seconds);
    else if (stats->bytes)
        log_debug(2, "proxy", "family=%s committed %sadded=%zu deleted=%zu bytes=%zu seconds=%.6f",
                  name, family->about ? family->about : "", stats->elements_added,
                  stats->elements_deleted, stats->bytes, stats->seconds);
    family->last_updated = clock_realtime();
    family->retry_wait = family->retry_time = family->failed_time = 0;
    free(family->said);
    family->said = NULL;
}

/* After a turn in which nothing failed. What came in several parts is in force with the last one,
 * for which there may have been nothing to commit. */
static void note_success(struct family_table *family, bool committed)
{
    bool more = family->more_to_come || ruleset_is_filling(family->ruleset);
    if (!more && (committed || family->partly))
        sync_figures_succeeded(&family->syncs, family->last_updated);
    family->partly = more && (committed || family->partly);
}

/* When a failed family is tried again: a new change makes it sooner (docs/behaviour.md 9.4). */
static double next_try(const struct family_table *family)
{
    double soon = family->failed_time + RETRY_CHANGED;
    return family->changed && soon < family->retry_time ? soon : family->retry_time;
}

/* One sync, as sync_figures.h says. */
static int sync_family(struct family_table *family, struct nft_socket *socket, double now,
                       struct ruleset_stats *stats, struct error *err)
{
    bool full = !ruleset_knows_kernel(family->ruleset);
    double begin = clock_monotonic();
    int result = ruleset_commit(family->ruleset, socket, now, stats, err);
    if (result && ruleset_is_owned_elsewhere(family->ruleset))
        return result; /* nothing was tried */
    sync_figures_count(&family->syncs, full, clock_monotonic() - begin, result ? NULL : stats);
    return result;
}

/* A commit that fails because the table is not as it was believed to be goes through when the
 * table has been read back, so that is done at once. */
static int commit(struct family_table *family, const char *name, struct nft_socket *socket,
                  double now, struct ruleset_stats *stats, struct error *err)
{
    bool believed = ruleset_knows_kernel(family->ruleset);
    family->changed = false;
    if (sync_family(family, socket, now, stats, err) == 0)
        return 0;
    if (!believed)
        return -1;
    log_warn("proxy", "family=%s reading the table back: %s", name, err->text);
    error_clear(err);
    return sync_family(family, socket, now, stats, err);
}

/* The time of the last change that there was something to do for. */
static void count_queued(struct family_table *family, double now)
{
    if (family->queued && ruleset_needs_commit(family->ruleset, now))
        sync_figures_queued(&family->syncs, clock_realtime());
    family->queued = false;
}

double family_table_turn(struct family_table *family, const char *name, struct nft_socket *socket,
                         double now)
{
    if (!family->ruleset)
        return 0;
    count_queued(family, now);
    if (next_try(family) > now)
        return next_try(family);
    double held = table_guard_check(&family->guard, family->ruleset, socket, now, family->changed);
    if (held > now) { /* a repair waits, and with it all that has come since */
        wait_from(family, now);
        return held;
    }
    bool commits = ruleset_needs_commit(family->ruleset, now);
    if (commits) {
        struct error err = {0};
        struct ruleset_stats stats;
        double begin = clock_monotonic();
        if (commit(family, name, socket, now, &stats, &err)) {
            commit_failed(family, name, now, &err);
            return next_try(family);
        }
        commit_succeeded(family, name, &stats);
        table_guard_committed(&family->guard, name, family->ruleset, &stats, begin);
    }
    note_waiting(family, now);
    note_success(family, commits);
    family->programmed = family->programmed || family_table_is_in_force(family);
    if (ruleset_is_filling(family->ruleset))
        return now;
    return clock_earlier(
        clock_earlier(ruleset_trim_time(family->ruleset), ruleset_collect_time(family->ruleset)),
        ruleset_retry_time(family->ruleset));
}

/* ---- before the first programming ---- */

static void mend(struct family_table *family, const char *name, struct nft_socket *socket)
{
    struct error err = {0};
    bool mended;
    if (ruleset_mend(family->ruleset, socket, &mended, &err))
        log_debug(1, "proxy", "family=%s the rules of the previous process were not checked: %s",
                  name, err.text);
    error_clear(&err);
    if (!mended)
        return;
    family->guard.repairs++;
    log_warn("guard",
             "family=%s repaired the rules of the previous process, which had been changed", name);
}

void family_table_give_way(struct family_table *family, const struct frontend *frontend,
                           struct nft_socket *socket)
{
    struct error err = {0};
    char text[FRONTEND_TEXT_SIZE];
    bool gave = false;
    if (!family->ruleset)
        return;
    if (ruleset_give_way(family->ruleset, socket, frontend, &gave, &err))
        log_warn("proxy", "frontend=%s of the previous process cannot be withdrawn: %s",
                 frontend_format(frontend, text), err.text);
    error_clear(&err);
    if (gave)
        log_warn("proxy",
                 "frontend=%s of the previous process is withdrawn: the API server uses that "
                 "address and port, and is not connected",
                 frontend_format(frontend, text));
}

double family_table_keep(struct family_table *family, const char *name, struct nft_socket *socket,
                         double now)
{
    if (!family->ruleset)
        return 0;
    double due = family->kept + (family->look_again ? KEEP_PAUSE : KEEP_PERIOD);
    if (family->kept > 0 && now < due)
        return due;
    family->kept = now;
    family->look_again = false;
    mend(family, name, socket);
    return now + KEEP_PERIOD;
}

bool family_table_is_in_force(const struct family_table *family)
{
    return family->waiting_since == 0 && !family->more_to_come;
}

double family_table_waiting(const struct family_table *family, double now)
{
    return family->waiting_since == 0 ? 0 : now - family->waiting_since;
}

bool family_table_is_overdue(const struct family_table *family, double now)
{
    return family_table_waiting(family, now) >= 2 * family->sync_period;
}
