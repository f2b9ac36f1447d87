/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The messages for what is keyed by a frontend. */
#include "kube-nftd/ruleset/record.h"
#include "kube-nftd/ruleset/slots.h"

#include <stdlib.h>

/* What replaces something (delete the old, add the new) is not cut in between: it goes in groups of
 * about so many. */
#define GROUP 500

/* ---- one element ---- */

static void frontend_element(struct ruleset *rs, const struct record *record,
                             enum nft_element_op op, const char *set, uint32_t value)
{
    struct key key = key_of_frontend(&record->frontend);
    bool has_value = op == ELEMENT_ADD && value != 0;
    nft_batch_element(&rs->batch, op, set, key.bytes, key.length, has_value ? &value : NULL,
                      has_value ? sizeof(value) : 0);
}

static void slot_element(struct ruleset *rs, const struct record *record, const char *map,
                         enum nft_element_op op, uint32_t slot, const struct backend *backend)
{
    struct key key = key_of_slot(&record->frontend, slot), value = {.length = 0};
    if (op == ELEMENT_ADD)
        value = value_of_backend(rs->family, backend);
    nft_batch_element(&rs->batch, op, map, key.bytes, key.length, value.length ? value.bytes : NULL,
                      value.length);
}

/* ---- slots ---- */

/* The parts of a record: all backends, and those on this node. */
enum { ALL, LOCAL, PARTS };

static const struct part *part_of(const struct record *record, int which)
{
    return which == ALL ? &record->all : record->local;
}

static const char *slots_of(int which)
{
    return which == ALL ? MAP_ENDPOINTS : MAP_LOCAL_ENDPOINTS;
}

static void encode_new_slots(struct ruleset *rs, int which)
{
    vec_each (&rs->pending, it) {
        const struct part *part = part_of(*it, which);
        if (!part)
            continue;
        size_t n;
        const struct slot_move *moves = part_moves(part, &n);
        for (size_t i = 0; i < n; i++)
            if (slot_is_empty(&part->slots[moves[i].slot]))
                slot_element(rs, *it, slots_of(which), ELEMENT_ADD, moves[i].slot,
                             &moves[i].backend);
        const struct backend *added = part_added(part, &n);
        for (size_t i = 0; i < n; i++)
            slot_element(rs, *it, slots_of(which), ELEMENT_ADD, part->n_slots + (uint32_t)i,
                         &added[i]);
    }
}

/* A place among the moves of the pending records. */
struct place {
    size_t record, move;
};

/* Deletes or adds a group of the slots that get another backend, from @at on, which is moved. */
static void encode_slot_group(struct ruleset *rs, int which, enum nft_element_op op,
                              struct place *at)
{
    for (size_t n = 0; at->record < rs->pending.n; at->record++, at->move = 0) {
        const struct record *record = rs->pending.v[at->record];
        const struct part *part = part_of(record, which);
        size_t n_moves = 0;
        const struct slot_move *moves = part ? part_moves(part, &n_moves) : NULL;
        for (; at->move < n_moves; at->move++) {
            const struct slot_move *move = &moves[at->move];
            if (slot_is_empty(&part->slots[move->slot]))
                continue;
            if (n++ == GROUP)
                return;
            slot_element(rs, record, slots_of(which), op, move->slot, &move->backend);
        }
    }
}

static void encode_replaced_slots(struct ruleset *rs, int which)
{
    for (struct place at = {0}; at.record < rs->pending.n;) {
        struct place again = at;
        nft_batch_together(&rs->batch, true);
        encode_slot_group(rs, which, ELEMENT_DELETE, &at);
        encode_slot_group(rs, which, ELEMENT_ADD, &again);
        nft_batch_together(&rs->batch, false);
        nft_batch_may_cut(&rs->batch);
    }
}

void encode_slots(struct ruleset *rs)
{
    for (int which = ALL; which < PARTS; which++) {
        encode_replaced_slots(rs, which);
        encode_new_slots(rs, which);
        nft_batch_may_cut(&rs->batch);
    }
}

/* ---- what is left behind ---- */

static void encode_unreachable_slots(struct ruleset *rs, const struct record *record, int which)
{
    const struct part *part = part_of(record, which);
    for (uint32_t i = trim_keeps(rs, record, part); i < part->n_slots; i++)
        if (!slot_is_empty(&part->slots[i]))
            slot_element(rs, record, slots_of(which), ELEMENT_DELETE, i, NULL);
}

static void trim_slots(struct ruleset *rs, const struct record *record)
{
    encode_unreachable_slots(rs, record, ALL);
}

static void trim_local_service(struct ruleset *rs, const struct record *record)
{
    if (local_is_unreachable(record))
        frontend_element(rs, record, ELEMENT_DELETE, MAP_LOCAL_SERVICES, 0);
}

static void trim_local_slots(struct ruleset *rs, const struct record *record)
{
    if (record->local && !local_is_unreachable(record))
        encode_unreachable_slots(rs, record, LOCAL);
}

/* Nothing leads to any of it, so it may be cut anywhere. */
void encode_trims(struct ruleset *rs)
{
    static void (*const trims[])(struct ruleset * rs, const struct record *record) = {
        trim_slots, trim_local_service, trim_local_slots};
    for (size_t i = 0; i < sizeof(trims) / sizeof(trims[0]); i++) {
        for (size_t at = 0; at < rs->due_trims; at++)
            trims[i](rs, rs->trims.v[at]);
        nft_batch_may_cut(&rs->batch);
    }
}

