/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Encodes the difference between desired and applied state as messages. Their order is correct even
 * if the batch is cut: whatever packets are led to exists.
 */
#include "state.h"
#include "template.h"

#include <string.h>

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

/* ---- plain elements ---- */

static void plain_element(struct ruleset *rs, struct plain *plain, enum nft_element_op op)
{
    const enum table_set set = plain_set(plain);
    const uint8_t *key = plain_key(plain);
    const size_t length = plain->key_length, value = op == ELEMENT_ADD ? plain->value_length : 0;
    quarantine_set_owner(rs, NULL, plain);
    if (set_owner(set) == OWNER_RANGES)
        nft_batch_range(&rs->batch, op, set_name(set), key, key + length / 2, length / 2);
    else
        nft_batch_element(&rs->batch, op, set_name(set), key, length,
                          value ? plain_value(plain) : NULL, value);
}

/* Ranges must make room before others replace them, so they all go together. */
static void encode_ranges(struct ruleset *rs)
{
    rs->batch.together = true;
    for (enum nft_element_op op = ELEMENT_DELETE;; op = ELEMENT_ADD) {
        vec_each (&rs->plain.dirty, it)
            if (set_owner(plain_set(*it)) == OWNER_RANGES &&
                (op == ELEMENT_ADD ? plain_comes(*it) : plain_goes(*it)))
                plain_element(rs, *it, op);
        if (op == ELEMENT_ADD)
            break;
    }
    rs->batch.together = false;
    nft_batch_may_cut(&rs->batch);
}

/* Adds elements of one set that are new or have a new value. */
static void encode_coming(struct ruleset *rs, enum table_set set)
{
    size_t n = 0;
    vec_each (&rs->plain.dirty, it) {
        struct plain *plain = *it;
        if (plain_set(plain) != set || !plain_comes(plain))
            continue;
        if (plain_goes(plain))
            plain_element(rs, plain, ELEMENT_DELETE);
        plain_element(rs, plain, ELEMENT_ADD);
        if (++n % GROUP == 0)
            nft_batch_may_cut(&rs->batch);
    }
}

static void encode_going(struct ruleset *rs, enum table_set set)
{
    vec_each (&rs->plain.dirty, it)
        if (plain_set(*it) == set && plain_goes(*it) && !plain_comes(*it))
            plain_element(rs, *it, ELEMENT_DELETE);
}

/* The table rejects packets to unserved ports of a cluster IP, so cluster IPs are added after what
 * they serve and deleted before it. */
enum which_plain { OTHERS, CLUSTER_IPS };

static void encode_plain(struct ruleset *rs, enum which_plain which,
                         void (*encode)(struct ruleset *, enum table_set))
{
    if (rs->plain.dirty.n == 0)
        return;
    for (enum table_set set = 0; set < TABLE_SETS; set++)
        if (set_owner(set) == OWNER_TABLE && (set == SET_CLUSTER_IPS) == (which == CLUSTER_IPS))
            encode(rs, set);
    nft_batch_may_cut(&rs->batch);
}

/* ---- elements of entries ---- */

static void entry_element(struct ruleset *rs, struct entry *entry, enum nft_element_op op,
                          enum table_set set, uint32_t value)
{
    const struct key key = entry_key(set, entry, 0);
    const bool has_value = op == ELEMENT_ADD && *set_schema[set].value;
    quarantine_set_owner(rs, entry, NULL);
    nft_batch_element(&rs->batch, op, set_name(set), key.bytes, key.length,
                      has_value ? &value : NULL, has_value ? sizeof(value) : 0);
}

static void slot_element(struct ruleset *rs, struct entry *entry, enum table_set set,
                         enum nft_element_op op, uint32_t slot, const struct backend *backend)
{
    const struct key key = entry_key(set, entry, slot);
    struct key value = {.length = 0};
    if (op == ELEMENT_ADD)
        value = value_of_backend(rs->family, backend);
    quarantine_set_owner(rs, entry, NULL);
    nft_batch_element(&rs->batch, op, set_name(set), key.bytes, key.length,
                      value.length ? value.bytes : NULL, value.length);
}

