/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "plain.h"

#include <string.h>

static struct hash_key plain_element_key(const struct hash_link *link)
{
    const struct plain *plain = (const struct plain *)link;
    return (struct hash_key){plain->bytes, 1 + (size_t)plain->key_length};
}

struct plain *plain_find(const struct plain_elements *elements, enum table_set set,
                         const struct key *key)
{
    uint8_t bytes[1 + KEY_SIZE] = {(uint8_t)set};
    memcpy(bytes + 1, key->bytes, key->length);
    return hash_table_find(&elements->all, plain_element_key,
                           (struct hash_key){bytes, 1 + key->length});
}

static struct plain *get(struct plain_elements *elements, enum table_set set, const struct key *key,
                         const struct key *value)
{
    struct plain *plain = plain_find(elements, set, key);
    if (plain)
        return plain;
    const size_t value_length = value ? value->length : 0;
    plain = xcalloc(1, sizeof(*plain) + 1 + key->length + 2 * value_length);
    plain->key_length = (uint8_t)key->length;
    plain->value_length = (uint8_t)value_length;
    plain->bytes[0] = (uint8_t)set;
    memcpy(plain->bytes + 1, key->bytes, key->length);
    hash_table_add(&elements->all, plain_element_key, &plain->link);
    return plain;
}

static void mark_dirty(struct plain_elements *elements, struct plain *plain)
{
    if (plain->dirty)
        return;
    plain->dirty = true;
    vec_push(&elements->dirty, plain);
}

static void end_quarantine(struct plain_elements *elements, struct plain *plain)
{
    size_t n = 0;
    if (!plain->quarantined)
        return;
    plain->quarantined = false;
    vec_each (&elements->quarantined, it)
        if (*it != plain)
            elements->quarantined.v[n++] = *it;
    elements->quarantined.n = n;
}

void plain_quarantine(struct plain_elements *elements, struct plain *plain)
{
    plain->quarantined = true;
    vec_push(&elements->quarantined, plain);
}

void plain_retry(struct plain_elements *elements)
{
    vec_each (&elements->quarantined, it) {
        (*it)->quarantined = false;
        mark_dirty(elements, *it);
    }
    vec_clear(&elements->quarantined);
}

void plain_desire(struct plain_elements *elements, enum table_set set, const struct key *key,
                  const struct key *value)
{
    struct plain *plain = get(elements, set, key, value);
    plain->desired++;
    end_quarantine(elements, plain);
    if (value)
        memcpy(plain_value(plain), value->bytes, plain->value_length);
    mark_dirty(elements, plain);
}

void plain_drop(struct plain_elements *elements, enum table_set set, const struct key *key)
{
    struct plain *plain = plain_find(elements, set, key);
    plain->desired--;
    end_quarantine(elements, plain);
    mark_dirty(elements, plain);
}

static void remove_element(struct plain_elements *elements, struct plain *plain)
{
    end_quarantine(elements, plain);
    hash_table_remove(&elements->all, &plain->link);
    free(plain);
}

bool plain_observe(struct plain_elements *elements, enum table_set set, const struct key *key,
                   const struct key *value, bool there)
{
    struct plain *plain = get(elements, set, key, value);
    const bool known =
        plain->applied == there &&
        (!there || !value || memcmp(plain_applied_value(plain), value->bytes, value->length) == 0);
    plain->applied = there;
    if (there && value)
        memcpy(plain_applied_value(plain), value->bytes, value->length);
    mark_dirty(elements, plain);
    return !known;
}

void plain_forget_applied(struct plain_elements *elements)
{
    vec_clear(&elements->dirty);
    vec_clear(&elements->aside);
    elements->aside_at = 0;
    hash_table_each (&elements->all, struct plain, plain) {
        plain->applied = plain->dirty = false;
        if (plain->desired)
            mark_dirty(elements, plain);
        else
            remove_element(elements, plain);
    }
}

static bool same_value(const struct plain *plain)
{
    const uint8_t *value = plain_key(plain) + plain->key_length;
    return memcmp(value, value + plain->value_length, plain->value_length) == 0;
}

bool plain_goes(const struct plain *plain)
{
    return !plain->quarantined && plain->applied && (!plain->desired || !same_value(plain));
}

bool plain_comes(const struct plain *plain)
{
    return !plain->quarantined && plain->desired && (!plain->applied || !same_value(plain));
}

void plain_set_aside(struct plain_elements *elements)
{
    size_t n = 0;
    for (int cluster_ips = 0; cluster_ips < 2; cluster_ips++)
        vec_each (&elements->dirty, it)
            if (set_owner(plain_set(*it)) == OWNER_TABLE &&
                (plain_set(*it) == SET_CLUSTER_IPS) == cluster_ips)
                vec_push(&elements->aside, *it);
    vec_each (&elements->dirty, it)
        if (set_owner(plain_set(*it)) != OWNER_TABLE)
            elements->dirty.v[n++] = *it;
    elements->dirty.n = n;
}

size_t plain_take_back(struct plain_elements *elements, size_t most, bool cluster_ips)
{
    size_t n = 0;
    for (; n < most && elements->aside_at < elements->aside.n; n++) {
        struct plain *plain = elements->aside.v[elements->aside_at];
        if (plain_set(plain) == SET_CLUSTER_IPS && !cluster_ips)
            return n;
        vec_push(&elements->dirty, plain);
        elements->aside_at++;
    }
    if (elements->aside_at == elements->aside.n) {
        vec_free(&elements->aside);
        elements->aside_at = 0;
    }
    return n;
}

void plain_apply(struct plain_elements *elements)
{
    vec_each (&elements->dirty, it) {
        struct plain *plain = *it;
        plain->dirty = false;
        if (plain->quarantined)
            continue;
        plain->applied = plain->desired > 0;
        memcpy(plain_applied_value(plain), plain_value(plain), plain->value_length);
        if (!plain->desired)
            remove_element(elements, plain);
    }
    vec_clear(&elements->dirty);
}

void plain_free(struct plain_elements *elements)
{
    hash_table_each (&elements->all, struct plain, plain)
        remove_element(elements, plain);
    vec_free(&elements->dirty);
    vec_free(&elements->aside);
    vec_free(&elements->quarantined);
}
