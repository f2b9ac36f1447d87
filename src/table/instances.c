/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "instances.h"

#include "element.h"

#include <string.h>

struct instance_entry {
    struct hash_link link;
    struct instance instance; /* no padding: used as a hash key */
    uint32_t uses;            /* by applied elements and by used instances that build on it */
    bool there;
    bool idle; /* existed unused at the last check */
};

_Static_assert(sizeof(struct instance) == 8, "instances are hashed as bytes");

bool instance_of_chain(const char *chain, struct instance *instance)
{
    static const struct {
        const char *name; /* or the prefix, before the number */
        enum template_id template;
        uint32_t most; /* 0: no number */
    } chains[] = {{"pick-", TEMPLATE_PICK, MAX_BACKENDS},
                  {"local-pick-", TEMPLATE_LOCAL_PICK, MAX_BACKENDS},
                  {"learn-", TEMPLATE_LEARN, UINT32_MAX},
                  {"learn", TEMPLATE_AFFINITY, 0},
                  {"source-ranges", TEMPLATE_SOURCE_RANGES, 0}};
    for (size_t i = 0; i < sizeof(chains) / sizeof(chains[0]); i++) {
        const char *number = chain + strlen(chains[i].name);
        unsigned long long key = 0;
        char *end = (char *)number;
        if (strncmp(chain, chains[i].name, strlen(chains[i].name)) != 0)
            continue;
        if (chains[i].most > 0 && *number >= '1' && *number <= '9')
            key = strtoull(number, &end, 10);
        if (*end == '\0' && key <= chains[i].most && (key > 0) == (chains[i].most > 0)) {
            *instance = (struct instance){chains[i].template, (uint32_t)key};
            return true;
        }
    }
    return false;
}

bool instance_needs(struct instance instance, struct instance *other)
{
    *other = (struct instance){TEMPLATE_AFFINITY, 0};
    return instance.template == TEMPLATE_LEARN;
}

static struct hash_key key_of(const struct hash_link *link)
{
    return (struct hash_key){&((const struct instance_entry *)link)->instance,
                             sizeof(struct instance)};
}

static struct instance_entry *find(const struct instances *instances, struct instance instance)
{
    return hash_table_find(&instances->entries, key_of,
                           (struct hash_key){&instance, sizeof(instance)});
}

static struct instance_entry *get(struct instances *instances, struct instance instance)
{
    struct instance_entry *entry = find(instances, instance);
    if (!entry) {
        entry = xcalloc(1, sizeof(*entry));
        entry->instance = instance;
        hash_table_add(&instances->entries, key_of, &entry->link);
    }
    return entry;
}

/* Updates an entry, and frees it if it is no longer needed. */
static void change(struct instances *instances, struct instance_entry *entry, bool there,
                   uint32_t uses)
{
    instances->unused += (size_t)(there && !uses) - (size_t)(entry->there && !entry->uses);
    entry->there = there;
    entry->uses = uses;
    entry->idle = false;
    if (there || uses)
        return;
    hash_table_remove(&instances->entries, &entry->link);
    free(entry);
}

bool instances_have(const struct instances *instances, struct instance instance)
{
    const struct instance_entry *entry = find(instances, instance);
    return entry && entry->there;
}

bool instances_add(struct instances *instances, struct instance instance)
{
    struct instance_entry *entry = get(instances, instance), *base;
    const bool new = !entry->there;
    change(instances, entry, true, entry->uses);
    while (instance_needs(instance, &instance)) /* the base must not be deleted first */
        if ((base = find(instances, instance)))
            base->idle = false;
    return new;
}

void instances_drop(struct instances *instances, struct instance instance)
{
    struct instance_entry *entry = find(instances, instance);
    if (entry)
        change(instances, entry, false, entry->uses);
}

void instances_use(struct instances *instances, struct instance instance, bool more)
{
    do {
        struct instance_entry *entry = get(instances, instance);
        change(instances, entry, entry->there, entry->uses + (more ? 1 : -1u));
    } while (instance_needs(instance, &instance));
}

void instances_become(struct instances *instances, const instance_vec *found)
{
    hash_table_each (&instances->entries, struct instance_entry, entry)
        change(instances, entry, false, entry->uses);
    vec_each (found, instance)
        instances_add(instances, *instance);
}

void instances_look_for_idle(struct instances *instances, instance_vec *out)
{
    vec_clear(out);
    hash_table_each (&instances->entries, struct instance_entry, entry) {
        if (entry->idle)
            vec_push(out, entry->instance);
        entry->idle = entry->there && !entry->uses;
    }
    instances_sort(out);
}

void instances_clear(struct instances *instances)
{
    hash_table_each (&instances->entries, struct instance_entry, entry) {
        hash_table_remove(&instances->entries, &entry->link);
        free(entry);
    }
    instances->unused = 0;
}

/* An instance builds only on earlier templates. */
static int compare_instances(const void *a, const void *b)
{
    const struct instance *p = a, *q = b;
    int order = (p->template > q->template) - (p->template <q->template);
    return order ? order : (p->key > q->key) - (p->key < q->key);
}

void instances_sort(instance_vec *instances)
{
    size_t n = 0;
    if (instances->n)
        qsort(instances->v, instances->n, sizeof(*instances->v), compare_instances);
    vec_each (instances, instance)
        if (n == 0 || compare_instances(&instances->v[n - 1], instance) != 0)
            instances->v[n++] = *instance;
    instances->n = n;
}

void instances_list(const struct instances *instances, bool used, instance_vec *out)
{
    hash_table_each (&instances->entries, const struct instance_entry, entry)
        if (used ? entry->uses > 0 : entry->there)
            vec_push(out, entry->instance);
}
