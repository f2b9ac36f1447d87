/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "kube-nftd/ruleset/drift.h"

#include "record.h"

#include <string.h>

/* At a time; what is more is found the next time. */
#define MOST_SUSPECTS 900

static void suspect(struct ruleset *rs, enum table_set set, const struct nft_element *element)
{
    if (rs->suspects.n < MOST_SUSPECTS)
        ruleset_suspect_element(rs, set_name(set), element);
}

static void suspect_key(struct ruleset *rs, enum table_set set, const struct key *key)
{
    const struct nft_element element = {.key = key->bytes, .key_length = key->length};
    suspect(rs, set, &element);
}

/* ---- what was seen of a record: a bit for each of its keys, since an element may come twice ----
 */

/* So many fit into the record itself. Of more, it has the place in ruleset->seen: there first the
 * number of words, then their bits. */
#define FEW 31
#define MANY (1u << FEW)
#define WORD 32

static uint32_t *words_of(const struct ruleset *rs, const struct record *record)
{
    return &rs->seen.v[record->seen & ~MANY];
}

static void make_words(struct ruleset *rs, struct record *record, uint32_t room)
{
    uint32_t n = (room + WORD - 1) / WORD;
    record->seen = MANY | (uint32_t)rs->seen.n;
    vec_push(&rs->seen, n);
    for (uint32_t i = 0; i < n; i++)
        vec_push(&rs->seen, 0);
}

/* What has grown since it was seen first has no room for more: that is asked for once more. */
static void see(struct ruleset *rs, enum table_set set, struct record *record, uint32_t at)
{
    uint32_t room = held_room(set, record);
    if (record->seen == 0 && room > FEW)
        make_words(rs, record, room);
    if (!(record->seen & MANY))
        record->seen |= at < FEW ? 1u << at : 0;
    else if (at / WORD < *words_of(rs, record))
        words_of(rs, record)[1 + at / WORD] |= 1u << at % WORD;
}

static bool was_seen(const struct ruleset *rs, const struct record *record, uint32_t at)
{
    if (!(record->seen & MANY))
        return at < FEW && record->seen & 1u << at;
    return at / WORD < *words_of(rs, record) &&
           words_of(rs, record)[1 + at / WORD] & 1u << at % WORD;
}

/* ---- sets ---- */

void drift_take(struct ruleset *rs, enum table_set set, const struct nft_element *element)
{
    struct held held;
    if (set_is_ranged(set))
        boundaries_take(&rs->boundaries, rs->family, element);
    else if (!held_find(rs, set, element, &held) || !held_is(&held, element))
        suspect(rs, set, element);
    else if (held.content)
        held.content->seen = true;
    else
        see(rs, set, held.record, held.at);
}

static void finish_records(struct ruleset *rs, enum table_set set, bool whole)
{
    hash_table_each (ruleset_records_of(rs, set), struct record, record) {
        for (uint32_t i = 0; whole && i < held_room(set, record); i++) {
            if (!held_has(set, record, i) || was_seen(rs, record, i))
                continue;
            struct key key = set_key(set, record, i);
            suspect_key(rs, set, &key);
        }
        record->seen = 0;
    }
    vec_free(&rs->seen);
}

static void finish_contents(struct ruleset *rs, enum table_set set, bool whole)
{
    hash_table_each (&rs->contents.all, struct content, content) {
        if (content_set_of(content) != set)
            continue;
        if (whole && content->in_kernel && !content->seen) {
            struct key key = {.length = content->key_length};
            memcpy(key.bytes, content_key(content), key.length);
            suspect_key(rs, set, &key);
        }
        content->seen = false;
    }
}

static void finish_ranges(struct ruleset *rs, enum table_set set, bool whole)
{
    const struct nft_element any = {.key = NULL};
    range_vec found = {0};
    if (whole && (boundaries_pair(&rs->boundaries, rs->family, &found) != BOUNDARIES_PAIRED ||
                  !held_has_ranges(rs, set, &found)))
        suspect(rs, set, &any);
    vec_free(&found);
    boundaries_clear(&rs->boundaries);
}

void drift_finish(struct ruleset *rs, enum table_set set, bool whole)
{
    whole = whole && rs->kernel_known;
    if (set_is_ranged(set))
        finish_ranges(rs, set, whole);
    else if (set_has_contents(set))
        finish_contents(rs, set, whole);
    else
        finish_records(rs, set, whole);
}

void drift_check_rules(struct ruleset *rs, struct nft_socket *socket)
{
    struct error err = {0};
    bool same = true;
    if (rs->kernel_known && rules_check(rs, socket, &same, &err) == 0 && !same)
        ruleset_suspect_rules(rs);
    error_clear(&err);
}
