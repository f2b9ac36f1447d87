/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Sets, chains and rules by name, and whole tables copied. */
#include "fake_kernel_state.h"

#include "kube-nftd/base.h"

#include <string.h>

void fake_copy_name(char to[FAKE_NAME_SIZE], const char *name)
{
    size_t length = strlen(name);
    FAKE_ASSERT(length < FAKE_NAME_SIZE);
    memcpy(to, name, length + 1);
}

static struct hash_key key_of(const struct hash_link *link)
{
    const struct fake_element *element = (const void *)link;
    return (struct hash_key){element->key, element->key_length};
}

static void free_elements(struct hash_table *elements)
{
    hash_table_each (elements, struct fake_element, element) {
        hash_table_remove(elements, &element->link);
        free(element);
    }
}

void fake_free_elements(struct fake_set *set)
{
    free_elements(&set->elements);
    free_elements(&set->ends);
}

void fake_free_set(struct fake_set *set)
{
    fake_free_elements(set);
    free(set->declaration);
}

struct nlmsghdr *fake_copy_message(const struct nlmsghdr *from)
{
    struct nlmsghdr *copy = xcalloc(1, from->nlmsg_len);
    memcpy(copy, from, from->nlmsg_len);
    return copy;
}

void fake_free_table(struct fake_table *table)
{
    vec_each (&table->sets, set)
        fake_free_set(set);
    vec_each (&table->rules, rule)
        fake_free_rule(rule);
    vec_free(&table->sets);
    vec_free(&table->chains);
    vec_free(&table->rules);
    vec_free(&table->devices);
    free(table->comment);
    memset(table, 0, sizeof(*table));
}

void fake_insert(struct fake_set *set, const struct fake_element *from)
{
    struct fake_element *element = xcalloc(1, sizeof(*element));
    *element = *from;
    hash_table_add(element->is_end ? &set->ends : &set->elements, key_of, &element->link);
}

void fake_remove(struct fake_set *set, struct fake_element *element)
{
    hash_table_remove(element->is_end ? &set->ends : &set->elements, &element->link);
    free(element);
}

void fake_add_rule(struct fake_table *table, const struct fake_rule *from)
{
    struct fake_rule rule = *from;
    rule.before = NULL;
    rule.parsed = NULL;
    rule.message = fake_copy_message(from->message);
    vec_push(&table->rules, rule);
}

static void copy_set(struct fake_table *to, const struct fake_set *from)
{
    struct fake_set copy = *from;
    copy.elements = copy.ends = (struct hash_table){.n = 0};
    copy.id = 0;
    copy.declaration = fake_copy_message(from->declaration);
    hash_table_each (&from->elements, const struct fake_element, e)
        fake_insert(&copy, e);
    hash_table_each (&from->ends, const struct fake_element, e)
        fake_insert(&copy, e);
    vec_push(&to->sets, copy);
}

void fake_copy_table(struct fake_table *to, const struct fake_table *from)
{
    *to = (struct fake_table){.exists = from->exists,
                              .comment = xstrdup(from->comment),
                              .flags = from->flags,
                              .owned_elsewhere = from->owned_elsewhere};
    fake_copy_name(to->flowtable, from->flowtable);
    vec_append(&to->devices, from->devices.v, from->devices.n);
    vec_each (&from->chains, chain)
        vec_push(&to->chains, *chain);
    vec_each (&from->rules, rule)
        fake_add_rule(to, rule);
    vec_each (&from->sets, set)
        copy_set(to, set);
}

struct fake_set *fake_find_set(const struct fake_table *table, const char *name)
{
    vec_each (&table->sets, set)
        if (strcmp(set->name, name) == 0)
            return set;
    return NULL;
}

struct fake_set *fake_find_set_id(const struct fake_table *table, uint32_t id)
{
    vec_each (&table->sets, set)
        if (id && set->id == id)
            return set;
    return NULL;
}

struct fake_chain *fake_find_chain(const struct fake_table *table, const char *name)
{
    vec_each (&table->chains, chain)
        if (strcmp(chain->name, name) == 0)
            return chain;
    return NULL;
}

bool fake_has_rules(const struct fake_table *table, const char *chain)
{
    vec_each (&table->rules, rule)
        if (strcmp(rule->chain, chain) == 0)
            return true;
    return false;
}

static void drop_anonymous(struct fake_table *table, const char *name)
{
    struct fake_set *set = *name ? fake_find_set(table, name) : NULL;
    if (!set)
        return;
    fake_free_set(set);
    *set = table->sets.v[--table->sets.n];
}

void fake_flush_chain(struct fake_table *table, const char *chain)
{
    size_t kept = 0;
    vec_each (&table->rules, rule) {
        if (strcmp(rule->chain, chain) == 0) {
            drop_anonymous(table, rule->anonymous);
            fake_free_rule(rule);
        } else {
            table->rules.v[kept++] = *rule;
        }
    }
    table->rules.n = kept;
}

struct nftnl_rule *fake_parse_rule(const struct fake_rule *from)
{
    struct nftnl_rule *rule = nftnl_rule_alloc();
    FAKE_ASSERT(rule && nftnl_rule_nlmsg_parse(from->message, rule) >= 0);
    nftnl_rule_set_str(rule, NFTNL_RULE_CHAIN, from->chain);
    return rule;
}

struct nftnl_rule *fake_parsed_rule(struct fake_rule *from)
{
    if (!from->parsed)
        from->parsed = fake_parse_rule(from);
    return from->parsed;
}

struct fake_element *fake_find_key(const struct hash_table *elements, const void *key,
                                   size_t length)
{
    return hash_table_find(elements, key_of, (struct hash_key){key, length});
}

struct fake_element *fake_find(const struct fake_table *table, const char *set_name,
                               const void *key, size_t length)
{
    return fake_find_key(fake_elements(table, set_name), key, length);
}

const struct hash_table *fake_elements(const struct fake_table *table, const char *set_name)
{
    static const struct hash_table none;
    const struct fake_set *set = fake_find_set(table, set_name);
    return set ? &set->elements : &none;
}

/* ---- keys and values ---- */

uint32_t fake_u32(const uint8_t *bytes)
{
    uint32_t value;
    memcpy(&value, bytes, sizeof(value));
    return value;
}

struct fake_key fake_join(const void *a, size_t a_length, const void *b, size_t b_length)
{
    struct fake_key key = {.length = a_length + b_length};
    FAKE_ASSERT(key.length <= FAKE_BYTES);
    if (a_length)
        memcpy(key.bytes, a, a_length);
    if (b_length)
        memcpy(key.bytes + a_length, b, b_length);
    return key;
}

/* Put together here once more: the daemon's way is under test. */
struct fake_key fake_frontend_key(const struct frontend *frontend)
{
    const uint8_t rest[] = {frontend->protocol,      0, 0, 0, (uint8_t)(frontend->port >> 8),
                            (uint8_t)frontend->port, 0, 0};
    return fake_join(frontend->address.bytes, frontend->family == FAMILY_IPV4 ? 4 : 16, rest,
                     sizeof(rest));
}

struct backend fake_backend_of(const struct fake_element *slot)
{
    struct backend backend = {.port = 0};
    size_t n = slot->data_length - 4;
    memcpy(backend.address.bytes, slot->data, n);
    backend.port = (uint16_t)(slot->data[n] << 8 | slot->data[n + 1]);
    return backend;
}
