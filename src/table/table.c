/* SPDX-License-Identifier: GPL-2.0-or-later */
/* One family's table and its timing. */
#include "audit.h"
#include "fill.h"
#include "foreign.h"
#include "previous_table.h"

#include <math.h>
#include <string.h>

/* kube-proxy's syncPeriod. A change that waits twice as long makes the proxy unhealthy. */
#define DEFAULT_SYNC_PERIOD 30.0
/* Waits after a failed commit: doubled each time, up to kube-proxy's syncPeriod; with a new change,
 * at most CHANGE_RETRY. */
#define RETRY_FIRST 0.1
/* How often to check whether the program that owns the table is gone: no event reports it. */
#define OWNER_POLL 0.2

/* A sync, from the first reading or commit for it to its success or failure. */
struct attempt {
    bool reads;   /* the table was, or is being, read for it */
    double spent; /* seconds, reading included */
    struct commit_stats sent;
};

/* What follows a failed attempt; zeros without one. */
struct retry {
    double wait, time; /* seconds; when it is due */
    double failed;     /* when the last attempt did */
    char *logged;      /* the last logged failure */
};

struct table {
    enum family family;
    struct ruleset *ruleset;
    double sync_period, audit_period;
    bool programmed;      /* committed at least once */
    bool more_to_come;    /* see table_sync() */
    bool partly;          /* more was to come at the last commit */
    bool changed;         /* since the last attempt */
    bool queued;          /* a change that is not counted yet */
    bool may_be_applied;  /* some or all of a commit that failed since the table was known */
    double waiting_since; /* a change waits for a commit; or 0 */
    double last_updated;  /* see struct table_view */
    struct attempt attempt;
    struct retry retry;
    struct protection protection;
    struct sync_metrics syncs;
    struct foreign foreign;
    struct audit audit;
    double room_due; /* next look at sets that packets write */
};

