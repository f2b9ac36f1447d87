/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "kube-nftd/table.h"

#include "audit.h"
#include "connections.h"
#include "guard.h"
#include "kube-nftd/base.h"
#include "previous_table.h"

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

struct table {
    enum family family;
    struct ruleset *ruleset;
    double sync_period, audit_period;           /* seconds */
    bool programmed;                            /* committed at least once */
    bool more_to_come;                          /* see table_turn() */
    bool partly;                                /* there was more to come at the last commit */
    double waiting_since;                       /* a change waits to be committed; or 0 */
    double last_updated;                        /* see struct table_view */
    double retry_wait, retry_time, failed_time; /* 0 while nothing failed */
    bool changed;                               /* since the last try */
    bool queued;                                /* a change that was not counted as one yet */
    char *said;                                 /* the failure that was logged last */
    struct sync_figures syncs;
    struct guard guard;
    struct audit audit;
    double kept;     /* when table_keep() looked last; 0: never */
    bool look_again; /* another program was seen changing the table since */
};

struct table *table_new(const struct table_config *config, struct error *err)
{
    struct table *table = xcalloc(1, sizeof(*table));
    table->family = config->family;
    table->last_updated = clock_realtime();
    table->sync_period = config->sync_period > 0 ? config->sync_period : DEFAULT_SYNC_PERIOD;
    table->audit_period = config->audit_period;
    sync_figures_init(&table->syncs, table->last_updated);
    table->ruleset = ruleset_new(config->family, &config->ruleset, err);
    if (table->ruleset)
        return table;
    table_free(table);
    return NULL;
}

void table_free(struct table *table)
{
    if (!table)
        return;
    audit_stop(&table->audit);
    sync_figures_clear(&table->syncs);
    ruleset_free(table->ruleset);
    free(table->said);
    free(table);
}

const struct ruleset *table_ruleset(const struct table *table)
{
    return table->ruleset;
}

struct ruleset *table_changing(struct table *table)
{
    table->changed = table->queued = true;
    return table->ruleset;
}

struct sync_figures *table_syncs(struct table *table)
{
    return &table->syncs;
}

/* ---- commits ---- */

/* Each failure once. */
static void say_failure(struct table *table, const char *text)
{
    if (table->said && strcmp(table->said, text) == 0)
        return;
    if (ruleset_is_owned_elsewhere(table->ruleset))
        log_warn("proxy", "family=%s waiting for the table's owner to exit: %s",
                 family_name(table->family), text);
    else
        log_error("proxy", "family=%s sync failed, the previous rules stay active: %s",
                  family_name(table->family), text);
    free(table->said);
    table->said = xstrdup(text);
}

static double wait_after_failure(const struct table *table)
{
    return ruleset_is_owned_elsewhere(table->ruleset)
               ? OWNER_POLL
               : fmin(fmax(2 * table->retry_wait, RETRY_FIRST), table->sync_period);
}

static void wait_from(struct table *table, double now)
{
    if (table->waiting_since == 0)
        table->waiting_since = now;
}

static void commit_failed(struct table *table, double now, struct error *err)
{
    say_failure(table, err->text);
    wait_from(table, now);
    table->retry_wait = wait_after_failure(table);
    table->retry_time = now + table->retry_wait;
    table->failed_time = now;
    error_clear(err);
}

/* A change waits for as long as some of it is not in the kernel. */
static void note_waiting(struct table *table, double now)
{
    if (ruleset_is_filling(table->ruleset))
        wait_from(table, now);
    else
        table->waiting_since = 0;
}

static void commit_succeeded(struct table *table, const char *about,
                             const struct ruleset_stats *stats)
{
    if (!table->programmed || table->said)
        log_info("proxy", "family=%s applied frontends=%zu added=%zu deleted=%zu seconds=%.6f",
                 family_name(table->family), ruleset_frontends(table->ruleset),
                 stats->elements_added, stats->elements_deleted, stats->seconds);
    else if (stats->bytes)
        log_debug(2, "proxy", "family=%s committed %sadded=%zu deleted=%zu bytes=%zu seconds=%.6f",
                  family_name(table->family), about ? about : "", stats->elements_added,
                  stats->elements_deleted, stats->bytes, stats->seconds);
    table->last_updated = clock_realtime();
    table->retry_wait = table->retry_time = table->failed_time = 0;
    free(table->said);
    table->said = NULL;
}

