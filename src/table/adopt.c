/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Adopts a table: at startup, when one may exist from the previous process, and after a failed
 * commit, when its state is uncertain. All of it is read back, in pieces between turns of the loop:
 *
 *     LOOK -> DECLARATIONS -> FORGET -> ELEMENTS -> RULES -> COMPARE
 *
 * reading.c has the ELEMENTS; what it sends changes no frontend that is there. Nothing else is
 * committed meanwhile; desired state may change.
 */
#include "adopt.h"

#include "state.h"

#include <linux/in.h>
#include <math.h>

/* ---- adoption ---- */

static void forget_port(struct ruleset *rs, struct port_entry *port)
{
    port_list_desired(port);
    slots_forget(&port->all);
    if (port->local)
        slots_forget(port->local);
    if (!port_is_affine(port) && !port->entry.quarantined)
        affinity_release(rs, port, SIZE_MAX);
    port_hold_sources(rs, port, false);
    port->entry.queued = port->entry.trim = false;
    port->found_classes = 0;
}

static void forget_entry(void *ctx, void *item)
{
    struct ruleset *rs = ctx;
    struct entry *entry = item;
    if (rs->adoption.ours && !rs->keeping.complete)
        kept_note(rs, entry);
    if (entry->kind == ENTRY_PORT)
        forget_port(rs, as_port(entry));
    ruleset_mark_dirty(rs, entry);
    for (enum table_set set = first_set(entry); set < end_of_sets(entry); set++)
        entry_set_applied(rs, set, entry, 0);
}

/* Before the elements are forgotten. */
static void forget_others(struct ruleset *rs)
{
    vec_clear(&rs->steps);
    rs->growing = false;
    source_lists_forget(rs);
    instances_clear(&rs->instances);
    rs->collect_time = 0;
}

/* Logs tables found at startup; not those found during repeated failures. */
static void log_found(const struct ruleset *rs, const char *what, size_t elements)
{
    if (!rs->adopted)
        log_info("table", "family=%s %s elements=%zu", nft_family_name(rs->family), what, elements);
    else
        log_debug(2, "table", "family=%s %s elements=%zu", nft_family_name(rs->family), what,
                  elements);
}

/* ---- the states ---- */

static void enter(struct ruleset *rs, enum adoption_state state)
{
    struct adoption *adoption = &rs->adoption;
    adoption->state = state;
    if (state == ADOPTION_LOOK)
        reading_stop(rs);
    else if (state == ADOPTION_ELEMENTS)
        reading_begin(rs);
    adoption->at = state == ADOPTION_COMPARE ? rs->dirty.n : 0;
}

/* The table is known now. */
static void finish(struct ruleset *rs, enum table_state state)
{
    ruleset_enter(rs, state);
    rs->flowtable.due = true;
    rs->stats.read_backs += rs->adopted;
    rs->adopted = true;
    kept_forget(rs);
    enter(rs, ADOPTION_LOOK);
}

/* Nothing is applied, as far as is known: reads the table, or makes it. */
static void read_or_make(struct ruleset *rs)
{
    rs->has_applied = rs->adoption.ours;
    if (rs->adoption.ours) {
        enter(rs, ADOPTION_ELEMENTS);
        return;
    }
    rs->stats.elements = 0;
    if (rs->adoption.exists)
        log_found(rs, "replacing a table that has other maps or sets", 0);
    finish(rs, rs->adoption.exists ? TABLE_REPLACED : TABLE_MISSING);
}

/* After a commit that failed, entries have plans, although nothing may be applied. */
static void forget_applied(struct ruleset *rs, bool ours)
{
    rs->adoption.ours = ours;
    rs->adoption.forgetting = ENTRY_FRONTEND;
    if (rs->has_applied || rs->adopted)
        enter(rs, ADOPTION_FORGET);
    else
        read_or_make(rs);
}

static void begin_anew(struct ruleset *rs, bool ours)
{
    vec_clear(&rs->keeping.restored);
    if (ours)
        enter(rs, ADOPTION_DECLARATIONS);
    else
        forget_applied(rs, false);
}

static int check_declarations(struct ruleset *rs, struct nft_socket *socket, struct error *err)
{
    char *difference;
    if (declarations_check(rs, socket, &difference, err))
        return -1;
    if (difference)
        log_warn("table", "family=%s replacing the table: %s", nft_family_name(rs->family),
                 difference);
    forget_applied(rs, !difference);
    free(difference);
    return 0;
}

static int begin(struct ruleset *rs, struct nft_socket *socket, struct error *err)
{
    bool ours;
    portions_end(rs);
    rs->adoption.tries = 0;
    rs->strangers_stay = false;
    ruleset_forget_rechecks(rs);
    if (ruleset_look(rs, socket, &rs->adoption.exists, &ours, err))
        return -1;
    begin_anew(rs, ours);
    return 0;
}

/* Buckets of entries forgotten in a step, and the work of that. */
#define FORGET_MOST 256
#define FORGET_WORK 4096

