/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What other programs may have changed in the table. What they were seen doing may not hold any
 * more, so the kernel is asked for each element that it was about.
 */
#include "held.h"
#include "record.h"

#include <string.h>

/* From so many on, reading everything is not more work. */
#define MOST_SUSPECTS 1000

/* Packets write it, and nothing in it is wanted. */
static bool is_of_packets(const struct ruleset *rs, const char *name)
{
    vec_each (&rs->base.sets, set)
        if (strcmp(set->name, name) == 0)
            return set->flags && strstr(set->flags, "dynamic");
    return false;
}

/* All of a set of ranges is looked at for one. */
static bool is_noted(const struct ruleset *rs, enum table_set set)
{
    vec_each (&rs->suspects, suspect)
        if (suspect->set == set)
            return true;
    return false;
}

void ruleset_suspect_element(struct ruleset *rs, const char *set, const struct nft_element *element)
{
    struct suspect suspect = {.set = set_of_name(set)};
    if (is_of_packets(rs, set))
        return;
    if (rules_map(set)) {
        ruleset_suspect_rules(rs);
        return;
    }
    if (suspect.set == TABLE_SETS || rs->suspects.n >= MOST_SUSPECTS ||
        element->key_length > sizeof(suspect.key.bytes)) {
        ruleset_suspect_all(rs);
        return;
    }
    if (set_is_ranged(suspect.set) && is_noted(rs, suspect.set))
        return;
    suspect.key.length = element->key ? element->key_length : 0;
    if (suspect.key.length)
        memcpy(suspect.key.bytes, element->key, suspect.key.length);
    vec_push(&rs->suspects, suspect);
}

void ruleset_suspect_all(struct ruleset *rs)
{
    rs->all_suspect = true;
}

void ruleset_suspect_rules(struct ruleset *rs)
{
    rs->rules_suspect = true;
}

bool ruleset_has_suspects(const struct ruleset *rs)
{
    return rs->all_suspect || rs->rules_suspect || rs->suspects.n > 0;
}

struct observation {
    struct ruleset *rs;
    enum table_set set;
    enum held_verdict verdict;
    bool there;
};

static void on_found(void *ctx, const struct nft_element *element)
{
    struct observation *o = ctx;
    o->there = true;
    o->verdict = held_observe(o->rs, o->set, element, true);
}

static enum held_verdict look_at(struct ruleset *rs, struct nft_socket *socket,
                                 const struct suspect *suspect)
{
    struct error err = {0};
    struct observation o = {rs, suspect->set, HELD_SAME, false};
    const struct key *key = &suspect->key;
    int result = nft_socket_get_element(socket, rs->family, RULESET_TABLE, set_name(suspect->set),
                                        key->bytes, key->length, on_found, &o, &err);
    error_clear(&err);
    if (result)
        return HELD_ALIEN;
    if (o.there)
        return o.verdict;
    const struct nft_element element = {.key = key->bytes, .key_length = key->length};
    return held_observe(rs, suspect->set, &element, false);
}

struct range_reading {
    enum family family;
    struct boundaries boundaries;
};

static void on_boundary(void *ctx, const struct nft_element *element)
{
    struct range_reading *reading = ctx;
    boundaries_take(&reading->boundaries, reading->family, element);
}

static enum held_verdict look_at_ranges(struct ruleset *rs, struct nft_socket *socket,
                                        enum table_set set)
{
    struct error err = {0};
    struct range_reading reading = {.family = rs->family};
    range_vec found = {0};
    enum held_verdict verdict = HELD_ALIEN;
    if (nft_socket_read_elements(socket, rs->family, RULESET_TABLE, set_name(set), on_boundary,
                                 &reading, &err) == 0 &&
        boundaries_pair(&reading.boundaries, rs->family, &found) == BOUNDARIES_PAIRED)
        verdict = held_observe_ranges(rs, set, &found);
    boundaries_clear(&reading.boundaries);
    vec_free(&found);
    error_clear(&err);
    return verdict;
}

/* Only the rules are read, unless the table is another one. */
static size_t look_at_rules(struct ruleset *rs, struct nft_socket *socket)
{
    struct error err = {0};
    bool same = false;
    if (ruleset_has_changed(rs, socket) || rules_check(rs, socket, &same, &err))
        rs->all_suspect = true;
    else
        rs->rules_wrong = !same;
    error_clear(&err);
    return rs->rules_wrong;
}

size_t ruleset_check_suspects(struct ruleset *rs, struct nft_socket *socket)
{
    size_t changed = 0;
    if (rs->rules_suspect && rs->kernel_known && !rs->all_suspect)
        changed += look_at_rules(rs, socket);
    for (size_t i = 0; i < rs->suspects.n && rs->kernel_known && !rs->all_suspect; i++) {
        const struct suspect *suspect = &rs->suspects.v[i];
        enum held_verdict verdict = set_is_ranged(suspect->set)
                                        ? look_at_ranges(rs, socket, suspect->set)
                                        : look_at(rs, socket, suspect);
        changed += verdict != HELD_SAME;
        rs->all_suspect = verdict == HELD_ALIEN;
    }
    if (rs->all_suspect)
        rs->kernel_known = false;
    changed += rs->all_suspect;
    rs->all_suspect = rs->rules_suspect = false;
    vec_clear(&rs->suspects);
    return changed;
}