/* ---- values ---- */

static void encode_old_value(struct ruleset *rs, const struct record *record, const char *map,
                             uint32_t held, uint32_t wanted)
{
    if (held && held != wanted)
        frontend_element(rs, record, ELEMENT_DELETE, map, 0);
}

static void encode_new_value(struct ruleset *rs, const struct record *record, const char *map,
                             uint32_t held, uint32_t wanted)
{
    if (wanted && held != wanted)
        frontend_element(rs, record, ELEMENT_ADD, map, wanted);
}

static void encode_old_service(struct ruleset *rs, struct record *record)
{
    encode_old_value(rs, record, MAP_SERVICES, record->all.service, record->all.wants);
}

static void encode_new_service(struct ruleset *rs, struct record *record)
{
    encode_new_value(rs, record, MAP_SERVICES, record->all.service, record->all.wants);
}

/* A value that nothing will lead to stays until packets on their way to it are through. */
static void encode_old_local(struct ruleset *rs, struct record *record)
{
    const struct part *local = record->local;
    if (local && (local->wants || service_leads_to_local(record->all.wants)))
        encode_old_value(rs, record, MAP_LOCAL_SERVICES, local->service, local->wants);
}

static void encode_new_local(struct ruleset *rs, struct record *record)
{
    const struct part *local = record->local;
    if (local)
        encode_new_value(rs, record, MAP_LOCAL_SERVICES, local->service, local->wants);
}

static void encode_old_id(struct ruleset *rs, struct record *record)
{
    const struct extras *extras = record->extras;
    if (extras)
        encode_old_value(rs, record, MAP_AFFINITY_IDS, extras->affinity_id, extras->wants_id);
}

static void encode_new_id(struct ruleset *rs, struct record *record)
{
    const struct extras *extras = record->extras;
    if (extras)
        encode_new_value(rs, record, MAP_AFFINITY_IDS, extras->affinity_id, extras->wants_id);
}

static void encode_old_timeout(struct ruleset *rs, struct record *record)
{
    const struct extras *extras = record->extras;
    if (extras)
        encode_old_value(rs, record, MAP_AFFINITY_TIMEOUTS, extras->affinity_timeout,
                         extras->wants_timeout);
}

static void encode_new_timeout(struct ruleset *rs, struct record *record)
{
    const struct extras *extras = record->extras;
    if (extras)
        encode_new_value(rs, record, MAP_AFFINITY_TIMEOUTS, extras->affinity_timeout,
                         extras->wants_timeout);
}

static void encode_old_restriction(struct ruleset *rs, struct record *record)
{
    const struct extras *extras = record->extras;
    if (extras)
        encode_old_value(rs, record, MAP_RESTRICTED, extras->restriction,
                         extras->wants_restriction);
}

static void encode_new_restriction(struct ruleset *rs, struct record *record)
{
    const struct extras *extras = record->extras;
    if (extras)
        encode_new_value(rs, record, MAP_RESTRICTED, extras->restriction,
                         extras->wants_restriction);
}

/* ---- sets of frontends ---- */

static void encode_flag(struct ruleset *rs, const struct record *record, enum nft_element_op op,
                        unsigned flag, const char *set)
{
    bool held = record->flags & flag, wanted = record->wanted_flags & flag;
    if (held != wanted && wanted == (op == ELEMENT_ADD))
        frontend_element(rs, record, op, set, 0);
}

static void encode_old_reject(struct ruleset *rs, struct record *record)
{
    encode_flag(rs, record, ELEMENT_DELETE, FLAG_REJECTED, SET_REJECTS);
}

static void encode_new_reject(struct ruleset *rs, struct record *record)
{
    encode_flag(rs, record, ELEMENT_ADD, FLAG_REJECTED, SET_REJECTS);
}

static void encode_old_drop(struct ruleset *rs, struct record *record)
{
    encode_flag(rs, record, ELEMENT_DELETE, FLAG_DROPPED, SET_DROPS);
}

static void encode_new_drop(struct ruleset *rs, struct record *record)
{
    encode_flag(rs, record, ELEMENT_ADD, FLAG_DROPPED, SET_DROPS);
}

/* ---- all of them ---- */

/* One map or set after the other, so that their elements share messages. */
static void (*const passes[])(struct ruleset *rs, struct record *record) = {
    encode_old_id,          encode_new_id,          encode_old_timeout, encode_new_timeout,
    encode_old_local,       encode_new_local,       encode_old_service, encode_old_reject,
    encode_old_drop,        encode_old_restriction, encode_new_service, encode_new_reject,
    encode_new_restriction, encode_new_drop,
};

/* Those of which just some slots go ahead stay as they are. */
void encode_frontends(struct ruleset *rs)
{
    for (size_t from = 0, end; from < rs->pending.n; from = end) {
        end = from + GROUP < rs->pending.n ? from + GROUP : rs->pending.n;
        nft_batch_together(&rs->batch, true);
        for (size_t pass = 0; pass < sizeof(passes) / sizeof(passes[0]); pass++)
            for (size_t i = from; i < end; i++)
                if (!rs->pending.v[i]->staged)
                    passes[pass](rs, rs->pending.v[i]);
        nft_batch_together(&rs->batch, false);
        nft_batch_may_cut(&rs->batch);
    }
}
