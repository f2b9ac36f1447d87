/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "manifest_owners.h"

#include <string.h>

/* An object that some file defines. Kept small: there is one for each. */
struct definition {
    struct hash_link link;       /* by id */
    const struct definer *owner; /* NULL: it dropped it, and no other file was read since */
    uint32_t dropped;            /* in this round */
    uint32_t files;              /* number of files that define it */
    uint32_t pass;               /* the last pass that found it */
    uint32_t slot;               /* its index in that pass */
    uint8_t kind;                /* of enum object_kind */
    bool abandoned;              /* in owners->abandoned */
    char id[];
};

static struct hash_key definition_key(const struct hash_link *link)
{
    return hash_key_of_text(((const struct definition *)link)->id);
}

static struct definition *definition_get(struct manifest_owners *owners,
                                         const struct object *object)
{
    struct hash_key id = hash_key_of_text(object->id);
    struct hash_table *of_kind = &owners->by_id[object->kind];
    struct definition *def = hash_table_find(of_kind, definition_key, id);
    if (!def) {
        def = xcalloc(1, sizeof(*def) + id.length + 1);
        def->kind = (uint8_t)object->kind;
        memcpy(def->id, id.bytes, id.length);
        hash_table_add(of_kind, definition_key, &def->link);
    }
    return def;
}

static void definition_free(struct manifest_owners *owners, struct definition *def)
{
    hash_table_remove(&owners->by_id[def->kind], &def->link);
    free(def);
}

/* What was dropped waits for the next round, in which all that define it are read: a file of this
 * one may sort behind others. */
static bool is_taken(const struct manifest_owners *owners, const struct definition *def,
                     const struct definer *file)
{
    if (!def->owner)
        return def->files == 1 || def->dropped != owners->round;
    return strcmp(file->path, def->owner->path) < 0;
}

/* Records the objects of @file, each once, with the slot of the last. */
static void name_objects(struct manifest_owners *owners, struct definer *file, object_vec *objects)
{
    owners->pass++;
    vec_reserve(&file->defs, objects->n);
    for (size_t i = 0; i < objects->n; i++) {
        struct definition *def = definition_get(owners, &objects->v[i]);
        if (def->pass == owners->pass) {
            log_warn("source", "%s: %s %s is a duplicate; the last one is used", file->path,
                     object_kind_name(def->kind), def->id);
            object_clear(&objects->v[def->slot]);
        } else {
            vec_push(&file->defs, def);
            def->files++;
        }
        if (is_taken(owners, def, file))
            def->owner = file;
        def->pass = owners->pass;
        def->slot = (uint32_t)i;
    }
}

/* Drops objects that @file defined @before but not in this pass. */
static void drop_objects(struct manifest_owners *owners, const struct definer *file,
                         struct definer *before)
{
    vec_each (&before->defs, it) {
        struct definition *def = *it;
        def->files--;
        if (def->files == 0 && !def->abandoned)
            vec_push(&owners->abandoned, def);
        def->abandoned = def->abandoned || def->files == 0;
        if (def->owner != file || def->pass == owners->pass)
            continue;
        def->owner = NULL;
        def->dropped = owners->round;
        owners->orphans = owners->orphans || def->files > 0;
    }
    vec_free(&before->defs);
}

void owners_remove_abandoned(struct manifest_owners *owners, const struct object_sink *sink)
{
    vec_each (&owners->abandoned, it) {
        struct definition *def = *it;
        def->abandoned = false;
        if (def->files > 0)
            continue;
        sink->remove(sink->ctx, def->kind, def->id);
        definition_free(owners, def);
    }
    vec_free(&owners->abandoned);
}

/* Passes the objects that @file owns to @sink. */
static void put_objects(const struct definer *file, object_vec *objects,
                        const struct object_sink *sink)
{
    size_t shared = 0;
    const struct definition *first = NULL;
    vec_each (&file->defs, it) {
        if ((*it)->files > 1 && (*it)->owner && shared++ == 0)
            first = *it;
        if ((*it)->owner == file)
            sink->put(sink->ctx, &objects->v[(*it)->slot]);
    }
    if (shared > 0)
        log_warn("source",
                 "%s: objects are also in other files; the file that sorts first is used "
                 "objects=%zu first=\"%s %s\" from=%s",
                 file->path, shared, object_kind_name(first->kind), first->id, first->owner->path);
}

/* Removals come first: a new object may use the address of an old one. */
void owners_set(struct manifest_owners *owners, struct definer *file, object_vec *objects,
                bool more, const struct object_sink *sink)
{
    struct definer before = *file;
    *file = (struct definer){.path = before.path};
    name_objects(owners, file, objects);
    drop_objects(owners, file, &before);
    if (!more)
        owners_remove_abandoned(owners, sink);
    put_objects(file, objects, sink);
    object_vec_clear(objects);
}

bool owners_next_round(struct manifest_owners *owners)
{
    if (!owners->orphans)
        return false;
    owners->orphans = false;
    owners->round++;
    return true;
}

bool owners_need(const struct definer *file)
{
    vec_each (&file->defs, def)
        if (!(*def)->owner)
            return true;
    return false;
}

void definer_forget(struct definer *file)
{
    vec_free(&file->defs);
}

void owners_forget(struct manifest_owners *owners)
{
    for (int kind = 0; kind < KIND_COUNT; kind++)
        hash_table_each (&owners->by_id[kind], struct definition, def)
            definition_free(owners, def);
    vec_free(&owners->abandoned);
    owners->orphans = false;
}
