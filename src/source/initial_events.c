/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "initial_events.h"

#include "kube-nftd/base/hash.h"

#include <string.h>

struct initial_removal {
    UT_hash_handle hh; /* by id */
    char *id;
    size_t before; /* of the objects, those before this index are gone */
};

static int count(struct initial_events *initial, struct error *err)
{
    initial->count++;
    if (initial_events_overrun(initial))
        return error_set(err, "more than %zu objects", initial->limit);
    return 0;
}

int initial_events_put(struct initial_events *initial, struct object *object, struct error *err)
{
    if (count(initial, err) < 0)
        return -1;
    if (!object->id)
        return 0;
    vec_push(&initial->objects, *object);
    *object = (struct object){.kind = object->kind};
    return 0;
}

int initial_events_remove(struct initial_events *initial, const char *id, struct error *err)
{
    struct initial_removal *removal;
    if (count(initial, err) < 0)
        return -1;
    HASH_FIND_STR(initial->removals, id, removal);
    if (!removal) {
        removal = xcalloc(1, sizeof(*removal));
        removal->id = xstrdup(id);
        HASH_ADD_KEYPTR(hh, initial->removals, removal->id, strlen(removal->id), removal);
    }
    removal->before = initial->objects.n;
    return 0;
}

bool initial_events_overrun(const struct initial_events *initial)
{
    return initial->count > initial->limit;
}

/* Whether the object at @index was removed behind it. */
static bool is_gone(const struct initial_events *initial, size_t index)
{
    struct initial_removal *removal;
    HASH_FIND_STR(initial->removals, initial->objects.v[index].id, removal);
    return removal && index < removal->before;
}

static void drop_removed(struct initial_events *initial)
{
    object_vec *objects = &initial->objects;
    size_t kept = 0;
    for (size_t i = 0; i < objects->n; i++) {
        if (is_gone(initial, i))
            object_clear(&objects->v[i]);
        else
            objects->v[kept++] = objects->v[i];
    }
    objects->n = kept;
}

void initial_events_finish(struct initial_events *initial, object_vec *objects)
{
    if (initial->removals)
        drop_removed(initial);
    *objects = initial->objects;
    initial->objects = (object_vec){0};
    initial_events_reset(initial);
}

void initial_events_reset(struct initial_events *initial)
{
    struct initial_removal *removal, *next;
    HASH_ITER(hh, initial->removals, removal, next)
    {
        HASH_DELETE(hh, initial->removals, removal);
        free(removal->id);
        free(removal);
    }
    object_vec_clear(&initial->objects);
    initial->count = 0;
}
