/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "drift.h"

#include "kube-nftd/base.h"
#include "record.h"

#include <math.h>
#include <string.h>

/* A piece is followed by a rest so many times as long. */
#define SHARE 200.0
#define SHORTEST_REST 0.001

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

/* ---- piece by piece ---- */

struct taking {
    struct ruleset *rs;
    enum table_set set;
};

static void on_element(void *ctx, const struct nft_element *element)
{
    const struct taking *taking = ctx;
    if (taking->rs->kernel_known)
        drift_take(taking->rs, taking->set, element);
}

void drift_stop(struct drift *drift)
{
    element_dump_close(drift->dump);
    drift->dump = NULL;
}

/* Goes on to the next set. Returns whether that was the last one. */
static bool advance(struct drift *drift, struct ruleset *rs, struct nft_socket *socket, bool whole)
{
    drift_finish(rs, drift->set, whole);
    drift_stop(drift);
    if (++drift->set < TABLE_SETS)
        return false;
    drift->set = 0;
    drift_check_rules(rs, socket);
    if (rs->kernel_known)
        drift_count_records(rs, socket);
    return true;
}

/* Returns whether everything was looked through. */
static bool step(struct drift *drift, struct ruleset *rs, struct nft_socket *socket, bool *found)
{
    struct error err = {0};
    struct taking taking = {rs, drift->set};
    enum element_dump_state state = DUMP_FAILED;
    if (!drift->dump && rs->kernel_known)
        drift->dump = element_dump_open(rs->family, RULESET_TABLE, set_name(drift->set), &err);
    if (drift->dump)
        state = element_dump_step(drift->dump, on_element, &taking, &err);
    if (err.text)
        log_debug(2, "audit", "family=%s %s", family_name(rs->family), err.text);
    error_clear(&err);
    if (state == DUMP_GOES_ON)
        return false;
    bool ended = advance(drift, rs, socket, state == DUMP_ENDED);
    *found = ruleset_has_suspects(rs);
    return ended;
}

double drift_turn(struct drift *drift, struct ruleset *rs, struct nft_socket *socket, double period,
                  double now, bool *found)
{
    if (drift->due == 0)
        drift->due = now + period;
    if (now < drift->due)
        return drift->due;
    double begun = clock_cpu();
    bool ended = step(drift, rs, socket, found);
    double spent = clock_cpu() - begun;
    drift->seconds += spent;
    drift->due = now + (ended ? period : fmax(SHARE * spent, SHORTEST_REST));
    if (ended) {
        log_debug(2, "audit", "family=%s audit completed cpu_seconds=%.6f", family_name(rs->family),
                  drift->seconds);
        drift->seconds = 0;
        drift->ended++;
    }
    return drift->due;
}
