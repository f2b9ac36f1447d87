/* SPDX-License-Identifier: GPL-2.0-or-later */
/* One transaction and the applied state after it; further ones if the kernel rejected elements. */
#include "previous_table.h"
#include "state.h"

#include <string.h>

/* Bytes per transaction. The kernel grows its hash tables only between transactions: within a
 * single one, initially empty tables fill ever more slowly. */
#define PIECE_OF_NEW ((size_t)256 * 1024)
/* Each attempt may reveal further rejections; after these, the rest waits for the next commit. */
#define MOST_TRIES 8

/* ---- when something is due ---- */

double ruleset_retry_time(const struct ruleset *rs)
{
    return rs->quarantine.next;
}

double ruleset_due(const struct ruleset *rs)
{
    const double step = rs->steps.n ? rs->step_time : 0;
    return clock_earlier(clock_earlier(step, source_lists_due(&rs->lists)),
                         clock_earlier(rs->collect_time, rs->quarantine.next));
}

bool ruleset_needs_commit(const struct ruleset *rs, double now)
{
    const double due = ruleset_due(rs);
    return rs->state != TABLE_OURS || rs->portions.left || rs->dirty.n > 0 ||
           rs->keeping.restored.n > 0 || rs->repaired > 0 || (due > 0 && now >= due);
}

/* ---- applied state ---- */

/* Before the port's new counts: a trim keeps the slots within the old ones. */
static void apply_slots(struct port_entry *port)
{
    for (enum port_part which = 0; which < PARTS; which++) {
        struct slot_table *slots = port_slots(port, which);
        if (!slots)
            continue;
        const struct slot_range emptied = port_emptied_slots(port, which);
        slots->n_slots = port_kept_slots(port, which);
        slots_apply(slots, emptied);
    }
}

static void finish_entry(struct ruleset *rs, struct entry *entry, double now)
{
    const bool trims_on = entry->trim && as_port(entry)->trimmed;
    entry_clean(entry);
    if (entry->kind != ENTRY_PORT || !port_grows(as_port(entry)))
        quarantine_end(rs, entry);
    if (entry->kind == ENTRY_PORT) {
        as_port(entry)->renumbered = false;
        steps_finish(rs, as_port(entry), trims_on, now);
    } else if (!entry->desired) {
        ruleset_free_entry(rs, entry);
    }
}

static bool slots_change(const struct port_entry *port, enum port_part which)
{
    const struct slot_table *slots = port_slots(port, which);
    if (!slots || !slots->change)
        return false;
    const struct slot_range emptied = port_emptied_slots(port, which);
    for (uint32_t i = emptied.from; i < emptied.to; i++)
        if (!slot_is_empty(&slots->slots[i]))
            return true;
    return slots->change->plan.moves.n + slots_missing(slots) > 0;
}

static bool lacks_number(const struct entry *entry)
{
    const struct port_entry *port = port_of_entry(entry);
    return entry->kind != ENTRY_PLAIN && (!port || !port->number);
}

bool ruleset_clean_unchanged(struct ruleset *rs, struct entry *entry, double now)
{
    struct port_entry *port = entry->kind == ENTRY_PORT ? as_port(entry) : NULL;
    if (!entry->desired || entry->quarantined || lacks_number(entry))
        return false;
    ruleset_plan_entry(rs, entry, ruleset_most_added(rs));
    for (enum table_set set = first_set(entry); set < end_of_sets(entry); set++)
        if (entry_applied(set, entry) != entry_desired(set, entry))
            return false;
    if (port && (slots_change(port, PART_ALL) || slots_change(port, PART_LOCAL)))
        return false;
    if (port)
        apply_slots(port);
    finish_entry(rs, entry, now);
    return true;
}

/* The port that a frontend no longer leads to. */
static void finish_port_before(struct ruleset *rs, const struct difference *difference, double now)
{
    struct port_entry *port = NULL;
    if (difference->set == SET_SERVICES && difference->applied)
        port = ruleset_port_of_number(rs, port_of_value(difference->applied));
    if (!port)
        return;
    port->trimmed = false;
    steps_finish(rs, port, false, now);
}

static void add_new_instances(struct ruleset *rs)
{
    vec_each (&rs->new_instances, it)
        instances_add(&rs->instances, it->instance);
    vec_clear(&rs->new_instances);
}

static void apply(struct ruleset *rs, double now)
{
    vec_clear(&rs->keeping.restored);
    vec_each (&rs->dirty, it)
        if ((*it)->kind == ENTRY_PORT)
            apply_slots(as_port(*it));
    vec_each (&rs->differences, it)
        entry_set_applied(rs, it->set, it->entry, it->desired);
    vec_each (&rs->differences, it)
        finish_port_before(rs, it, now);
    vec_each (&rs->dirty, it)
        finish_entry(rs, *it, now);
    vec_clear_few(&rs->dirty);
    vec_clear_few(&rs->differences);
    quarantine_applied(rs);
    add_new_instances(rs);
    rs->stats.replaced += rs->state == TABLE_REPLACED;
    rs->has_applied = true;
    rs->has_shadows = false;
    ruleset_enter(rs, TABLE_OURS);
}

/* ---- sending ---- */

