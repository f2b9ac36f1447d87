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

void ruleset_suspect_element(struct ruleset *rs, const char *set, const struct nft_element *element)
{
    struct suspect suspect = {.set = held_set_of(set), .key.length = element->key_length};
    if (strcmp(set, MAP_AFFINITY) == 0)
        return;
    if (suspect.set < 0 || rs->suspects.n >= MOST_SUSPECTS ||
        element->key_length > sizeof(suspect.key.bytes)) {
        ruleset_suspect_all(rs);
        return;
    }
    if (element->key_length)
        memcpy(suspect.key.bytes, element->key, element->key_length);
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
    int set;
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
    int result =
        nft_socket_get_element(socket, rs->family, RULESET_TABLE, held_set_name(suspect->set),
                               suspect->key.bytes, suspect->key.length, on_found, &o, &err);
    error_clear(&err);
    if (result)
        return HELD_ALIEN;
    const struct nft_element key = {.key = suspect->key.bytes, .key_length = suspect->key.length};
    return o.there ? o.verdict : held_observe(rs, suspect->set, &key, false);
}

size_t ruleset_check_suspects(struct ruleset *rs, struct nft_socket *socket)
{
    size_t changed = 0;
    for (size_t i = 0; i < rs->suspects.n && rs->kernel_known && !rs->all_suspect; i++) {
        enum held_verdict verdict = look_at(rs, socket, &rs->suspects.v[i]);
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
