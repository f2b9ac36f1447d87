/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The difference between wanted and kernel as messages, in an order that is right even if the
 * batch has to be cut: what a packet is led to is always there.
 */
#include "record.h"
#include "slots.h"
#include "template.h"

#include <string.h>

/* About so many elements go without a place to cut: what replaces something (delete the old, add
 * the new) is never cut in between. */
#define GROUP 500

static int encode_table(struct ruleset *rs, struct error *err)
{
    if (rs->table_replaced)
        nft_batch_delete_table(&rs->batch);
    nft_batch_add_table(&rs->batch, rs->owned, rs->comment);
    return program_layout(&rs->base, true, &rs->batch, err);
}

static int encode_shape(struct ruleset *rs, struct shape shape, struct error *err)
{
    struct layout layout;
    if (ruleset_read_shape(rs, shape, &layout, err))
        return -1;
    int result = program_layout(&layout, false, &rs->batch, err);
    layout_free(&layout);
    return result;
}

int ruleset_encode_shapes(struct ruleset *rs, struct error *err)
{
    shape_vec shapes = {0};
    ruleset_new_shapes(rs, &shapes);
    vec_clear(&rs->new_shapes);
    nft_batch_finish(&rs->batch);
    rs->shapes_begin = rs->batch.used;
    int result = 0;
    for (size_t i = 0; i < shapes.n && result == 0; i++) {
        result = encode_shape(rs, shapes.v[i], err);
        nft_batch_may_cut(&rs->batch);
        vec_push(&rs->new_shapes, (struct new_shape){shapes.v[i], rs->batch.used});
    }
    vec_free(&shapes);
    return result;
}

/* ---- contents ---- */

static void encode_content(struct ruleset *rs, struct content *content, enum nft_element_op op)
{
    enum table_set set = content_set_of(content);
    const uint8_t *key = content_key(content);
    size_t length = content->key_length;
    bool has_value = op == ELEMENT_ADD && content->value_length > 0;
    refusals_note_owner(rs, NULL, content);
    if (set_is_ranged(set))
        nft_batch_range(&rs->batch, op, set_name(set), key, key + length / 2, length / 2);
    else
        nft_batch_element(&rs->batch, op, set_name(set), key, length,
                          has_value ? content_value(content) : NULL,
                          has_value ? content->value_length : 0);
}

/* Ranges must make room before others take their place, so they go all together. */
static void encode_ranges(struct ruleset *rs)
{
    struct contents *contents = &rs->contents;
    rs->batch.together = true;
    vec_each (&contents->pending, content)
        if (set_is_ranged(content_set_of(*content)) && content_goes(*content))
            encode_content(rs, *content, ELEMENT_DELETE);
    vec_each (&contents->pending, content)
        if (set_is_ranged(content_set_of(*content)) && content_comes(*content))
            encode_content(rs, *content, ELEMENT_ADD);
    rs->batch.together = false;
    nft_batch_may_cut(&rs->batch);
}

/* Those of one set that come, or get another value. */
static void encode_coming(struct ruleset *rs, enum table_set set)
{
    size_t n = 0;
    vec_each (&rs->contents.pending, it) {
        struct content *content = *it;
        if (content_set_of(content) != set || !content_comes(content))
            continue;
        if (content_goes(content))
            encode_content(rs, content, ELEMENT_DELETE);
        encode_content(rs, content, ELEMENT_ADD);
        if (++n % GROUP == 0)
            nft_batch_may_cut(&rs->batch);
    }
}

static void encode_going(struct ruleset *rs, enum table_set set)
{
    vec_each (&rs->contents.pending, content)
        if (content_set_of(*content) == set && content_goes(*content) && !content_comes(*content))
            encode_content(rs, *content, ELEMENT_DELETE);
}

/* What is not served at a cluster IP is rejected, so these come behind what is served there and go
 * before it. */
enum which_contents { OTHERS, CLUSTER_IPS };

static void encode_contents(struct ruleset *rs, enum which_contents which,
                            void (*encode)(struct ruleset *, enum table_set))
{
    if (rs->contents.pending.n == 0)
        return;
    for (enum table_set set = 0; set < TABLE_SETS; set++)
        if (set_owner(set) == OWNER_TABLE && (set == SET_CLUSTER_IPS) == (which == CLUSTER_IPS))
            encode(rs, set);
    nft_batch_may_cut(&rs->batch);
}

/* ---- an element of a record ---- */

static void number_element(struct ruleset *rs, struct record *record, enum nft_element_op op,
                           enum table_set set, uint32_t value)
{
    struct key key = set_key(set, record, 0);
    bool has_value = op == ELEMENT_ADD && *set_value_fields(set);
    refusals_note_owner(rs, record, NULL);
    nft_batch_element(&rs->batch, op, set_name(set), key.bytes, key.length,
                      has_value ? &value : NULL, has_value ? sizeof(value) : 0);
}