/* After a turn in which nothing failed. What came in several parts is in force with the last one,
 * for which there may have been nothing to commit. */
static void note_success(struct table *table, bool committed)
{
    bool more = table->more_to_come || ruleset_is_filling(table->ruleset);
    if (!more && (committed || table->partly))
        sync_figures_succeeded(&table->syncs, table->last_updated);
    table->partly = more && (committed || table->partly);
}

/* When a failed family is tried again: a new change makes it sooner (docs/behaviour.md 9.4). */
static double next_try(const struct table *table)
{
    double soon = table->failed_time + RETRY_CHANGED;
    return table->changed && soon < table->retry_time ? soon : table->retry_time;
}

/* One sync, as sync_figures.h says. */
static int sync_table(struct table *table, struct nft_socket *socket, double now,
                      struct ruleset_stats *stats, struct error *err)
{
    bool full = !ruleset_knows_kernel(table->ruleset);
    double begin = clock_monotonic();
    int result = ruleset_commit(table->ruleset, socket, now, stats, err);
    if (result && ruleset_is_owned_elsewhere(table->ruleset))
        return result; /* nothing was tried */
    sync_figures_count(&table->syncs, full, clock_monotonic() - begin, result ? NULL : stats);
    return result;
}

/* A commit that fails because the table is not as it was believed to be goes through when the
 * table has been read back, so that is done at once. */
static int commit(struct table *table, struct nft_socket *socket, double now,
                  struct ruleset_stats *stats, struct error *err)
{
    bool believed = ruleset_knows_kernel(table->ruleset);
    table->changed = false;
    if (sync_table(table, socket, now, stats, err) == 0)
        return 0;
    if (!believed)
        return -1;
    log_warn("proxy", "family=%s reading the table back: %s", family_name(table->family),
             err->text);
    error_clear(err);
    return sync_table(table, socket, now, stats, err);
}

/* The time of the last change that there was something to do for. */
static void count_queued(struct table *table, double now)
{
    if (table->queued && ruleset_needs_commit(table->ruleset, now))
        sync_figures_queued(&table->syncs, clock_realtime());
    table->queued = false;
}

/* Commits, if it is time. Returns when it is to be looked at again, or 0. */
static double keep_up(struct table *table, const char *about, struct nft_socket *socket, double now)
{
    count_queued(table, now);
    if (next_try(table) > now)
        return next_try(table);
    double held = guard_check(&table->guard, table->ruleset, socket, now, table->changed);
    if (held > now) { /* a repair waits, and with it all that has come since */
        wait_from(table, now);
        return held;
    }
    bool commits = ruleset_needs_commit(table->ruleset, now);
    if (commits) {
        struct error err = {0};
        struct ruleset_stats stats;
        double begin = clock_monotonic();
        if (commit(table, socket, now, &stats, &err)) {
            commit_failed(table, now, &err);
            return next_try(table);
        }
        commit_succeeded(table, about, &stats);
        guard_committed(&table->guard, family_name(table->family), table->ruleset, &stats, begin);
    }
    note_waiting(table, now);
    note_success(table, commits);
    table->programmed = table->programmed || table_is_in_force(table);
    if (ruleset_is_filling(table->ruleset))
        return now;
    return ruleset_due(table->ruleset);
}

/* The next piece of an audit, if it is time. Returns when the one behind it is due, or 0. */
static double audit(struct table *table, struct nft_socket *socket, double now)
{
    if (table->audit_period <= 0 || !table->programmed)
        return 0;
    bool found = false;
    double next =
        audit_turn(&table->audit, table->ruleset, socket, table->audit_period, now, &found);
    if (found)
        guard_audited(&table->guard, now);
    return next;
}

