/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The messages for what frontends and service ports have. */
#include "record.h"
#include "slots.h"

#include <stdlib.h>

/* What replaces something (delete the old, add the new) is not cut in between: it goes in groups of
 * about so many. */
#define GROUP 500

/* ---- one element ---- */

static void number_element(struct ruleset *rs, const struct record *record, enum nft_element_op op,
                           enum table_set set, uint32_t value)
{
    struct key key = set_key(set, record, 0);
    bool has_value = op == ELEMENT_ADD && *set_value_fields(set);
    nft_batch_element(&rs->batch, op, set_name(set), key.bytes, key.length,
                      has_value ? &value : NULL, has_value ? sizeof(value) : 0);
}

static void slot_element(struct ruleset *rs, const struct record *record, enum table_set set,
                         enum nft_element_op op, uint32_t slot, const struct backend *backend)
{
    struct key key = set_key(set, record, slot), value = {.length = 0};
    if (op == ELEMENT_ADD)
        value = value_of_backend(rs->family, backend);
    nft_batch_element(&rs->batch, op, set_name(set), key.bytes, key.length,
                      value.length ? value.bytes : NULL, value.length);
}

/* ---- slots ---- */

static void encode_new_slots(struct ruleset *rs, enum table_set set)
{
    vec_each (&rs->pending, it) {
        const struct part *part = (*it)->is_port ? set_part(set, *it) : NULL;
        if (!part)
            continue;
        size_t n;
        const struct slot_move *moves = part_moves(part, &n);
        for (size_t i = 0; i < n; i++)
            if (slot_is_empty(&part->slots[moves[i].slot]))
                slot_element(rs, *it, set, ELEMENT_ADD, moves[i].slot, &moves[i].backend);
        const struct backend *added = part_added(part, &n);
        for (size_t i = 0; i < n; i++)
            slot_element(rs, *it, set, ELEMENT_ADD, part->n_slots + (uint32_t)i, &added[i]);
    }
}

/* A place among the moves of the pending records. */
struct place {
    size_t record, move;
};

/* Deletes or adds a group of the slots that get another backend, from @at on, which is moved. */
static void encode_slot_group(struct ruleset *rs, enum table_set set, enum nft_element_op op,
                              struct place *at)
{
    for (size_t n = 0; at->record < rs->pending.n; at->record++, at->move = 0) {
        const struct record *record = rs->pending.v[at->record];
        const struct part *part = record->is_port ? set_part(set, record) : NULL;
        size_t n_moves = 0;
        const struct slot_move *moves = part ? part_moves(part, &n_moves) : NULL;
        for (; at->move < n_moves; at->move++) {
            const struct slot_move *move = &moves[at->move];
            if (slot_is_empty(&part->slots[move->slot]))
                continue;
            if (n++ == GROUP)
                return;
            slot_element(rs, record, set, op, move->slot, &move->backend);
        }
    }
}

static void encode_replaced_slots(struct ruleset *rs, enum table_set set)
{
    for (struct place at = {0}; at.record < rs->pending.n;) {
        struct place again = at;
        nft_batch_together(&rs->batch, true);
        encode_slot_group(rs, set, ELEMENT_DELETE, &at);
        encode_slot_group(rs, set, ELEMENT_ADD, &again);
        nft_batch_together(&rs->batch, false);
        nft_batch_may_cut(&rs->batch);
    }
}

void encode_slots(struct ruleset *rs)
{
    for (enum table_set set = 0; set < TABLE_SETS; set++) {
        if (set_owner(set) != OWNER_SLOTS)
            continue;
        encode_replaced_slots(rs, set);
        encode_new_slots(rs, set);
        nft_batch_may_cut(&rs->batch);
    }
}

/* ---- what is left behind ---- */

