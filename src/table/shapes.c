/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "shapes.h"

#include "element.h"

#include <string.h>

struct shape_entry {
    struct hash_link link;
    struct shape shape; /* no padding: used as a hash key */
    uint32_t uses;      /* by what is in force, and by shapes that build on it and are used so */
    bool there;
    bool idle; /* was there and not used at the last look */
};

_Static_assert(sizeof(struct shape) == 8, "shapes are hashed as bytes");

/* Of a template that a table has once at most. */
static bool shape_of_single_chain(const char *chain, struct shape *shape)
{
    static const struct {
        const char *chain;
        enum template_id template;
    } single[] = {{"source-ranges", TEMPLATE_SOURCE_RANGES}, {"learn", TEMPLATE_AFFINITY}};
    for (size_t i = 0; i < sizeof(single) / sizeof(single[0]); i++)
        if (strcmp(chain, single[i].chain) == 0) {
            *shape = (struct shape){single[i].template, 0};
            return true;
        }
    return false;
}

/* The number behind a name's beginning; 0 if it has another one, or no number. */
static uint32_t number_behind(const char *chain, const char *beginning)
{
    size_t length = strlen(beginning);
    char *end;
    if (strncmp(chain, beginning, length) != 0 || chain[length] < '1' || chain[length] > '9')
        return 0;
    unsigned long long number = strtoull(chain + length, &end, 10);
    return *end == '\0' && number <= UINT32_MAX ? (uint32_t)number : 0;
}

bool shape_of_chain(const char *chain, struct shape *shape)
{
    static const struct {
        const char *beginning;
        enum template_id template;
    } counted[] = {
        {"pick-", TEMPLATE_PICK}, {"local-pick-", TEMPLATE_LOCAL_PICK}, {"learn-", TEMPLATE_LEARN}};
    for (size_t i = 0; i < sizeof(counted) / sizeof(counted[0]); i++) {
        uint32_t n = number_behind(chain, counted[i].beginning);
        if (n == 0 || (n > MAX_BACKENDS && counted[i].template != TEMPLATE_LEARN))
            continue;
        *shape = (struct shape){counted[i].template, n};
        return true;
    }
    return shape_of_single_chain(chain, shape);
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

static void set_there(struct shapes *shapes, struct shape_entry *entry, bool there)
{
    shapes->unused += (size_t)(there && !entry->uses) - (size_t)(entry->there && !entry->uses);
    entry->there = there;
    entry->idle = false;
}

bool shapes_have(const struct shapes *shapes, struct shape shape)
{
    const struct shape_entry *entry = find(shapes, shape);
    return entry && entry->there;
}

bool shapes_add(struct shapes *shapes, struct shape shape)
{
    struct shape_entry *entry = get(shapes, shape), *base;
    bool new = !entry->there;
    set_there(shapes, entry, true);
    while (shape_needs(shape, &shape)) /* the other must not go before it */
        if ((base = find(shapes, shape)))
            base->idle = false;
    return new;
}

void shapes_drop(struct shapes *shapes, struct shape shape)
{
    struct shape_entry *entry = find(shapes, shape);
    if (!entry)
        return;
    set_there(shapes, entry, false);
    if (entry->uses)
        return;
    hash_table_remove(&shapes->entries, &entry->link);
    free(entry);
}

void shapes_use(struct shapes *shapes, struct shape shape, bool more)
{
    do {
        struct shape_entry *entry = get(shapes, shape);
        bool was_unused = entry->there && !entry->uses;
        entry->uses += more ? 1 : -1u;
        entry->idle = false;
        shapes->unused += (size_t)(entry->there && !entry->uses) - (size_t)was_unused;
        if (!entry->uses && !entry->there)
            shapes_drop(shapes, shape);
    } while (shape_needs(shape, &shape));
}

void shapes_copy_used(struct shapes *to, const struct shapes *from)
{
    hash_table_each (&from->entries, const struct shape_entry, entry)
        if (entry->uses)
            shapes_add(to, entry->shape);
}

bool shapes_contain(const struct shapes *shapes, const struct shapes *some)
{
    hash_table_each (&some->entries, const struct shape_entry, entry)
        if (entry->there && !shapes_have(shapes, entry->shape))
            return false;
    return true;
}

void shapes_become(struct shapes *shapes, const struct shapes *found)
{
    hash_table_each (&shapes->entries, const struct shape_entry, entry)
        if (entry->there && !shapes_have(found, entry->shape))
            shapes_drop(shapes, entry->shape);
    hash_table_each (&found->entries, const struct shape_entry, entry)
        if (!shapes_have(shapes, entry->shape))
            shapes_add(shapes, entry->shape);
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
    if (p->template != q->template)
        return p->template <q->template ? -1 : 1;
    return (p->key > q->key) - (p->key < q->key);
}

void shapes_sort(shape_vec *shapes)
{
    if (shapes->n)
        qsort(shapes->v, shapes->n, sizeof(*shapes->v), compare_shapes);
}

void shapes_list(const struct shapes *shapes, shape_vec *out)
{
    vec_clear(out);
    hash_table_each (&shapes->entries, const struct shape_entry, entry)
        if (entry->there)
            vec_push(out, entry->shape);
    shapes_sort(out);
}