double table_turn(struct table *table, bool more_to_come, const char *about,
                  struct nft_socket *socket, double now)
{
    table->more_to_come = more_to_come;
    double next = audit(table, socket, now);
    if (table->programmed)
        next = clock_earlier(next, connections_turn(table->ruleset, socket, now));
    return clock_earlier(next, keep_up(table, about, socket, now));
}

bool table_read_connections(struct table *table, double since)
{
    return ruleset_read_connections(table->ruleset, since);
}

/* ---- other programs ---- */

/* Before the first programming nothing is ours. */
void table_foreign_change(struct table *table, const struct table_change *change)
{
    if (table->programmed)
        guard_changed(&table->guard, table->ruleset, change);
    else
        table->look_again = true;
}

void table_foreign_lost(struct table *table)
{
    if (table->programmed)
        guard_lost(&table->guard, table->ruleset);
    else
        table->look_again = true;
}

void table_foreign_settled(struct table *table, const struct table_program *program)
{
    guard_settled(&table->guard, program);
}

/* ---- before the first programming ---- */

static void mend(struct table *table, struct nft_socket *socket)
{
    struct error err = {0};
    bool mended;
    if (ruleset_mend(table->ruleset, socket, &mended, &err))
        log_debug(1, "proxy", "family=%s the rules of the previous process were not checked: %s",
                  family_name(table->family), err.text);
    error_clear(&err);
    if (!mended)
        return;
    table->guard.repairs++;
    log_warn("guard",
             "family=%s repaired the rules of the previous process, which had been changed",
             family_name(table->family));
}

void table_give_way(struct table *table, const struct frontend *frontend, struct nft_socket *socket)
{
    struct error err = {0};
    char text[FRONTEND_TEXT_SIZE];
    bool gave = false;
    if (ruleset_give_way(table->ruleset, socket, frontend, &gave, &err))
        log_warn("proxy", "frontend=%s of the previous process cannot be withdrawn: %s",
                 frontend_format(frontend, text), err.text);
    error_clear(&err);
    if (gave)
        log_warn("proxy",
                 "frontend=%s of the previous process is withdrawn: the API server uses that "
                 "address and port, and is not connected",
                 frontend_format(frontend, text));
}

double table_keep(struct table *table, struct nft_socket *socket, double now)
{
    double due = table->kept + (table->look_again ? KEEP_PAUSE : KEEP_PERIOD);
    if (table->kept > 0 && now < due)
        return due;
    table->kept = now;
    table->look_again = false;
    mend(table, socket);
    return now + KEEP_PERIOD;
}

/* ---- how it does ---- */

bool table_is_programmed(const struct table *table)
{
    return table->programmed;
}

bool table_is_in_force(const struct table *table)
{
    return table->waiting_since == 0 && !table->more_to_come;
}

static double waiting(const struct table *table, double now)
{
    return table->waiting_since == 0 ? 0 : now - table->waiting_since;
}

void table_view(const struct table *table, double now, struct table_view *view)
{
    *view = (struct table_view){.in_use = false};
    if (!table)
        return;
    const struct ruleset_figures *figures = ruleset_figures(table->ruleset);
    *view = (struct table_view){.in_use = true,
                                .programmed = table->programmed,
                                .overdue = waiting(table, now) >= 2 * table->sync_period,
                                .waiting = waiting(table, now),
                                .last_updated = table->last_updated,
                                .failure = table_is_in_force(table) ? NULL : table->said,
                                .repairs = table->guard.repairs,
                                .drift = table->guard.drift,
                                .audits = table->audit.ended,
                                .frontends = ruleset_frontends(table->ruleset),
                                .refused = figures->refused + figures->left_out,
                                .lost = ruleset_is_lost(table->ruleset),
                                .ruleset = table->ruleset,
                                .syncs = &table->syncs,
                                .table = figures};
}