struct table *table_new(const struct table_config *config, struct error *err)
{
    struct table *table = xcalloc(1, sizeof(*table));
    table->family = config->family;
    table->last_updated = clock_realtime();
    table->sync_period = config->sync_period > 0 ? config->sync_period : DEFAULT_SYNC_PERIOD;
    table->audit_period = config->audit_period;
    sync_metrics_init(&table->syncs, table->last_updated);
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
    sync_metrics_clear(&table->syncs);
    ruleset_free(table->ruleset);
    free(table->retry.logged);
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

void table_set_devices(struct table *table, const device_vec *devices)
{
    if (table->ruleset->config.flowtable)
        ruleset_set_devices(table->ruleset, devices);
}

struct sync_metrics *table_syncs(struct table *table)
{
    return &table->syncs;
}

/* ---- changes by other programs ---- */

/* Before the first programming the ruleset does not own the table, except for what it has read. */
static bool follows_changes(const struct table *table)
{
    return table->programmed || table->attempt.reads;
}

/* A change, or several that were lost. */
static bool hear(struct table *table)
{
    table->protection.look_again = !table->programmed;
    foreign_heard(&table->foreign);
    return follows_changes(table);
}

void table_foreign_change(struct table *table, const struct table_change *change)
{
    if (!hear(table))
        return;
    if (change->set)
        ruleset_recheck_element(table->ruleset, change->set, change->element);
    else
        ruleset_recheck_rules(table->ruleset);
}

void table_foreign_lost(struct table *table)
{
    if (hear(table))
        ruleset_recheck_all(table->ruleset);
}

void table_foreign_finished(struct table *table, const struct table_program *program)
{
    if (follows_changes(table))
        foreign_finished(&table->foreign, program, clock_monotonic());
}

/* ---- commits ---- */

/* Changes wait. Returns @until. */
static double wait_until(struct table *table, double now, double until)
{
    if (table->waiting_since == 0)
        table->waiting_since = now;
    return until;
}

/* Logs each failure once. @may_be_applied: see struct commit_stats. */
static void commit_failed(struct table *table, double now, bool may_be_applied, struct error *err)
{
    const bool owned = table->ruleset->state == TABLE_OWNED_ELSEWHERE;
    if (!table->retry.logged || strcmp(table->retry.logged, err->text) != 0) {
        if (owned)
            log_warn("table", "family=%s waiting for the table's owner to exit: %s",
                     family_name(table->family), err->text);
        else
            log_error("table", "family=%s sync failed, %s: %s", family_name(table->family),
                      may_be_applied ? "but some or all of it may be applied"
                                     : "the previous rules stay active",
                      err->text);
        free(table->retry.logged);
        table->retry.logged = xstrdup(err->text);
    }
    wait_until(table, now, 0);
    table->retry.wait =
        owned ? OWNER_POLL : fmin(fmax(2 * table->retry.wait, RETRY_FIRST), table->sync_period);
    table->retry.time = now + table->retry.wait;
    table->retry.failed = now;
    error_clear(err);
}

static void commit_succeeded(struct table *table, const char *about,
                             const struct commit_stats *stats)
{
    if (!table->programmed || table->retry.logged)
        log_info("table", "family=%s applied frontends=%zu added=%zu deleted=%zu seconds=%.6f",
                 family_name(table->family), ruleset_frontends(table->ruleset),
                 stats->elements_added, stats->elements_deleted, stats->seconds);
    else if (stats->bytes)
        log_debug(2, "table", "family=%s committed %sadded=%zu deleted=%zu bytes=%zu seconds=%.6f",
                  family_name(table->family), about ? about : "", stats->elements_added,
                  stats->elements_deleted, stats->bytes, stats->seconds);
    table->last_updated = clock_realtime();
    free(table->retry.logged);
    table->retry = (struct retry){.logged = NULL};
}

/* When to retry a failed family: a new change brings it forward (docs/behaviour.md 9.4). */
static double next_try(const struct table *table)
{
    const double soon = table->retry.failed + CHANGE_RETRY;
    return table->changed && soon < table->retry.time ? soon : table->retry.time;
}

/* An attempt ended; not one that waited for the table's owner. */
static void count_sync(struct table *table, int result)
{
    if (result == 0 || table->ruleset->state != TABLE_OWNED_ELSEWHERE)
        sync_metrics_count(&table->syncs, table->attempt.reads, table->attempt.spent,
                           result ? NULL : &table->attempt.sent);
    table->attempt.spent = 0;
    table->attempt.sent = (struct commit_stats){.bytes = 0};
}

/* A change waits until all of it is in the kernel. Changes in several parts are applied with the
 * last part, which may itself need no commit. */
static void after_success(struct table *table, bool committed)
{
    table->waiting_since = 0;
    if (!table->more_to_come && (committed || table->partly))
        table->syncs.last_success = table->last_updated;
    table->partly = table->more_to_come && (committed || table->partly);
    table->programmed = table->programmed || table_is_applied(table);
}

/* Reads the next piece of the table. */
static enum adoption_result read_some(struct table *table, struct nft_socket *socket, double now,
                                      struct error *err)
{
    const double begin = clock_monotonic();
    table->attempt.reads = true;
    const enum adoption_result result =
        ruleset_adopt(table->ruleset, socket, now, ADOPTION_PIECE, err);
    table->attempt.spent += clock_monotonic() - begin;
    if (result == ADOPTION_FAILED)
        count_sync(table, -1);
    return result;
}

static void add_sent(struct commit_stats *to, const struct commit_stats *more)
{
    to->elements_added += more->elements_added;
    to->elements_deleted += more->elements_deleted;
    to->bytes += more->bytes;
    to->seconds += more->seconds;
}

/* Commits. A failure because the table differed from the applied state makes it unknown: a first
 * one is followed by a read-back, once events had the time to tell whose change it is. */
static int commit(struct table *table, const char *about, struct nft_socket *socket, double now,
                  struct error *err)
{
    struct commit_stats stats;
    const double begin = clock_monotonic();
    const int result = ruleset_commit(table->ruleset, socket, now, &stats, err);
    const bool filling = result == 0 && ruleset_is_filling(table->ruleset);
    table->attempt.spent += clock_monotonic() - begin;
    table->may_be_applied = filling || (result && (table->may_be_applied || stats.may_be_applied));
    add_sent(&table->attempt.sent, &stats);
    if (filling)
        return 0;
    const struct commit_stats sent = table->attempt.sent;
    const double spent = table->attempt.spent;
    count_sync(table, result);
    if (result && (table->attempt.reads || ruleset_knows_kernel(table->ruleset)))
        return -1; /* for lack of memory, nothing has changed */
    if (result) {
        log_warn("table", "family=%s reading the table back: %s", family_name(table->family),
                 err->text);
        error_clear(err);
        foreign_refused(&table->foreign, now);
        return 0;
    }
    table->attempt.reads = false;
    commit_succeeded(table, about, &sent);
    foreign_repaired(&table->foreign, table->ruleset, &sent, spent);
    return 0;
}

/* Reads the table if it is unknown, and commits. Returns the time of the next call, or 0. */
static double make_equal(struct table *table, const char *about, struct nft_socket *socket,
                         double now)
{
    struct error err = {0};
    enum adoption_result reading = ADOPTION_ENDED;
    table->changed = false;
    do {
        if (!ruleset_knows_kernel(table->ruleset))
            reading = read_some(table, socket, now, &err);
        if (reading == ADOPTION_GOES_ON ||
            (reading == ADOPTION_ENDED && foreign_waits(&table->foreign)))
            return wait_until(table, now, now);
        if (reading == ADOPTION_FAILED || commit(table, about, socket, now, &err)) {
            table->attempt.reads = false;
            commit_failed(table, now, table->may_be_applied, &err);
            return next_try(table);
        }
        if (ruleset_is_filling(table->ruleset))
            return wait_until(table, now, now);
        if (foreign_waits(&table->foreign)) /* refused */
            return wait_until(table, now, table->foreign.grace);
    } while (!ruleset_knows_kernel(table->ruleset));
    after_success(table, true);
    return ruleset_due(table->ruleset);
}

/* Commits if due. Returns the time of the next call, or 0. */
static double keep_up(struct table *table, const char *about, struct nft_socket *socket, double now)
{
    if (table->queued && ruleset_needs_commit(table->ruleset, now))
        table->syncs.last_queued = clock_realtime(); /* the last change that needs a sync */
    table->queued = false;
    if (next_try(table) > now)
        return next_try(table);
    const double until =
        foreign_check(&table->foreign, table->ruleset, socket, table->changed, now);
    if (until > now) /* a repair waits, and all later changes with it */
        return wait_until(table, now, until);
    if (table->attempt.reads || ruleset_needs_commit(table->ruleset, now))
        return make_equal(table, about, socket, now);
    after_success(table, false);
    return ruleset_due(table->ruleset);
}

/* Runs the next piece of an audit, if due. Returns when the next is due, or 0. */
static double audit(struct table *table, struct nft_socket *socket, double now)
{
    bool found = false;
    if (table->audit_period <= 0 || !table->programmed)
        return 0;
    const double next =
        audit_step(&table->audit, table->ruleset, socket, table->audit_period, now, &found);
    if (found)
        foreign_audited(&table->foreign, now);
    return next;
}

/* Looks for full sets, if due. Returns when the next look is, or 0. */
static double check_room(struct table *table, struct nft_socket *socket, double now)
{
    struct ruleset *rs = table->ruleset;
    const bool in_use = rs->config.counting != COUNT_NOTHING ||
                        instances_have(&rs->instances, (struct instance){TEMPLATE_AFFINITY, 0});
    if (!ruleset_has_table(rs))
        return 0; /* a commit is to come */
    if (now < table->room_due)
        return in_use ? table->room_due : 0;
    affinity_count_records(rs, socket);
    connections_check_room(rs, socket);
    table->room_due = now + (rs->uncounted ? FILL_PERIOD_UNCOUNTED : FILL_PERIOD);
    return in_use ? table->room_due : 0;
}

double table_sync(struct table *table, bool more_to_come, const char *about,
                  struct nft_socket *socket, double now)
{
    table->more_to_come = more_to_come;
    double next = audit(table, socket, now);
    if (table->programmed)
        next = clock_earlier(next, connections_step(table->ruleset, socket, now));
    next = clock_earlier(next, keep_up(table, about, socket, now));
    next = clock_earlier(next, flowtable_sync(table->ruleset, socket, now));
    return table->programmed ? clock_earlier(next, check_room(table, socket, now)) : next;
}

bool table_read_connections(struct table *table, double since)
{
    return ruleset_read_connections(table->ruleset, since);
}

/* ---- before the first programming ---- */

double table_protect(struct table *table, struct nft_socket *socket, double now)
{
    return protection_step(&table->protection, table->ruleset, socket, now,
                           &table->foreign.repairs);
}

void table_withdraw(struct table *table, const struct frontend *frontend, struct nft_socket *socket)
{
    ruleset_withdraw(table->ruleset, socket, frontend);
}

/* ---- status ---- */

bool table_is_programmed(const struct table *table)
{
    return table->programmed;
}

bool table_is_applied(const struct table *table)
{
    return table->waiting_since == 0 && !table->more_to_come && !table->ruleset->growing;
}

void table_view(const struct table *table, double now, struct table_view *view)
{
    *view = (struct table_view){.in_use = false};
    if (!table)
        return;
    const struct ruleset_stats *stats = ruleset_stats(table->ruleset);
    const double waiting = table->waiting_since == 0 ? 0 : now - table->waiting_since;
    *view = (struct table_view){.in_use = true,
                                .programmed = table->programmed,
                                .overdue = waiting >= 2 * table->sync_period,
                                .current = table->waiting_since == 0 && !table->queued,
                                .waiting = waiting,
                                .last_updated = table->last_updated,
                                .previous = table->protection.previous && !table->programmed,
                                .failure = table_is_applied(table) ? NULL : table->retry.logged,
                                .failure_age = table->retry.failed ? now - table->retry.failed : 0,
                                .next_try = table->retry.failed ? next_try(table) - now : 0,
                                .repairs = table->foreign.repairs,
                                .drift = table->foreign.drift,
                                .audits = table->audit.ended,
                                .frontends = ruleset_frontends(table->ruleset),
                                .rejected = stats->rejected + stats->rejected_elements,
                                .lost = ruleset_is_lost(table->ruleset),
                                .ruleset = table->ruleset,
                                .syncs = &table->syncs,
                                .table = stats,
                                .flowtable = ruleset_flowtable(table->ruleset)};
    memcpy(view->limited, stats->limited, sizeof(view->limited));
}
