/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Encodes the difference between desired and applied state as messages. Their order is correct even
 * if the batch is cut: whatever packets are led to exists.
 */
#include "state.h"
#include "template.h"

/* The approximate number of elements between places to cut. A replacement (delete, then add) is
 * never cut in between. */
#define GROUP 500

static void encode_table(struct ruleset *rs)
{
    if (rs->state == TABLE_REPLACED)
        nft_batch_delete_table(&rs->batch);
    nft_batch_add_table(&rs->batch, rs->config.owned, rs->comment);
    program_layout(&rs->base, true, &rs->batch);
    rs->flowtable.due = true;
}

void ruleset_encode_instances(struct ruleset *rs)
{
    instance_vec instances = {0};
    ruleset_new_instances(rs, &instances);
    vec_clear(&rs->new_instances);
    nft_batch_finish(&rs->batch);
    rs->instances_begin = rs->batch.used;
    vec_each (&instances, instance) {
        struct layout layout = {.sets = {0}};
        ruleset_add_template(rs, *instance, &layout);
        program_layout(&layout, false, &rs->batch);
        layout_free(&layout);
        nft_batch_may_cut(&rs->batch);
        vec_push(&rs->new_instances, (struct new_instance){*instance, rs->batch.used});
    }
    vec_free(&instances);
}

/* ---- one element ---- */

/* Adds it with @value, or (NULL) deletes it. */
static void put(struct ruleset *rs, enum table_set set, const struct entry *entry, uint32_t slot,
                const struct key *value)
{
    const enum nft_element_op op = value ? ELEMENT_ADD : ELEMENT_DELETE;
    const struct key key = entry_key(set, entry, slot);
    const size_t half = key.length / 2;
    if (set_owner(set) == OWNER_RANGES)
        nft_batch_range(&rs->batch, op, set_name(set), key.bytes, key.bytes + half, half);
    else
        nft_batch_element(&rs->batch, op, set_name(set), key.bytes, key.length,
                          value && value->length ? value->bytes : NULL, value ? value->length : 0);
}

static void put_desired(struct ruleset *rs, const struct difference *difference)
{
    struct key value = {.length = 0};
    if (difference->entry->kind == ENTRY_PLAIN)
        value = key_of_bytes(plain_value(as_plain(difference->entry)),
                             as_plain(difference->entry)->value_length);
    else if (*set_schema[difference->set].value)
        value = key_of_number(difference->desired);
    put(rs, difference->set, difference->entry, 0, &value);
}

static void put_slot(struct ruleset *rs, enum table_set set, const struct entry *entry,
                     uint32_t slot, const struct backend *backend)
{
    const struct key value = value_of_backend(rs->family, backend);
    put(rs, set, entry, slot, &value);
}

/* What is restored is applied. */
static void put_applied(struct ruleset *rs, const struct restored *it)
{
    const struct key value = entry_value(rs->family, it->set, it->entry, it->slot);
    put(rs, it->set, it->entry, it->slot, &value);
}

static void encode_restored(struct ruleset *rs)
{
    vec_each (&rs->keeping.restored, it) {
        rs->batch.together = true;
        if (it->there)
            put(rs, it->set, it->entry, it->slot, NULL);
        if (entry_has(it->set, it->entry, it->slot))
            put_applied(rs, it);
        rs->batch.together = false;
    }
    nft_batch_may_cut(&rs->batch);
}

/* ---- slots ---- */

static struct slot_table *slots_of(const struct entry *entry, enum table_set set)
{
    return entry->kind == ENTRY_PORT ? port_slots(as_port(entry), part_of_set(set)) : NULL;
}

/* Those with a planned change; else NULL. */
static struct slot_table *changing_slots(const struct entry *entry, enum table_set set)
{
    struct slot_table *slots = slots_of(entry, set);
    return slots && slots->change ? slots : NULL;
}

static void encode_new_slots(struct ruleset *rs, enum table_set set)
{
    vec_each (&rs->dirty, it) {
        const struct slot_table *slots = changing_slots(*it, set);
        if (!slots)
            continue;
        const struct slot_plan *plan = &slots->change->plan;
        vec_each (&plan->moves, move)
            if (slot_is_empty(&slots->slots[move->slot]))
                put_slot(rs, set, *it, move->slot, &move->backend);
        for (uint32_t i = 0; i < slots->n_added; i++)
            put_slot(rs, set, *it, slots->n_slots + i, &plan->added[i]);
    }
}

