/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "foreign.h"

#include <math.h>

/* Two daemons on a node (during an upgrade) learn of a change at about the same time: a peer's
 * change is usually what will be desired here a moment later. */
#define GRACE 1.0
/* An audit or a commit sees a change before its events, which are read at intervals. */
#define NEWS_LATER (2 * TABLE_MONITOR_PAUSE)
/* From this number of differences on, an audit rechecks everything at once. */
#define MUCH 100
/* Seconds between two repairs: doubled each time; they take at most 1/REPAIR_SHARE of the time. */
#define REPAIR_FIRST_WAIT 0.05
#define REPAIR_LONGEST_WAIT 10.0
#define REPAIR_SHARE 10
/* After this many waits without a repair, the wait is reset. */
#define CALM 10

/* The only place that changes the state. */
static void enter(struct foreign *foreign, enum foreign_state state)
{
    foreign->state = state;
}

/* A repair that took @seconds ended at @now. */
static void pace_repairs(struct repair_pace *pace, double now, double seconds)
{
    if (now - pace->last > CALM * fmax(pace->wait, REPAIR_FIRST_WAIT))
        pace->wait = 0;
    pace->wait = fmax(REPAIR_FIRST_WAIT, fmin(2 * pace->wait, REPAIR_LONGEST_WAIT));
    pace->wait = fmax(pace->wait, REPAIR_SHARE * seconds);
    pace->last = now;
}

/* ---- reports ---- */

bool foreign_waits(const struct foreign *foreign)
{
    return foreign->state >= FOREIGN_REFUSED && foreign->state <= FOREIGN_REPORTED;
}

void foreign_heard(struct foreign *foreign)
{
    if (foreign->state == FOREIGN_AUDITED || foreign->state == FOREIGN_REFUSED)
        enter(foreign, FOREIGN_HEARD);
}

void foreign_finished(struct foreign *foreign, const struct table_program *program, double now)
{
    if (!program->peer)
        foreign->grace = 0;
    else if (!foreign_waits(foreign))
        foreign->grace = now + GRACE;
    foreign->by = *program;
    enter(foreign, FOREIGN_REPORTED);
}

static void await_news(struct foreign *foreign, enum foreign_state state, double now)
{
    if (foreign->state != FOREIGN_QUIET)
        return;
    foreign->grace = now + NEWS_LATER;
    enter(foreign, state);
}

void foreign_audited(struct foreign *foreign, double now)
{
    await_news(foreign, FOREIGN_AUDITED, now);
}

void foreign_refused(struct foreign *foreign, double now)
{
    await_news(foreign, FOREIGN_REFUSED, now);
}

/* ---- checks ---- */

static double check_due(const struct foreign *foreign, bool changed, double now)
{
    double due = foreign->pace.last + foreign->pace.wait;
    if (foreign->state == FOREIGN_REFUSED)
        return foreign->grace;
    if (changed)
        due = fmin(due, foreign->pace.last + CHANGE_RETRY);
    if (foreign->state == FOREIGN_HEARD)
        return fmax(due, now + TABLE_MONITOR_PAUSE);
    return foreign->state == FOREIGN_REPORTED && changed ? due : fmax(due, foreign->grace);
}

static uint64_t layouts_made(const struct ruleset *rs)
{
    return rs->stats.replaced + rs->stats.rewritten;
}

static void add_found(struct recheck_result *to, const struct recheck_result *more)
{
    to->differences += more->differences;
    to->missing += more->missing;
    to->strange += more->strange;
    to->all = to->all || more->all;
}

/* The table is unknown, say, since a commit was refused: to read it is to repair what a program
 * changed. A peer has most likely committed the same. */
static void reads_next(struct foreign *foreign)
{
    if (foreign->state != FOREIGN_REPORTED || foreign->by.peer) {
        enter(foreign, FOREIGN_QUIET);
        return;
    }
    foreign->found = (struct recheck_result){.differences = 1, .all = true};
    foreign->checking = 0;
    enter(foreign, FOREIGN_CHANGED);
}