/* ---- slots ---- */

static struct slot_table *slots_of(const struct entry *entry, enum table_set set)
{
    return entry->is_port ? port_slots(as_port(entry), part_of_set(set)) : NULL;
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
                slot_element(rs, *it, set, ELEMENT_ADD, move->slot, &move->backend);
        for (uint32_t i = 0; i < slots->n_added; i++)
            slot_element(rs, *it, set, ELEMENT_ADD, slots->n_slots + i, &plan->added[i]);
    }
}

/* An index into the moves of the dirty entries. */
struct place {
    size_t entry, move;
};

/* Deletes or adds a group of slots with a new backend, from @at, which it advances. */
static void encode_slot_group(struct ruleset *rs, enum table_set set, enum nft_element_op op,
                              struct place *at)
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
            slot_element(rs, entry, set, op, move->slot, &move->backend);
        }
    }
}

static void encode_slots(struct ruleset *rs, enum table_set set)
{
    for (struct place at = {0}; at.entry < rs->dirty.n;) {
        struct place again = at;
        rs->batch.together = true;
        encode_slot_group(rs, set, ELEMENT_DELETE, &at);
        encode_slot_group(rs, set, ELEMENT_ADD, &again);
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
            slot_element(rs, entry, set, ELEMENT_DELETE, i, NULL);
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

/* ---- numbers ---- */

/* A service port's new elements come before frontends lead to it; its old ones go after none
 * does. */
enum phase { PHASE_GAINS, PHASE_FRONTENDS, PHASE_LOSSES, PHASES };

static enum phase phase_of(const struct difference *difference)
{
    return !difference->entry->is_port ? PHASE_FRONTENDS
           : difference->desired       ? PHASE_GAINS
                                       : PHASE_LOSSES;
}

/* Encodes one set for the differences from @from to @end. */
static void encode_set(struct ruleset *rs, size_t from, size_t end, enum phase phase,
                       enum nft_element_op op, enum table_set set)
{
    for (size_t i = from; i < end; i++) {
        const struct difference *it = &rs->differences.v[i];
        const uint32_t value = op == ELEMENT_ADD ? it->desired : it->applied;
        if (it->set == set && value != 0 && phase_of(it) == phase)
            entry_element(rs, it->entry, op, set, value);
    }
}

/* Set by set, so that elements share messages. */
static void encode_phase(struct ruleset *rs, enum phase phase)
{
    const bool frontends = phase == PHASE_FRONTENDS;
    for (size_t from = 0, end; from < rs->differences.n; from = end) {
        end = from + GROUP < rs->differences.n ? from + GROUP : rs->differences.n;
        rs->batch.together = true;
        for (enum table_set set = frontends ? 0 : FRONTEND_SETS;
             set < (frontends ? FRONTEND_SETS : NUMBER_SETS); set++) {
            encode_set(rs, from, end, phase, ELEMENT_DELETE, set);
            encode_set(rs, from, end, phase, ELEMENT_ADD, set);
        }
        rs->batch.together = false;
        nft_batch_may_cut(&rs->batch);
    }
}

/* ---- the batch ---- */

void ruleset_encode(struct ruleset *rs)
{
    if (ruleset_makes_table(rs)) {
        encode_table(rs);
        ruleset_encode_instances(rs);
    }
    connections_encode(rs);
    encode_ranges(rs);
    encode_plain(rs, CLUSTER_IPS, encode_going);
    encode_plain(rs, OTHERS, encode_coming);
    for (enum table_set set = SET_ENDPOINTS; set <= SET_LOCAL_ENDPOINTS; set++)
        encode_slots(rs, set);
    for (enum phase phase = 0; phase < PHASES; phase++)
        encode_phase(rs, phase);
    for (enum table_set set = SET_ENDPOINTS; set <= SET_LOCAL_ENDPOINTS; set++)
        encode_trims(rs, set);
    encode_plain(rs, OTHERS, encode_going);
    encode_plain(rs, CLUSTER_IPS, encode_coming);
}