/* An index into the moves of the dirty entries. */
struct place {
    size_t entry, move;
};

/* Deletes (not @adds) or adds a group of slots with a new backend, from @at, which it advances. */
static void encode_slot_group(struct ruleset *rs, enum table_set set, bool adds, struct place *at)
{
    for (size_t n = 0; at->entry < rs->dirty.n; at->entry++, at->move = 0) {
        struct entry *entry = rs->dirty.v[at->entry];
        const struct slot_table *slots = changing_slots(entry, set);
        if (!slots)
            continue;
        const struct slot_plan *plan = &slots->change->plan;
        for (; at->move < plan->moves.n; at->move++) {
            const struct slot_move *move = &plan->moves.v[at->move];
            if (slot_is_empty(&slots->slots[move->slot]))
                continue;
            if (n++ == GROUP)
                return;
            if (adds)
                put_slot(rs, set, entry, move->slot, &move->backend);
            else
                put(rs, set, entry, move->slot, NULL);
        }
    }
}

static void encode_slots(struct ruleset *rs, enum table_set set)
{
    for (struct place at = {0}; at.entry < rs->dirty.n;) {
        struct place again = at;
        rs->batch.together = true;
        encode_slot_group(rs, set, false, &at);
        encode_slot_group(rs, set, true, &again);
        rs->batch.together = false;
        nft_batch_may_cut(&rs->batch);
    }
    encode_new_slots(rs, set);
    nft_batch_may_cut(&rs->batch);
}

static void encode_slots_going(struct ruleset *rs, struct entry *entry, enum table_set set,
                               struct slot_range range)
{
    const struct slot_table *slots = slots_of(entry, set);
    for (uint32_t i = range.from; i < range.to; i++)
        if (!slot_is_empty(&slots->slots[i]))
            put(rs, set, entry, i, NULL);
}

/* Deletes slots that no count reaches, and those that the new one must not draw. */
static void encode_trims(struct ruleset *rs, enum table_set set)
{
    const enum port_part which = part_of_set(set);
    vec_each (&rs->dirty, it) {
        const struct slot_table *slots = slots_of(*it, set);
        if (!slots)
            continue;
        encode_slots_going(rs, *it, set, port_emptied_slots(as_port(*it), which));
        encode_slots_going(
            rs, *it, set,
            (struct slot_range){port_kept_slots(as_port(*it), which), slots->n_slots});
    }
    nft_batch_may_cut(&rs->batch);
}

/* ---- the batch ---- */

/* Sends the differences of @set from @at to @end: groups that are not cut, in which what goes makes
 * room for what comes. All ranges are one. */
static void encode_differences(struct ruleset *rs, enum table_set set, size_t at, size_t end)
{
    const size_t group = set_owner(set) == OWNER_RANGES ? SIZE_MAX : GROUP;
    while (at < end) {
        const size_t n = end - at < group ? end - at : group;
        rs->batch.together = true;
        for (size_t i = at; i < at + n; i++)
            if (rs->differences.v[i].applied)
                put(rs, set, rs->differences.v[i].entry, 0, NULL);
        for (size_t i = at; i < at + n; i++)
            if (rs->differences.v[i].desired)
                put_desired(rs, &rs->differences.v[i]);
        rs->batch.together = false;
        nft_batch_may_cut(&rs->batch);
        at += n;
    }
}

/* A run of differences of one set, from @at on; returns its end. */
static size_t encode_run(struct ruleset *rs, size_t at)
{
    const struct difference *first = &rs->differences.v[at];
    const enum set_phase phase = first->phase;
    const enum table_set set = first->set;
    size_t end = at;
    while (end < rs->differences.n && rs->differences.v[end].phase == phase &&
           rs->differences.v[end].set == set)
        end++;
    encode_differences(rs, set, at, end);
    return end;
}

void ruleset_encode(struct ruleset *rs)
{
    size_t at = 0;
    if (ruleset_makes_table(rs)) {
        encode_table(rs);
        ruleset_encode_instances(rs);
    }
    connections_encode(rs);
    encode_restored(rs);
    for (enum set_phase phase = 0; phase < PHASES; phase++) {
        for (enum port_part which = 0; which < PARTS; which++)
            if (phase == PHASE_SLOTS)
                encode_slots(rs, set_of_slots(which));
            else if (phase == PHASE_SLOTS_GO)
                encode_trims(rs, set_of_slots(which));
        while (at < rs->differences.n && rs->differences.v[at].phase == phase)
            at = encode_run(rs, at);
    }
}