static void slot_element(struct ruleset *rs, struct record *record, enum table_set set,
                         enum nft_element_op op, uint32_t slot, const struct backend *backend)
{
    struct key key = set_key(set, record, slot), value = {.length = 0};
    if (op == ELEMENT_ADD)
        value = value_of_backend(rs->family, backend);
    refusals_note_owner(rs, record, NULL);
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
        struct record *record = rs->pending.v[at->record];
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
        rs->batch.together = true;
        encode_slot_group(rs, set, ELEMENT_DELETE, &at);
        encode_slot_group(rs, set, ELEMENT_ADD, &again);
        rs->batch.together = false;
        nft_batch_may_cut(&rs->batch);
    }
}

static void encode_slots(struct ruleset *rs)
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

static void trim_slots(struct ruleset *rs, struct port_record *port, enum port_part which)
{
    static const enum table_set sets[PARTS] = {SET_ENDPOINTS, SET_LOCAL_ENDPOINTS};
    const struct part *part = port_part(port, which);
    uint32_t end = part ? part->n_slots : 0;
    for (uint32_t i = part ? trim_keeps(rs, port, which) : 0; i < end; i++)
        if (!slot_is_empty(&part->slots[i]))
            slot_element(rs, &port->record, sets[which], ELEMENT_DELETE, i, NULL);
}

static void trim_number(struct ruleset *rs, struct port_record *port, enum port_part which)
{
    static const enum table_set sets[PARTS] = {SET_PORTS, SET_LOCAL_PORTS};
    if (port_is_left(port, which))
        number_element(rs, &port->record, ELEMENT_DELETE, sets[which], 0);
}

static void trim_flags(struct ruleset *rs, struct port_record *port)
{
    const uint8_t left = port_left_flags(port);
    if (left & FLAG_REJECTED)
        number_element(rs, &port->record, ELEMENT_DELETE, SET_REJECTED, 0);
    if (left & FLAG_DROPPED)
        number_element(rs, &port->record, ELEMENT_DELETE, SET_DROPPED, 0);
}

/* Nothing leads to any of it, so it may be cut anywhere. */
static void encode_trims(struct ruleset *rs)
{
    for (size_t at = 0; at < rs->due_trims; at++)
        trim_flags(rs, rs->trims.v[at]);
    static void (*const trims[])(struct ruleset * rs, struct port_record * port,
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

/* Of the pending records from @from to @end. */
static void encode_set(struct ruleset *rs, size_t from, size_t end, enum phase phase,
                       enum nft_element_op op, enum table_set set)
{
    for (size_t i = from; i < end; i++) {
        struct record *record = rs->pending.v[i];
        if (record->is_port != (phase != PHASE_FRONTENDS) || record->staged)
            continue;
        struct set_number number = set_number(set, record);
        uint32_t value = op == ELEMENT_ADD ? number.wanted : number.held;
        if (number.held == number.wanted || value == 0)
            continue;
        if (phase == PHASE_FRONTENDS || phase == (number.wanted ? PHASE_GAINS : PHASE_LOSSES))
            number_element(rs, record, op, set, value);
    }
}

/* One set after the other, so that their elements share messages. */
static void encode_phase(struct ruleset *rs, enum phase phase)
{
    const enum set_owner owner = phase == PHASE_FRONTENDS ? OWNER_FRONTEND : OWNER_PORT;
    for (size_t from = 0, end; from < rs->pending.n; from = end) {
        end = from + GROUP < rs->pending.n ? from + GROUP : rs->pending.n;
        rs->batch.together = true;
        for (enum table_set set = 0; set < NUMBER_SETS; set++) {
            if (set_owner(set) != owner)
                continue;
            encode_set(rs, from, end, phase, ELEMENT_DELETE, set);
            encode_set(rs, from, end, phase, ELEMENT_ADD, set);
        }
        rs->batch.together = false;
        nft_batch_may_cut(&rs->batch);
    }
}

/* Records of which just some slots go ahead stay as they are. */
static void encode_numbers(struct ruleset *rs)
{
    for (enum phase phase = 0; phase < PHASES; phase++)
        encode_phase(rs, phase);
}

/* ---- all of it ---- */

int ruleset_encode(struct ruleset *rs, struct error *err)
{
    if (rs->table_missing && (encode_table(rs, err) || ruleset_encode_shapes(rs, err)))
        return -1;
    connections_encode(rs);
    encode_trims(rs);
    encode_ranges(rs);
    encode_contents(rs, CLUSTER_IPS, encode_going);
    encode_contents(rs, OTHERS, encode_coming);
    encode_slots(rs);
    encode_numbers(rs);
    encode_contents(rs, OTHERS, encode_going);
    encode_contents(rs, CLUSTER_IPS, encode_coming);
    return 0;
}