static void trim_slots(struct ruleset *rs, const struct port_record *port, enum port_part which)
{
    static const enum table_set sets[PARTS] = {SET_ENDPOINTS, SET_LOCAL_ENDPOINTS};
    const struct part *part = port_part(port, which);
    uint32_t end = part ? part->n_slots : 0;
    for (uint32_t i = part ? trim_keeps(rs, port, which) : 0; i < end; i++)
        if (!slot_is_empty(&part->slots[i]))
            slot_element(rs, &port->record, sets[which], ELEMENT_DELETE, i, NULL);
}

static void trim_number(struct ruleset *rs, const struct port_record *port, enum port_part which)
{
    static const enum table_set sets[PARTS] = {SET_PORTS, SET_LOCAL_PORTS};
    if (port_is_left(port, which))
        number_element(rs, &port->record, ELEMENT_DELETE, sets[which], 0);
}

static void trim_flags(struct ruleset *rs, const struct port_record *port)
{
    const uint8_t left = port_left_flags(port);
    if (left & FLAG_REJECTED)
        number_element(rs, &port->record, ELEMENT_DELETE, SET_REJECTED, 0);
    if (left & FLAG_DROPPED)
        number_element(rs, &port->record, ELEMENT_DELETE, SET_DROPPED, 0);
}

/* Nothing leads to any of it, so it may be cut anywhere. */
void encode_trims(struct ruleset *rs)
{
    for (size_t at = 0; at < rs->due_trims; at++)
        trim_flags(rs, rs->trims.v[at]);
    static void (*const trims[])(struct ruleset * rs, const struct port_record *port,
                                 enum port_part which) = {trim_number, trim_slots};
    for (size_t i = 0; i < sizeof(trims) / sizeof(trims[0]); i++)
        for (enum port_part which = 0; which < PARTS; which++) {
            for (size_t at = 0; at < rs->due_trims; at++)
                trims[i](rs, rs->trims.v[at], which);
            nft_batch_may_cut(&rs->batch);
        }
}

/* ---- numbers ---- */

/* What a service port gains is there before frontends lead to it, and what it loses is there until
 * none does any more. */
enum phase { PHASE_GAINS, PHASE_FRONTENDS, PHASE_LOSSES, PHASES };

static bool is_in_phase(enum phase phase, enum table_set set, struct set_number number)
{
    if (set_owner(set) == OWNER_FRONTEND)
        return phase == PHASE_FRONTENDS;
    return set_owner(set) == OWNER_PORT && phase == (number.wanted ? PHASE_GAINS : PHASE_LOSSES);
}

/* Of the pending records from @from to @end. */
static void encode_set(struct ruleset *rs, size_t from, size_t end, enum phase phase,
                       enum nft_element_op op, enum table_set set)
{
    for (size_t i = from; i < end; i++) {
        const struct record *record = rs->pending.v[i];
        if (!set_is_of(set, record) || record->staged)
            continue;
        struct set_number number = set_number(set, record);
        uint32_t value = op == ELEMENT_ADD ? number.wanted : number.held;
        if (number.held != number.wanted && value != 0 && is_in_phase(phase, set, number))
            number_element(rs, record, op, set, value);
    }
}

/* One set after the other, so that their elements share messages. */
static void encode_phase(struct ruleset *rs, enum phase phase)
{
    for (size_t from = 0, end; from < rs->pending.n; from = end) {
        end = from + GROUP < rs->pending.n ? from + GROUP : rs->pending.n;
        nft_batch_together(&rs->batch, true);
        for (enum table_set set = 0; set < NUMBER_SETS; set++) {
            encode_set(rs, from, end, phase, ELEMENT_DELETE, set);
            encode_set(rs, from, end, phase, ELEMENT_ADD, set);
        }
        nft_batch_together(&rs->batch, false);
        nft_batch_may_cut(&rs->batch);
    }
}

/* Records of which just some slots go ahead stay as they are. */
void encode_numbers(struct ruleset *rs)
{
    for (enum phase phase = 0; phase < PHASES; phase++)
        encode_phase(rs, phase);
}