/* @singly: one element per message, so that the kernel names all that it rejects. What fills a new
 * table is cut, a difference only where the send buffer cannot hold it: in a user namespace it may
 * not grow, and a large change must not stop all others. A replacement is not cut, since its first
 * piece would be an empty table. */
static void begin_batch(struct ruleset *rs, bool singly)
{
    nft_batch_clear(&rs->batch);
    rs->batch.singly = singly;
    rs->batch.nothing_applied = rs->batch.short_of_memory = false;
    rs->batch.piece = rs->filling ? PIECE_OF_NEW : ruleset_makes_table(rs) ? 0 : NFT_PIECE_FITTING;
}

static int send_batch(struct ruleset *rs, struct nft_socket *socket, struct commit_stats *stats,
                      struct error *err)
{
    if (rs->batch.used == 0)
        return 0;
    double start = clock_monotonic();
    int result = nft_socket_commit(socket, &rs->batch, err);
    stats->elements_added += rs->batch.elements[ELEMENT_ADD];
    stats->elements_deleted += rs->batch.elements[ELEMENT_DELETE];
    stats->bytes += rs->batch.used;
    stats->seconds += clock_monotonic() - start;
    if (result == 0)
        rs->stats.elements += rs->batch.elements[ELEMENT_ADD] - rs->batch.elements[ELEMENT_DELETE];
    return result;
}

/* ---- commits ---- */

/*
 * New chains go first, in a transaction of their own. A packet uses the rules of the generation it
 * first saw, but the elements of the newest one: a count applied together with its chain would send
 * the packet into a still empty chain.
 */
static int commit_instances(struct ruleset *rs, struct nft_socket *socket, bool singly,
                            struct commit_stats *stats, struct error *err)
{
    begin_batch(rs, singly);
    ruleset_encode_instances(rs);
    if (send_batch(rs, socket, stats, err))
        return -1;
    add_new_instances(rs);
    return 0;
}

static int try_commit(struct ruleset *rs, struct nft_socket *socket, bool singly,
                      struct commit_stats *stats, struct error *err)
{
    ruleset_plan(rs, rs->state == TABLE_REPLACED ? SIZE_MAX : ruleset_most_added(rs));
    if (singly)
        quarantine_sort_dirty(rs);
    ruleset_find_differences(rs);
    if (!ruleset_makes_table(rs) && commit_instances(rs, socket, singly, stats, err))
        return -1;
    begin_batch(rs, singly);
    ruleset_encode(rs);
    return send_batch(rs, socket, stats, err);
}

/* Retries until the rest is applied, or an error blames no element. */
static int commit_the_rest(struct ruleset *rs, struct nft_socket *socket, double now,
                           struct commit_stats *stats, struct error *err)
{
    for (unsigned tries = 1;; tries++) {
        bool singly = tries > 1;
        int result = try_commit(rs, socket, singly, stats, err);
        if (result == 0 || !rs->batch.nothing_applied || tries == MOST_TRIES ||
            !quarantine_take(rs, now, singly))
            return result;
        log_debug(1, "table", "family=%s retrying without the rejected elements: %s",
                  nft_family_name(rs->family), err->text);
        error_clear(err);
    }
}

int ruleset_commit(struct ruleset *rs, struct nft_socket *socket, double now,
                   struct commit_stats *stats, struct error *err)
{
    memset(stats, 0, sizeof(*stats));
    if (!ruleset_knows_kernel(rs) &&
        ruleset_adopt(rs, socket, now, SIZE_MAX, err) == ADOPTION_FAILED)
        return -1;
    stats->bytes += rs->repaired;
    rs->repaired = 0;
    const bool is_made = ruleset_makes_table(rs), is_replaced = rs->state == TABLE_REPLACED;
    quarantine_retry(rs, now);
    if (!rs->portions.left)
        rs->limits_reported = 0;
    if (is_replaced)
        ruleset_sort_dirty(rs);
    else if (is_made)
        portions_begin(rs);
    rs->filling = rs->portions.left;
    portions_next(rs);
    steps_begin(rs, now);
    source_lists_trim(rs, now);
    /* Just before the first attempt to replace it, to keep the interval short. */
    if (is_replaced && !rs->has_shadows)
        ruleset_add_shadow_chains(rs, socket);
    rs->has_shadows = is_replaced;
    int result;
    do { /* again with numbers that became unused */
        result = commit_the_rest(rs, socket, now, stats, err);
        if (result == 0)
            apply(rs, now);
    } while (result == 0 && numbers_hand_out(rs));
    rs->portions.left = rs->portions.left || (rs->filling && rs->growing);
    if (result) {
        steps_failed(rs);
        /* Else it is read back before the next attempt. */
        if (!rs->batch.short_of_memory)
            ruleset_enter(rs, TABLE_UNKNOWN);
        stats->may_be_applied = !rs->batch.nothing_applied;
    } else {
        if (is_made)
            connections_restore(rs, socket);
        ruleset_collect(rs, socket, now);
    }
    rs->stats.limited[LIMIT_NUMBERS] = rs->numbers.n_waiting;
    rs->stats.rejected = rs->quarantine.all.n - rs->quarantine.n_plain;
    rs->stats.rejected_elements = rs->quarantine.n_plain;
    nft_batch_clear(&rs->batch);
    return result;
}
