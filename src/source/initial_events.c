/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "initial_events.h"

#include "kube-nftd/base/alloc.h"

#include <stdlib.h>
#include <string.h>

struct removal {
    struct hash_link link; /* by id */
    size_t before;         /* of the objects, those before this index are gone */
    char id[];
};

static struct hash_key key_of(const struct hash_link *link)
{
    return hash_key_of_text(((const struct removal *)link)->id);
}

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
    struct hash_key key = hash_key_of_text(id);
    if (count(initial, err) < 0)
        return -1;
    struct removal *removal = hash_table_find(&initial->removals, key_of, key);
    if (!removal) {
        removal = xcalloc(1, sizeof(*removal) + key.length + 1);
        memcpy(removal->id, id, key.length);
        hash_table_add(&initial->removals, key_of, &removal->link);
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
    const struct removal *removal =
        hash_table_find(&initial->removals, key_of, hash_key_of_text(initial->objects.v[index].id));
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
    if (initial->removals.n > 0)
        drop_removed(initial);
    *objects = initial->objects;
    initial->objects = (object_vec){0};
    initial_events_reset(initial);
}

void initial_events_reset(struct initial_events *initial)
{
    hash_table_each (&initial->removals, struct removal, removal) {
        hash_table_remove(&initial->removals, &removal->link);
        free(removal);
    }
    object_vec_clear(&initial->objects);
    initial->count = 0;
}
