/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "plain.h"

#include "state.h"

#include <string.h>

static struct hash_key key_of_plain_entry(const struct hash_link *link)
{
    const struct plain *plain = (const struct plain *)link;
    return (struct hash_key){plain->bytes, 1 + (size_t)plain->key_length};
}

struct plain *plain_find(const struct ruleset *rs, enum table_set set, const struct key *key)
{
    uint8_t bytes[1 + KEY_SIZE] = {(uint8_t)set};
    memcpy(bytes + 1, key->bytes, key->length);
    return hash_table_find(&rs->plains, key_of_plain_entry,
                           (struct hash_key){bytes, 1 + key->length});
}

static struct plain *get(struct ruleset *rs, enum table_set set, const struct key *key,
                         const struct key *value)
{
    struct plain *plain = plain_find(rs, set, key);
    if (plain)
        return plain;
    const size_t value_length = value ? value->length : 0;
    plain = xcalloc(1, sizeof(*plain) + 1 + key->length + 2 * value_length);
    plain->entry.kind = ENTRY_PLAIN;
    plain->key_length = (uint8_t)key->length;
    plain->value_length = (uint8_t)value_length;
    plain->bytes[0] = (uint8_t)set;
    memcpy(plain->bytes + 1, key->bytes, key->length);
    hash_table_add(&rs->plains, key_of_plain_entry, &plain->entry.link);
    return plain;
}

static void change(struct ruleset *rs, struct plain *plain, uint32_t refs)
{
    plain->refs = refs;
    plain->entry.desired = refs > 0;
    quarantine_leave(rs, &plain->entry);
    ruleset_mark_dirty(rs, &plain->entry);
}

void plain_desire(struct ruleset *rs, enum table_set set, const struct key *key,
                  const struct key *value)
{
    struct plain *plain = get(rs, set, key, value);
    if (value)
        memcpy(plain_value(plain), value->bytes, plain->value_length);
    change(rs, plain, plain->refs + 1);
}

void plain_drop(struct ruleset *rs, enum table_set set, const struct key *key)
{
    struct plain *plain = plain_find(rs, set, key);
    change(rs, plain, plain->refs - 1);
}

bool plain_observe(struct ruleset *rs, enum table_set set, const struct key *key,
                   const struct key *value, bool there)
{
    struct plain *plain = get(rs, set, key, value);
    const bool known =
        plain->applied == there &&
        (!there || !value || memcmp(plain_applied_value(plain), value->bytes, value->length) == 0);
    plain->applied = there;
    if (there && value)
        memcpy(plain_applied_value(plain), value->bytes, value->length);
    ruleset_mark_dirty(rs, &plain->entry);
    return !known;
}

static bool same_value(const struct plain *plain)
{
    const uint8_t *value = plain_key(plain) + plain->key_length;
    return memcmp(value, value + plain->value_length, plain->value_length) == 0;
}

uint32_t plain_desired(const struct plain *plain)
{
    if (!plain->entry.desired)
        return 0;
    return plain->applied && !same_value(plain) ? 2 : 1;
}

void plain_set_applied(struct plain *plain, uint32_t desired)
{
    plain->applied = desired != 0;
    memcpy(plain_applied_value(plain), plain_value(plain), plain->value_length);
}
