/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The difference between wanted and kernel as messages, in an order that is right even if the
 * batch has to be cut: what a packet finds by a count is always there.
 */
#include "kube-nftd/ruleset/program.h"
#include "kube-nftd/ruleset/record.h"
#include "kube-nftd/ruleset/slots.h"

#include <string.h>

/* What replaces something (delete the old, add the new) is not cut in between: it goes in groups of
 * at most so many, each of which fits one message. */
#define GROUP 500

typedef void (*encode_fn)(struct ruleset *rs, struct record *record);

static void slot_element(struct ruleset *rs, const struct record *record, enum nft_element_op op,
                         uint32_t slot, const struct backend *backend)
{
    uint8_t key[KEY_SIZE], value[KEY_SIZE];
    size_t key_length = key_of_slot(&record->frontend, slot, key), value_length = 0;
    if (backend)
        value_length = value_of_backend(rs->family, backend, value);
    nft_batch_element(&rs->batch, op, MAP_ENDPOINTS, key, key_length, backend ? value : NULL,
                      value_length);
}

static void frontend_element(struct ruleset *rs, const struct record *record,
                             enum nft_element_op op, const char *set, const uint32_t *value)
{
    uint8_t key[KEY_SIZE];
    size_t length = key_of_frontend(&record->frontend, key);
    nft_batch_element(&rs->batch, op, set, key, length, value, value ? sizeof(*value) : 0);
}

static void encode_trim(struct ruleset *rs, const struct record *record)
{
    for (uint32_t i = trim_keeps(record); i < record->n_slots; i++)
        if (!slot_is_empty(&record->slots[i]))
            slot_element(rs, record, ELEMENT_DELETE, i, NULL);
}

static bool slot_is_filled(const struct record *record, uint32_t i)
{
    return i < record->n_slots && !slot_is_empty(&record->slots[i]);
}

static void encode_new_slots(struct ruleset *rs, struct record *record)
{
    for (uint32_t i = 0; i < record->n_wanted; i++)
        if (!slot_is_filled(record, i))
            slot_element(rs, record, ELEMENT_ADD, i, &record->plan[i]);
}

/* A place among the slots of the pending records. */
struct place {
    size_t record;
    uint32_t slot;
};

/* Deletes or adds a group of the slots that get another backend, from @at on, which is moved. */
static void encode_slot_group(struct ruleset *rs, enum nft_element_op op, struct place *at)
{
    for (size_t n = 0; at->record < rs->pending.n; at->record++, at->slot = 0) {
        const struct record *record = rs->pending.v[at->record];
        for (; at->slot < record->n_wanted && at->slot < record->n_slots; at->slot++) {
            const struct backend *backend = &record->plan[at->slot];
            if (!slot_is_filled(record, at->slot) ||
                backend_compare(&record->slots[at->slot], backend) == 0)
                continue;
            if (n++ == GROUP)
                return;
            slot_element(rs, record, op, at->slot, op == ELEMENT_ADD ? backend : NULL);
        }
    }
}

static void encode_replaced_slots(struct ruleset *rs)
{
    for (struct place at = {0}; at.record < rs->pending.n;) {
        struct place again = at;
        encode_slot_group(rs, ELEMENT_DELETE, &at);
        encode_slot_group(rs, ELEMENT_ADD, &again);
        nft_batch_may_cut(&rs->batch);
    }
}

static void encode_old_service(struct ruleset *rs, struct record *record)
{
    if (record->service && record->service != service_value(record->n_wanted))
        frontend_element(rs, record, ELEMENT_DELETE, MAP_SERVICES, NULL);
}

static void encode_new_service(struct ruleset *rs, struct record *record)
{
    uint32_t value = service_value(record->n_wanted);
    if (value && value != record->service)
        frontend_element(rs, record, ELEMENT_ADD, MAP_SERVICES, &value);
}

static void encode_old_reject(struct ruleset *rs, struct record *record)
{
    if (record->rejected && !record->wants_reject)
        frontend_element(rs, record, ELEMENT_DELETE, SET_REJECTS, NULL);
}

static void encode_new_reject(struct ruleset *rs, struct record *record)
{
    if (!record->rejected && record->wants_reject)
        frontend_element(rs, record, ELEMENT_ADD, SET_REJECTS, NULL);
}

static void encode_pending(struct ruleset *rs, size_t from, size_t to, encode_fn fn)
{
    for (size_t i = from; i < to && i < rs->pending.n; i++)
        fn(rs, rs->pending.v[i]);
}

static void encode_frontends(struct ruleset *rs)
{
    for (size_t from = 0; from < rs->pending.n; from += GROUP) {
        encode_pending(rs, from, from + GROUP, encode_old_service);
        encode_pending(rs, from, from + GROUP, encode_old_reject);
        encode_pending(rs, from, from + GROUP, encode_new_service);
        encode_pending(rs, from, from + GROUP, encode_new_reject);
        nft_batch_may_cut(&rs->batch);
    }
}

static int encode_table(struct ruleset *rs, struct error *err)
{
    char comment[64];
    ruleset_comment(comment);
    if (rs->table_replaced)
        nft_batch_delete_table(&rs->batch);
    nft_batch_add_table(&rs->batch, comment);
    return program_layout(&rs->base, PROGRAM_ALL, &rs->batch, err);
}

static int encode_pick(struct ruleset *rs, unsigned n, struct error *err)
{
    struct layout pick;
    if (layout_parse(nft_template_pick, "pick.nft", rs->family, n, &pick, err))
        return -1;
    int result = program_layout(&pick, PROGRAM_WITHOUT_SETS, &rs->batch, err);
    layout_free(&pick);
    return result;
}

static int encode_picks(struct ruleset *rs, struct error *err)
{
    count_vec counts = {0};
    ruleset_new_picks(rs, &counts);
    int result = 0;
    for (size_t i = 0; i < counts.n && result == 0; i++) {
        result = encode_pick(rs, counts.v[i], err);
        ruleset_note_pick(rs, counts.v[i]);
        nft_batch_may_cut(&rs->batch);
    }
    vec_free(&counts);
    return result;
}

int ruleset_encode(struct ruleset *rs, double now, struct error *err)
{
    if (rs->table_missing && encode_table(rs, err))
        return -1;
    nft_batch_may_cut(&rs->batch);
    if (encode_picks(rs, err))
        return -1;
    vec_each (&rs->trims, record) {
        if (trim_is_due(rs, *record, now))
            encode_trim(rs, *record);
    }
    nft_batch_may_cut(&rs->batch);
    encode_replaced_slots(rs);
    encode_pending(rs, 0, rs->pending.n, encode_new_slots);
    nft_batch_may_cut(&rs->batch);
    encode_frontends(rs);
    return 0;
}
