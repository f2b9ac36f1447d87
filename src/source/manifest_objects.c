/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "manifest_objects.h"

#include "kube-nftd/base.h"

#include <string.h>

/* An object by its name. */
struct manifest_object {
    struct hash_link link;       /* by id */
    const struct holding *owner; /* NULL: it dropped the object, and no other was read since */
    size_t holders;              /* how many name it */
    enum object_kind kind;
    unsigned pass; /* of the last one that named it */
    size_t slot;   /* where it was named there */
    char id[];
};

static struct hash_key key_of(const struct hash_link *link)
{
    return hash_key_of_text(((const struct manifest_object *)link)->id);
}

static struct manifest_object *entry_of(struct manifest_objects *all, const struct object *object)
{
    struct hash_table *by_id = &all->by_id[object->kind];
    struct hash_key id = hash_key_of_text(object->id);
    struct manifest_object *entry = hash_table_find(by_id, key_of, id);
    if (entry)
        return entry;
    entry = xcalloc(1, sizeof(*entry) + id.length + 1);
    entry->kind = object->kind;
    memcpy(entry->id, id.bytes, id.length);
    hash_table_add(by_id, key_of, &entry->link);
    return entry;
}

static void entry_free(struct manifest_objects *all, struct manifest_object *entry)
{
    hash_table_remove(&all->by_id[entry->kind], &entry->link);
    free(entry);
}

void manifest_objects_clear(struct manifest_objects *all)
{
    for (int kind = 0; kind < KIND_COUNT; kind++) {
        hash_table_each (&all->by_id[kind], struct manifest_object, entry)
            entry_free(all, entry);
        object_vec_clear(&all->first[kind]);
    }
}

/* @holding names its objects: their entries, each once, with the slot of the last. */
static void name_objects(struct manifest_objects *all, struct holding *holding, object_vec *objects)
{
    all->pass++;
    vec_reserve(&holding->objects, objects->n);
    for (size_t i = 0; i < objects->n; i++) {
        struct manifest_object *entry = entry_of(all, &objects->v[i]);
        if (entry->pass == all->pass) {
            log_warn("manifests", "%s: %s %s is a duplicate; the last one is used", holding->path,
                     object_kind_name(entry->kind), entry->id);
            object_clear(&objects->v[entry->slot]);
        } else {
            vec_push(&holding->objects, entry);
            entry->holders++;
        }
        if (!entry->owner || strcmp(holding->path, entry->owner->path) < 0)
            entry->owner = holding;
        entry->pass = all->pass;
        entry->slot = i;
    }
}

/* What @holding had, and no more what it did not name just now. */
static void drop(struct manifest_objects *all, const struct holding *holding,
                 struct manifest_object *entry)
{
    if (--entry->holders == 0) {
        all->sink.remove(all->sink.ctx, entry->kind, entry->id);
        entry_free(all, entry);
    } else if (entry->owner == holding && entry->pass != all->pass) {
        entry->owner = NULL;
        all->orphans = true;
    }
}

static void put(struct manifest_objects *all, struct object *object)
{
    if (all->started) {
        all->sink.put(all->sink.ctx, object);
        return;
    }
    vec_push(&all->first[object->kind], *object);
    memset(object, 0, sizeof(*object));
}

/* Hands on what @holding owns. */
static void put_owned(struct manifest_objects *all, const struct holding *holding,
                      object_vec *objects)
{
    size_t shared = 0;
    const struct manifest_object *first = NULL;
    vec_each (&holding->objects, entry) {
        if ((*entry)->holders > 1) {
            first = first ? first : *entry;
            shared++;
        }
        if ((*entry)->owner == holding)
            put(all, &objects->v[(*entry)->slot]);
    }
    if (shared > 0)
        log_warn(
            "manifests",
            "%s: objects are also in other files; the file that sorts first is used objects=%zu "
            "first=\"%s %s\" from=%s",
            holding->path, shared, object_kind_name(first->kind), first->id, first->owner->path);
}

/* What is gone goes first: a new object may use the address of an old one. */
void manifest_objects_set(struct manifest_objects *all, struct holding *holding,
                          object_vec *objects)
{
    struct holding before = *holding;
    *holding = (struct holding){.path = before.path};
    name_objects(all, holding, objects);
    vec_each (&before.objects, entry)
        drop(all, holding, *entry);
    vec_free(&before.objects);
    put_owned(all, holding, objects);
    object_vec_clear(objects);
}

void manifest_objects_start(struct manifest_objects *all)
{
    all->started = true;
    for (int kind = 0; kind < KIND_COUNT; kind++) {
        all->sink.replace(all->sink.ctx, (enum object_kind)kind, &all->first[kind]);
        object_vec_clear(&all->first[kind]);
    }
}

bool manifest_objects_inherits(const struct holding *holding)
{
    vec_each (&holding->objects, entry) {
        if (!(*entry)->owner)
            return true;
    }
    return false;
}
