/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "shapes.h"

#include "element.h"

#include <string.h>

struct shape_entry {
    struct hash_link link;
    struct shape shape; /* no padding: used as a hash key */
    uint32_t uses;      /* by what is applied, and by shapes that build on it and are used so */
    bool there;
    bool idle; /* was there and not used at the last look */
};

_Static_assert(sizeof(struct shape) == 8, "shapes are hashed as bytes");

bool shape_of_chain(const char *chain, struct shape *shape)
{
    static const struct {
        const char *name; /* or its beginning, before the number */
        enum template_id template;
        uint32_t most; /* 0: there is no number */
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
            *shape = (struct shape){chains[i].template, (uint32_t)key};
            return true;
        }
    }
    return false;
}

bool shape_needs(struct shape shape, struct shape *other)
{
    *other = (struct shape){TEMPLATE_AFFINITY, 0};
    return shape.template == TEMPLATE_LEARN;
}

static struct hash_key key_of(const struct hash_link *link)
{
    return (struct hash_key){&((const struct shape_entry *)link)->shape, sizeof(struct shape)};
}

static struct shape_entry *find(const struct shapes *shapes, struct shape shape)
{
    return hash_table_find(&shapes->entries, key_of, (struct hash_key){&shape, sizeof(shape)});
}

static struct shape_entry *get(struct shapes *shapes, struct shape shape)
{
    struct shape_entry *entry = find(shapes, shape);
    if (!entry) {
        entry = xcalloc(1, sizeof(*entry));
        entry->shape = shape;
        hash_table_add(&shapes->entries, key_of, &entry->link);
    }
    return entry;
}

/* It goes if nothing is left of it. */
static void change(struct shapes *shapes, struct shape_entry *entry, bool there, uint32_t uses)
{
    shapes->unused += (size_t)(there && !uses) - (size_t)(entry->there && !entry->uses);
    entry->there = there;
    entry->uses = uses;
    entry->idle = false;
    if (there || uses)
        return;
    hash_table_remove(&shapes->entries, &entry->link);
    free(entry);
}

bool shapes_have(const struct shapes *shapes, struct shape shape)
{
    const struct shape_entry *entry = find(shapes, shape);
    return entry && entry->there;
}

bool shapes_add(struct shapes *shapes, struct shape shape)
{
    struct shape_entry *entry = get(shapes, shape), *base;
    const bool new = !entry->there;
    change(shapes, entry, true, entry->uses);
    while (shape_needs(shape, &shape)) /* the other must not go before it */
        if ((base = find(shapes, shape)))
            base->idle = false;
    return new;
}

void shapes_drop(struct shapes *shapes, struct shape shape)
{
    struct shape_entry *entry = find(shapes, shape);
    if (entry)
        change(shapes, entry, false, entry->uses);
}

void shapes_use(struct shapes *shapes, struct shape shape, bool more)
{
    do {
        struct shape_entry *entry = get(shapes, shape);
        change(shapes, entry, entry->there, entry->uses + (more ? 1 : -1u));
    } while (shape_needs(shape, &shape));
}

void shapes_become(struct shapes *shapes, const shape_vec *found)
{
    hash_table_each (&shapes->entries, struct shape_entry, entry)
        change(shapes, entry, false, entry->uses);
    vec_each (found, shape)
        shapes_add(shapes, *shape);
}

size_t shapes_unused(const struct shapes *shapes)
{
    return shapes->unused;
}

void shapes_look_for_idle(struct shapes *shapes, shape_vec *out)
{
    vec_clear(out);
    hash_table_each (&shapes->entries, struct shape_entry, entry) {
        if (entry->idle)
            vec_push(out, entry->shape);
        entry->idle = entry->there && !entry->uses;
    }
    shapes_sort(out);
}

void shapes_clear(struct shapes *shapes)
{
    hash_table_each (&shapes->entries, struct shape_entry, entry) {
        hash_table_remove(&shapes->entries, &entry->link);
        free(entry);
    }
    shapes->unused = 0;
}

/* What a shape builds on is of a template that comes earlier. */
static int compare_shapes(const void *a, const void *b)
{
    const struct shape *p = a, *q = b;
    int order = (p->template > q->template) - (p->template <q->template);
    return order ? order : (p->key > q->key) - (p->key < q->key);
}

void shapes_sort(shape_vec *shapes)
{
    size_t n = 0;
    if (shapes->n)
        qsort(shapes->v, shapes->n, sizeof(*shapes->v), compare_shapes);
    vec_each (shapes, shape)
        if (n == 0 || compare_shapes(&shapes->v[n - 1], shape) != 0)
            shapes->v[n++] = *shape;
    shapes->n = n;
}

void shapes_list(const struct shapes *shapes, shape_vec *out)
{
    hash_table_each (&shapes->entries, const struct shape_entry, entry)
        if (entry->there)
            vec_push(out, entry->shape);
}

void shapes_list_used(const struct shapes *shapes, shape_vec *out)
{
    hash_table_each (&shapes->entries, const struct shape_entry, entry)
        if (entry->uses)
            vec_push(out, entry->shape);
}
