/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "kube-nftd/ruleset/drift.h"

#include "kube-nftd/ruleset/record.h"

#include <string.h>

/* At a time; what is more is found the next time. */
#define MOST_SUSPECTS 900

static void suspect(struct ruleset *rs, int set, const struct nft_element *element)
{
    if (rs->suspects.n < MOST_SUSPECTS)
        ruleset_suspect_element(rs, held_set_name(set), element);
}

static void suspect_key(struct ruleset *rs, int set, const struct held_key *key)
{
    const struct nft_element element = {.key = key->first.bytes,
                                        .key_length = key->first.length,
                                        .key_end = key->last.length ? key->last.bytes : NULL};
    suspect(rs, set, &element);
}

void drift_take(struct ruleset *rs, int set, const struct nft_element *element)
{
    struct held held;
    if (held_is_ranged(set))
        boundaries_take(&rs->boundaries, rs->family, element);
    else if (!held_find(rs, set, element, &held) || !held_is(&held, element))
        suspect(rs, set, element);
    else if (held.content)
        held.content->seen = true;
    else
        held.record->seen++;
}

static void finish_records(struct ruleset *rs, int set, bool whole)
{
    hash_table_each (&rs->records, struct record, record) {
        if (whole && record->seen < held_count(set, record))
            for (uint32_t i = 0; i < held_room(set, record); i++) {
                struct held_key key = held_key(set, record, i);
                suspect_key(rs, set, &key);
            }
        record->seen = 0;
    }
}

static void finish_contents(struct ruleset *rs, int set, bool whole)
{
    hash_table_each (&rs->contents.all, struct content, content) {
        if (content_set_of(content) != held_content_set(set))
            continue;
        if (whole && content->in_kernel && !content->seen) {
            struct held_key key = {.first.length = content->key_length};
            memcpy(key.first.bytes, content_key(content), key.first.length);
            suspect_key(rs, set, &key);
        }
        content->seen = false;
    }
}

static void finish_ranges(struct ruleset *rs, int set, bool whole)
{
    const struct nft_element any = {.key = NULL};
    range_vec found = {0};
    if (whole && (boundaries_pair(&rs->boundaries, rs->family, &found) != BOUNDARIES_PAIRED ||
                  !held_has_ranges(rs, set, &found)))
        suspect(rs, set, &any);
    vec_free(&found);
    boundaries_clear(&rs->boundaries);
}

void drift_finish(struct ruleset *rs, int set, bool whole)
{
    whole = whole && rs->kernel_known;
    if (held_is_ranged(set))
        finish_ranges(rs, set, whole);
    else if (held_content_set(set) < CONTENT_SETS)
        finish_contents(rs, set, whole);
    else
        finish_records(rs, set, whole);
}

void drift_check_rules(struct ruleset *rs, struct nft_socket *socket)
{
    struct error err = {0};
    bool same = true;
    if (rs->kernel_known && ruleset_verify_rules(rs, socket, &same, &err) == 0 && !same)
        ruleset_suspect_rules(rs);
    error_clear(&err);
}
