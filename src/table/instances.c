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

/* Whether there are chains of a template for that number; 0: for none. */
static bool has_chains(enum template_id template, unsigned long long key)
{
    switch (template) {
    case TEMPLATE_PICK:
    case TEMPLATE_LOCAL_PICK:
        return key > 0 && key < EXACT_COUNTS;
    case TEMPLATE_PICK_FROM:
    case TEMPLATE_LOCAL_PICK_FROM:
        return key > 0 && key <= MAX_BACKENDS && octave_of((uint32_t)key) == key;
    case TEMPLATE_LEARN:
        return key > 0 && key <= UINT32_MAX;
    default:
        return key == 0;
    }
}

bool instance_of_chain(const char *chain, struct instance *instance)
{
    static const struct {
        const char *name; /* or the prefix, before the number */
        enum template_id template;
    } chains[] = {{"pick-", TEMPLATE_PICK},
                  {"local-pick-", TEMPLATE_LOCAL_PICK},
                  {"pick-from-", TEMPLATE_PICK_FROM},
                  {"draw-from-", TEMPLATE_PICK_FROM},
                  {"local-pick-from-", TEMPLATE_LOCAL_PICK_FROM},
                  {"local-draw-from-", TEMPLATE_LOCAL_PICK_FROM},
                  {"learn-", TEMPLATE_LEARN},
                  {"learn", TEMPLATE_AFFINITY},
                  {"restricted", TEMPLATE_SOURCE_RANGES}};
    for (size_t i = 0; i < sizeof(chains) / sizeof(chains[0]); i++) {
        const char *number = chain + strlen(chains[i].name);
        unsigned long long key = 0;
        char *end = (char *)number;
        if (strncmp(chain, chains[i].name, strlen(chains[i].name)) != 0)
            continue;
        if (*number >= '1' && *number <= '9')
            key = strtoull(number, &end, 10);
        if (*end == '\0' && has_chains(chains[i].template, key)) {
            *instance = (struct instance){chains[i].template, (uint32_t)key};
            return true;
        }
    }
    return false;
}

bool instance_of_verdict(uint32_t key, const char *chain, struct instance *instance)
{
    if (!instance_of_chain(chain, instance))
        return false;
    if (instance->template != TEMPLATE_PICK_FROM && instance->template != TEMPLATE_LOCAL_PICK_FROM)
        return true;
    const bool local = instance->template == TEMPLATE_LOCAL_PICK_FROM;
    *instance = (struct instance){local ? TEMPLATE_LOCAL_PICK : TEMPLATE_PICK, key};
    return key >= EXACT_COUNTS && key <= MAX_BACKENDS;
}

bool instance_needs(struct instance instance, struct instance *other)
{
    const uint32_t octave = octave_of(instance.key);
    switch (instance.template) {
    case TEMPLATE_LEARN:
        *other = (struct instance){TEMPLATE_AFFINITY, 0};
        return true;
    case TEMPLATE_PICK:
        *other = (struct instance){TEMPLATE_PICK_FROM, octave};
        return octave > 0;
    case TEMPLATE_LOCAL_PICK:
        *other = (struct instance){TEMPLATE_LOCAL_PICK_FROM, octave};
        return octave > 0;
    default:
        return false;
    }
}

/* Whether an instance stays in the table once it is there: its chains look into a map of slots, so
 * that it costs the kernel a walk over all of them to add it again. */
static bool instance_is_kept(struct instance instance)
{
    switch (instance.template) {
    case TEMPLATE_PICK_FROM:
    case TEMPLATE_LOCAL_PICK_FROM:
        return true;
    case TEMPLATE_PICK:
    case TEMPLATE_LOCAL_PICK:
        return octave_of(instance.key) == 0;
    default:
        return false;
    }
}

static struct hash_key instance_key(const struct hash_link *link)
{
    return (struct hash_key){&((const struct instance_entry *)link)->instance,
                             sizeof(struct instance)};
}

static struct instance_entry *find_instance(const struct instances *instances,
                                            struct instance instance)
{
    return hash_table_find(&instances->entries, instance_key,
                           (struct hash_key){&instance, sizeof(instance)});
}

static struct instance_entry *get(struct instances *instances, struct instance instance)
{
    struct instance_entry *entry = find_instance(instances, instance);
    if (!entry) {
        entry = xcalloc(1, sizeof(*entry));
        entry->instance = instance;
        hash_table_add(&instances->entries, instance_key, &entry->link);
    }
    return entry;
}

/* Updates an entry, and frees it if it is no longer needed. */
static void change(struct instances *instances, struct instance_entry *entry, bool there,
                   uint32_t uses)
{
    if (!instance_is_kept(entry->instance))
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
    const struct instance_entry *entry = find_instance(instances, instance);
    return entry && entry->there;
}

bool instances_add(struct instances *instances, struct instance instance)
{
    struct instance_entry *entry = get(instances, instance), *base;
    const bool new = !entry->there;
    change(instances, entry, true, entry->uses);
    while (instance_needs(instance, &instance)) /* the base must not be deleted first */
        if ((base = find_instance(instances, instance)))
            base->idle = false;
    return new;
}

void instances_drop(struct instances *instances, struct instance instance)
{
    struct instance_entry *entry = find_instance(instances, instance);
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
        entry->idle = entry->there && !entry->uses && !instance_is_kept(entry->instance);
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
    vec_sort(instances, compare_instances);
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