double foreign_check(struct foreign *foreign, struct ruleset *rs, struct nft_socket *socket,
                     bool changed, double now)
{
    const bool audited = foreign->state == FOREIGN_AUDITED;
    if (!foreign_waits(foreign) || ruleset_is_reading(rs))
        return 0;
    const double due = check_due(foreign, changed, now);
    if (due > now)
        return due;
    if (!ruleset_knows_kernel(rs)) {
        reads_next(foreign);
        return 0;
    }
    const double begin = clock_monotonic();
    foreign->layouts = layouts_made(rs);
    const struct recheck_result found = ruleset_recheck(rs, socket);
    if (audited && found.differences >= MUCH) {
        ruleset_recheck_all(rs);
        ruleset_recheck(rs, socket);
    }
    foreign->grace = 0;
    foreign->checking = clock_monotonic() - begin;
    add_found(&foreign->found, &found);
    enter(foreign, foreign->found.differences == 0 ? FOREIGN_QUIET
                   : audited                       ? FOREIGN_DRIFTED
                                                   : FOREIGN_CHANGED);
    return 0;
}

/* ---- repairs ---- */

/* Events were lost: whether others changed the table is unknown, and changes of our own may have
 * waited. */
static bool is_by_nobody(const struct foreign *foreign)
{
    return foreign->by.pid == 0;
}

/* Another daemon like this one has another layout of the table. */
static bool is_other_layout(const struct foreign *foreign, const struct ruleset *rs)
{
    return foreign->by.peer && layouts_made(rs) != foreign->layouts;
}

/* Elements of a repair. */
struct repaired {
    size_t added, deleted;
};

static size_t less(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* What differed, as far as the commit sent it: changes of Services may have gone with it, or made
 * some of it desired. Of what a program changed, a read-back may find more; an audit has seen what
 * there is, up to its limit. */
static struct repaired repaired_of(const struct foreign *foreign, const struct commit_stats *sent)
{
    if (foreign->state == FOREIGN_CHANGED && foreign->found.all)
        return (struct repaired){sent->elements_added, sent->elements_deleted};
    return (struct repaired){less(foreign->found.missing, sent->elements_added),
                             less(foreign->found.strange, sent->elements_deleted)};
}

static void log_drift(const struct ruleset *rs, const struct repaired *repaired)
{
    log_warn("table",
             "family=%s an audit found differences in the table and repaired them added=%zu "
             "deleted=%zu",
             family_name(rs->family), repaired->added, repaired->deleted);
}

static void log_read_again(const struct ruleset *rs, const struct repaired *repaired)
{
    log_info("table",
             "family=%s read the table again, since events about it were lost added=%zu "
             "deleted=%zu",
             family_name(rs->family), repaired->added, repaired->deleted);
}

static void log_repair(const struct foreign *foreign, const struct ruleset *rs,
                       const struct repaired *repaired, double seconds)
{
    const char *family = family_name(rs->family);
    log_warn("table",
             "family=%s repaired changes by another program program=%s pid=%u added=%zu "
             "deleted=%zu seconds=%.6f next=%.2fs",
             family, foreign->by.name, foreign->by.pid, repaired->added, repaired->deleted, seconds,
             foreign->pace.wait);
    if (is_other_layout(foreign, rs))
        log_error(
            "table",
            "family=%s another %s, pid=%u, programs this table with other settings or another "
            "version, and each overwrites the other: stop one of them",
            family, foreign->by.name, foreign->by.pid);
}

void foreign_repaired(struct foreign *foreign, const struct ruleset *rs,
                      const struct commit_stats *sent, double seconds)
{
    const enum foreign_state state = foreign->state;
    if (state != FOREIGN_DRIFTED && state != FOREIGN_CHANGED)
        return;
    const struct repaired repaired = repaired_of(foreign, sent);
    seconds += foreign->checking;
    foreign->found = (struct recheck_result){.differences = 0};
    enter(foreign, FOREIGN_QUIET);
    /* Two layouts compete until one of the daemons ends; each round waits for the grace period. */
    pace_repairs(&foreign->pace, clock_monotonic(), is_other_layout(foreign, rs) ? GRACE : seconds);
    if (sent->bytes == 0)
        return; /* nothing was wrong */
    if (state == FOREIGN_DRIFTED) {
        foreign->drift += repaired.added + repaired.deleted;
        log_drift(rs, &repaired);
    } else if (is_by_nobody(foreign)) {
        log_read_again(rs, &repaired);
    } else {
        foreign->repairs++;
        log_repair(foreign, rs, &repaired, seconds);
    }
}
