/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "kube-nftd/ruleset/drift.h"

#include "kube-nftd/ruleset/held.h"
#include "kube-nftd/ruleset/record.h"

#include <string.h>

/* At a time; what is more is found the next time. */
#define MOST_SUSPECTS 900

static void suspect_key(struct ruleset *rs, int set, const struct key *key)
{
    const struct nft_element element = {.key = key->bytes, .key_length = key->length};
    if (rs->suspects.n < MOST_SUSPECTS)
        ruleset_suspect_element(rs, held_set_name(set), &element);
}

void drift_take(struct ruleset *rs, int set, const struct nft_element *element)
{
    struct held held;
    if (!held_find(rs, set, element->key, element->key_length, &held) || !held_is(&held, element)) {
        if (rs->suspects.n < MOST_SUSPECTS)
            ruleset_suspect_element(rs, held_set_name(set), element);
        return;
    }
    if (held.content)
        held.content->seen = true;
    else
        held.record->seen++;
}

static void finish_records(struct ruleset *rs, int set, bool whole)
{
    hash_table_each (&rs->records, struct record, record) {
        if (whole && record->seen < held_count(set, record))
            for (uint32_t i = 0; i < held_room(set, record); i++) {
                struct key key = held_key(set, record, i);
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
            struct key key = {.length = content->key_length};
            memcpy(key.bytes, content_key(content), key.length);
            suspect_key(rs, set, &key);
        }
        content->seen = false;
    }
}

void drift_finish(struct ruleset *rs, int set, bool whole)
{
    whole = whole && rs->kernel_known;
    if (held_content_set(set) < CONTENT_SETS)
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
