/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "guard.h"

#include "kube-nftd/base.h"

#include <math.h>

/* What comes from Services and endpoints waits no longer than this, as after a failed commit. */
#define LONGEST_FOR_OTHERS 1.0

/* Two daemons of one node learn of a change at about the same time. */
#define GRACE 1.0

/* An audit sees what a program did sooner than its events are read, which is at a pace. */
#define NEWS_LATER (2 * TABLE_MONITOR_PAUSE)

/* ---- when ---- */

/* Repairs take no more than one part in so many of the time. */
#define SHARE 10

/* A wait that passed so many times over without a repair was the end of it. */
#define CALM 10

double repair_pace_due(const struct repair_pace *pace)
{
    return pace->last + pace->wait;
}

void repair_pace_done(struct repair_pace *pace, double now, double seconds)
{
    if (now - pace->last > CALM * fmax(pace->wait, REPAIR_FIRST_WAIT))
        pace->wait = 0;
    pace->wait = fmax(REPAIR_FIRST_WAIT, fmin(2 * pace->wait, REPAIR_LONGEST_WAIT));
    pace->wait = fmax(pace->wait, SHARE * seconds);
    pace->last = now;
}

/* ---- what other programs do ---- */

void guard_changed(struct guard *guard, struct ruleset *ruleset, const struct table_change *change)
{
    guard->touched = true;
    if (change->set)
        ruleset_suspect_element(ruleset, change->set, change->element);
    else
        ruleset_suspect_rules(ruleset);
}

void guard_lost(struct guard *guard, struct ruleset *ruleset)
{
    guard->touched = true;
    ruleset_suspect_all(ruleset);
}

void guard_settled(struct guard *guard, const struct table_program *program)
{
    if (!guard->touched)
        return;
    guard->touched = false;
    if (!program->peer)
        guard->grace = 0;
    else if (!guard->waiting)
        guard->grace = clock_monotonic() + GRACE;
    guard->waiting = true;
    guard->audited = false;
    guard->by = *program;
}

void guard_audited(struct guard *guard, double now)
{
    if (guard->waiting || guard->repairing)
        return;
    guard->audited = guard->waiting = true;
    guard->grace = now + NEWS_LATER;
}

static uint64_t layouts_made(const struct ruleset *ruleset)
{
    const struct ruleset_figures *figures = ruleset_figures(ruleset);
    return figures->replaced + figures->rewritten;
}

/* More than an audit leaves is missing: all of it at once, then. */
#define MUCH 100

double guard_check(struct guard *guard, struct ruleset *ruleset, struct nft_socket *socket,
                   double now, bool soon)
{
    double due = repair_pace_due(&guard->pace);
    if (!guard->waiting)
        return 0;
    if (guard->audited)
        due = fmax(due, guard->touched ? now + TABLE_MONITOR_PAUSE : guard->grace);
    else
        due = soon ? fmin(due, guard->pace.last + LONGEST_FOR_OTHERS) : fmax(due, guard->grace);
    if (due > now)
        return due;
    guard->waiting = false;
    guard->grace = 0;
    guard->layouts = layouts_made(ruleset);
    double begin = clock_monotonic();
    size_t found = ruleset_check_suspects(ruleset, socket);
    if (guard->audited && found >= MUCH) {
        ruleset_suspect_all(ruleset);
        ruleset_check_suspects(ruleset, socket);
    }
    guard->repairing = guard->repairing || found > 0;
    guard->audited = guard->audited && guard->repairing;
    guard->checking = clock_monotonic() - begin;
    return 0;
}

/* Neither can leave the other's table as it is. */
static void say_other_layout(const struct guard *guard, const char *name)
{
    log_error("guard",
              "family=%s another %s, pid=%u, programs this table with other settings or another "
              "version, and each overwrites the other: stop one of them",
              name, guard->by.name, guard->by.pid);
}

void guard_committed(struct guard *guard, const char *name, const struct ruleset *ruleset,
                     const struct ruleset_stats *stats, double begin)
{
    if (!guard->repairing)
        return;
    double now = clock_monotonic(), seconds = now - begin + guard->checking;
    bool other_layout = guard->by.peer && layouts_made(ruleset) != guard->layouts;
    guard->repairing = false;
    /* That goes on until one of the two ends, and each time waits for the grace. */
    repair_pace_done(&guard->pace, now, other_layout ? GRACE : seconds);
    if (stats->bytes == 0) {
        guard->audited = false;
        return; /* it was right all the same */
    }
    if (guard->audited) {
        guard->audited = false;
        guard->drift += stats->elements_added + stats->elements_deleted;
        log_warn("guard",
                 "family=%s an audit found differences in the table and repaired them added=%zu "
                 "deleted=%zu",
                 name, stats->elements_added, stats->elements_deleted);
        return;
    }
    guard->repairs++;
    log_warn("guard",
             "family=%s repaired changes by another program program=%s pid=%u added=%zu "
             "deleted=%zu seconds=%.6f next=%.2fs",
             name, guard->by.name[0] ? guard->by.name : "unknown", guard->by.pid,
             stats->elements_added, stats->elements_deleted, seconds, guard->pace.wait);
    if (other_layout)
        say_other_layout(guard, name);
}