/* A new table may accept what the previous one rejected. */
static void end_forgetting(struct ruleset *rs)
{
    rs->keeping.complete = true;
    if (rs->has_applied && !rs->adoption.ours)
        quarantine_retry(rs, INFINITY);
    read_or_make(rs);
}

static void forget_some(struct ruleset *rs)
{
    const struct hash_table *const tables[] = {&rs->frontends, &rs->ports, &rs->plains};
    struct adoption *a = &rs->adoption;
    a->walk.work += FORGET_WORK;
    for (size_t left = FORGET_MOST; left > 0; left--) {
        a->at = hash_table_scan(tables[a->forgetting], a->at, forget_entry, rs);
        if (a->at > 0)
            continue;
        if (a->forgetting == ENTRY_PORT)
            forget_others(rs);
        if (a->forgetting++ == ENTRY_PLAIN) {
            end_forgetting(rs);
            return;
        }
    }
}

static int take_rules(struct ruleset *rs, struct nft_socket *socket, double now, struct error *err)
{
    struct rules_repaired rules;
    if (rs->adoption.found.foreign) {
        begin_anew(rs, false);
        return 0;
    }
    kept_compare(rs);
    const int result = ruleset_repair_rules(rs, socket, &rules, err);
    rs->adoption.rejected = rules.rejected;
    if (result)
        return -1;
    if (!rs->adopted)
        connections_end(rs, socket);
    if (rs->numbers.last == 0) /* affinity records of removed service ports may exist */
        rs->numbers.last = arc4random() % MOST_PORTS;
    rs->stats.elements = rs->adoption.found.counted + rules.verdicts;
    source_lists_adopt(rs, now);
    enter(rs, ADOPTION_COMPARE);
    return 0;
}

static void report_abandoned(const struct ruleset *rs, const struct entry *entry)
{
    const struct frontend_entry *frontend =
        entry->kind == ENTRY_FRONTEND ? as_frontend(entry) : NULL;
    if (rs->config.abandoned && frontend && !entry->desired && frontend->applied &&
        frontend->frontend.protocol == IPPROTO_UDP)
        rs->config.abandoned(rs->config.ctx, &frontend->frontend);
}

/* Entries compared in a step, and the work of that. */
#define COMPARE_MOST 256
#define COMPARE_WORK 2048

/* Backwards: entries that become dirty meanwhile are behind, and stay for the commit. */
static void compare_entries(struct ruleset *rs, double now)
{
    size_t *at = &rs->adoption.at;
    rs->adoption.walk.work += COMPARE_WORK;
    for (size_t left = COMPARE_MOST; *at > 0 && left > 0; left--) {
        struct entry **place = &rs->dirty.v[--*at];
        report_abandoned(rs, *place);
        if (ruleset_clean_unchanged(rs, *place, now))
            *place = rs->dirty.v[--rs->dirty.n];
    }
    if (*at > 0)
        return;
    log_found(rs, "adopted the table", rs->adoption.found.elements);
    finish(rs, TABLE_OURS);
}

static int step(struct ruleset *rs, struct nft_socket *socket, double now, struct error *err)
{
    switch (rs->adoption.state) {
    case ADOPTION_LOOK:
        return begin(rs, socket, err);
    case ADOPTION_DECLARATIONS:
        return check_declarations(rs, socket, err);
    case ADOPTION_FORGET:
        forget_some(rs);
        return 0;
    case ADOPTION_RULES:
        return take_rules(rs, socket, now, err);
    case ADOPTION_COMPARE:
        compare_entries(rs, now);
        return 0;
    default:
        return reading_step(rs, socket, err);
    }
}

/* After a failure: reads all of it again, or gives up for now. False: gave up. The table is
 * replaced for what it has, never for what could not be read. */
static bool try_again(struct ruleset *rs, struct error *err)
{
    const enum adoption_state failed = rs->adoption.state;
    if (failed != ADOPTION_LOOK && ++rs->adoption.tries < ADOPTION_TRIES) {
        error_clear(err);
        begin_anew(rs, true);
        return true;
    }
    enter(rs, ADOPTION_LOOK);
    if (failed != ADOPTION_RULES || !rs->adoption.rejected)
        return false;
    log_warn("table", "family=%s replacing the table, whose rules cannot be rewritten: %s",
             nft_family_name(rs->family), err->text);
    error_clear(err);
    begin_anew(rs, false);
    return true;
}

enum adoption_result ruleset_adopt(struct ruleset *rs, struct nft_socket *socket, double now,
                                   size_t most, struct error *err)
{
    rs->adoption.walk.work = 0;
    do
        if (step(rs, socket, now, err) && !try_again(rs, err))
            return ADOPTION_FAILED;
    while (!ruleset_knows_kernel(rs) && rs->adoption.walk.work < most);
    return ruleset_knows_kernel(rs) ? ADOPTION_ENDED : ADOPTION_GOES_ON;
}

bool ruleset_is_reading(const struct ruleset *rs)
{
    return rs->adoption.state != ADOPTION_LOOK;
}
