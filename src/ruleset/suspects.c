/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What other programs may have changed in the table. What they were seen doing may not hold any
 * more, so the kernel is asked for each element that it was about.
 */
#include "kube-nftd/ruleset/held.h"
#include "kube-nftd/ruleset/record.h"

#include <string.h>

/* From so many on, reading everything is not more work. */
#define MOST_SUSPECTS 1000

/* Packets write it, and nothing in it is wanted. */
#define MAP_AFFINITY "affinity"

static void copy_key(struct key *to, const uint8_t *from, size_t length)
{
    to->length = from ? length : 0;
    if (to->length)
        memcpy(to->bytes, from, length);
}

/* All of a set of ranges is looked at for one. */
static bool is_noted(const struct ruleset *rs, int set)
{
    vec_each (&rs->suspects, suspect)
        if (suspect->set == set)
            return true;
    return false;
}

void ruleset_suspect_element(struct ruleset *rs, const char *set, const struct nft_element *element)
{
    struct suspect suspect = {.set = held_set_of(set)};
    if (strcmp(set, MAP_AFFINITY) == 0)
        return;
    if (suspect.set < 0 || rs->suspects.n >= MOST_SUSPECTS ||
        element->key_length > sizeof(suspect.key.first.bytes)) {
        ruleset_suspect_all(rs);
        return;
    }
    if (held_is_ranged(suspect.set) && is_noted(rs, suspect.set))
        return;
    copy_key(&suspect.key.first, element->key, element->key_length);
    copy_key(&suspect.key.last, element->key_end, element->key_length);
    vec_push(&rs->suspects, suspect);
}

void ruleset_suspect_all(struct ruleset *rs)
{
    rs->all_suspect = true;
}

void ruleset_suspect_rules(struct ruleset *rs)
{
    rs->damaged = rs->all_suspect = true;
}

bool ruleset_has_suspects(const struct ruleset *rs)
{
    return rs->all_suspect || rs->suspects.n > 0;
}

struct observation {
    struct ruleset *rs;
    const struct suspect *suspect;
    enum held_verdict verdict;
    bool there; /* the very one */
};

static bool is_it(const struct held_key *key, const struct nft_element *element)
{
    const struct key *last = key->last.length ? &key->last : &key->first;
    const uint8_t *end = element->key_end ? element->key_end : element->key;
    return element->key && element->key_length == key->first.length &&
           memcmp(element->key, key->first.bytes, key->first.length) == 0 &&
           memcmp(end, last->bytes, last->length) == 0;
}

static void on_found(void *ctx, const struct nft_element *element)
{
    struct observation *o = ctx;
    o->there = is_it(&o->suspect->key, element);
    o->verdict = held_observe(o->rs, o->suspect->set, element, true);
}

static enum held_verdict worse(enum held_verdict a, enum held_verdict b)
{
    return a > b ? a : b;
}

/* Where a range was, another one may be. */
static enum held_verdict look_at(struct ruleset *rs, struct nft_socket *socket,
                                 const struct suspect *suspect)
{
    struct error err = {0};
    struct observation o = {rs, suspect, HELD_SAME, false};
    const struct key *key = &suspect->key.first, *last = &suspect->key.last;
    int result =
        nft_socket_get_element(socket, rs->family, RULESET_TABLE, held_set_name(suspect->set),
                               key->bytes, key->length, on_found, &o, &err);
    error_clear(&err);
    if (result)
        return HELD_ALIEN;
    if (o.there)
        return o.verdict;
    const struct nft_element element = {
        .key = key->bytes, .key_length = key->length, .key_end = last->length ? last->bytes : NULL};
    return worse(o.verdict, held_observe(rs, suspect->set, &element, false));
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

static enum held_verdict look_at_ranges(struct ruleset *rs, struct nft_socket *socket, int set)
{
    struct error err = {0};
    struct range_reading reading = {.family = rs->family};
    range_vec found = {0};
    enum held_verdict verdict = HELD_ALIEN;
    if (nft_socket_read_elements(socket, rs->family, RULESET_TABLE, held_set_name(set), on_boundary,
                                 &reading, &err) == 0 &&
        boundaries_pair(&reading.boundaries, rs->family, &found) == BOUNDARIES_PAIRED)
        verdict = held_observe_ranges(rs, set, &found);
    boundaries_clear(&reading.boundaries);
    vec_free(&found);
    error_clear(&err);
    return verdict;
}

size_t ruleset_check_suspects(struct ruleset *rs, struct nft_socket *socket)
{
    size_t changed = 0;
    for (size_t i = 0; i < rs->suspects.n && rs->kernel_known && !rs->all_suspect; i++) {
        const struct suspect *suspect = &rs->suspects.v[i];
        enum held_verdict verdict = held_is_ranged(suspect->set)
                                        ? look_at_ranges(rs, socket, suspect->set)
                                        : look_at(rs, socket, suspect);
        changed += verdict != HELD_SAME;
        rs->all_suspect = verdict == HELD_ALIEN;
    }
    if (rs->all_suspect)
        rs->kernel_known = false;
    changed += rs->all_suspect;
    rs->all_suspect = false;
    vec_clear(&rs->suspects);
    return changed;
}
