/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "shapes.h"

#include "keys.h"

#include <string.h>

struct shape_entry {
    UT_hash_handle hh;
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

static struct shape_entry *find(const struct shapes *shapes, struct shape shape)
{
    struct shape_entry *entry;
    HASH_FIND(hh, shapes->entries, &shape, sizeof(shape), entry);
    return entry;
}

static struct shape_entry *get(struct shapes *shapes, struct shape shape)
{
    struct shape_entry *entry = find(shapes, shape);
    if (!entry) {
        entry = xcalloc(1, sizeof(*entry));
        entry->shape = shape;
        HASH_ADD(hh, shapes->entries, shape, sizeof(shape), entry);
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
    HASH_DELETE(hh, shapes->entries, entry);
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
    for (const struct shape_entry *entry = from->entries; entry; entry = entry->hh.next)
        if (entry->uses)
            shapes_add(to, entry->shape);
}

bool shapes_contain(const struct shapes *shapes, const struct shapes *some)
{
    for (const struct shape_entry *entry = some->entries; entry; entry = entry->hh.next)
        if (entry->there && !shapes_have(shapes, entry->shape))
            return false;
    return true;
}

void shapes_become(struct shapes *shapes, const struct shapes *found)
{
    struct shape_entry *entry, *next;
    HASH_ITER(hh, shapes->entries, entry, next)
    {
        if (entry->there && !shapes_have(found, entry->shape))
            shapes_drop(shapes, entry->shape);
    }
    for (entry = found->entries; entry; entry = entry->hh.next)
        if (!shapes_have(shapes, entry->shape))
            shapes_add(shapes, entry->shape);
}

size_t shapes_unused(const struct shapes *shapes)
{
    return shapes->unused;
}

void shapes_look_for_idle(struct shapes *shapes, shape_vec *out)
{
    struct shape_entry *entry, *next;
    vec_clear(out);
    HASH_ITER(hh, shapes->entries, entry, next)
    {
        if (entry->idle)
            vec_push(out, entry->shape);
        entry->idle = entry->there && !entry->uses;
    }
    shapes_sort(out);
}

void shapes_clear(struct shapes *shapes)
{
    struct shape_entry *entry, *next;
    HASH_ITER(hh, shapes->entries, entry, next)
    {
        HASH_DELETE(hh, shapes->entries, entry);
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
    struct shape_entry *entry, *next;
    vec_clear(out);
    HASH_ITER(hh, shapes->entries, entry, next)
    {
        if (entry->there)
            vec_push(out, entry->shape);
    }
    shapes_sort(out);
}
