/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "versions.h"

#include <string.h>

/* While one family fails, changes of the other pile up. Those that say nothing any more are dropped
 * when there are twice as many as the last sweep kept, and so many more. */
#define SWEEP_ALLOWANCE 1024

/* A change that is not applied in both families yet, as far as a family held anything before it; or
 * an object that could not be read. */
struct remembered {
    struct hash_link link; /* by id */
    char *owner;           /* before the change; NULL: none */
    generation changed;
    /* What the families held before the change. Of a rejected object, its version is the first. */
    struct object_version versions[FAMILY_COUNT];
    char id[];
};

static struct hash_key key_of(const struct hash_link *link)
{
    return hash_key_of_text(((const struct remembered *)link)->id);
}

static struct remembered *find(const struct hash_table *all, const char *id)
{
    return hash_table_find(all, key_of, hash_key_of_text(id));
}

static struct remembered *add(struct hash_table *all, const char *id)
{
    size_t length = strlen(id);
    struct remembered *it = xcalloc(1, sizeof(*it) + length + 1);
    memcpy(it->id, id, length);
    hash_table_add(all, key_of, &it->link);
    return it;
}

static void forget(struct hash_table *all, struct remembered *it)
{
    hash_table_remove(all, &it->link);
    for (int family = 0; family < FAMILY_COUNT; family++)
        object_version_clear(&it->versions[family]);
    free(it->owner);
    free(it);
}

static void forget_all(struct hash_table *all)
{
    hash_table_each (all, struct remembered, it)
        forget(all, it);
}

void versions_clear(struct versions *versions)
{
    forget_all(&versions->pending);
    forget_all(&versions->rejected);
}

static bool is_applied(const struct versions *versions, generation changed)
{
    for (int family = 0; family < FAMILY_COUNT; family++)
        if (changed > versions->applied[family])
            return false;
    return true;
}

/* ---- changes ---- */

static bool holds_anything(const struct remembered *change)
{
    for (int family = 0; family < FAMILY_COUNT; family++)
        if (object_version_is_set(&change->versions[family]))
            return true;
    return false;
}

/* A family that the last change before this one has reached holds what that one made. Returns
 * whether there is such a family. */
static bool remember_held(const struct versions *versions, struct remembered *change,
                          const struct known_object *before)
{
    bool any = false;
    for (int family = 0; family < FAMILY_COUNT; family++) {
        if ((before ? before->changed : change->changed) > versions->applied[family])
            continue;
        any = true;
        if (before && before->concerns[family])
            object_version_copy(&change->versions[family], before->version);
        else
            object_version_clear(&change->versions[family]);
    }
    return any;
}

generation versions_change(struct versions *versions, const char *id, const char *owner,
                           const struct known_object *before)
{
    const generation now = versions->now + 1;
    struct remembered *change = find(&versions->pending, id);
    versions->last_change = now;
    versions->n_pending += !before || is_applied(versions, before->changed);
    if (!change && !before)
        return now;
    if (!change)
        change = add(&versions->pending, id);
    if (remember_held(versions, change, before) && before) {
        free(change->owner);
        change->owner = xstrdup(owner);
    }
    change->changed = now;
    if (!holds_anything(change))
        forget(&versions->pending, change);
    return now;
}

void versions_reject(struct versions *versions, const char *id, const char *owner,
                     const struct object_version *version)
{
    versions_accept(versions, id);
    struct remembered *object = add(&versions->rejected, id);
    object->owner = xstrdup(owner);
    object_version_copy(&object->versions[0], version);
}

void versions_accept(struct versions *versions, const char *id)
{
    struct remembered *object = find(&versions->rejected, id);
    if (object)
        forget(&versions->rejected, object);
}

void versions_accept_all(struct versions *versions)
{
    forget_all(&versions->rejected);
}

/* ---- what is applied ---- */

static void sweep(struct versions *versions)
{
    hash_table_each (&versions->pending, struct remembered, change) {
        for (int family = 0; family < FAMILY_COUNT; family++)
            if (change->changed <= versions->applied[family])
                object_version_clear(&change->versions[family]);
        if (!holds_anything(change))
            forget(&versions->pending, change);
    }
    versions->kept = versions->pending.n;
}

void versions_apply(struct versions *versions, const bool applied[FAMILY_COUNT])
{
    versions->now++;
    for (int family = 0; family < FAMILY_COUNT; family++)
        if (applied[family])
            versions->applied[family] = versions->now;
    if (is_applied(versions, versions->now))
        versions->n_pending = 0;
    if (versions->pending.n > 0 && is_applied(versions, versions->last_change))
        forget_all(&versions->pending);
    else if (versions->pending.n > 2 * versions->kept + SWEEP_ALLOWANCE)
        sweep(versions);
}

/* ---- what can be asked ---- */

/* What @family holds while @change is not applied there; NULL: nothing. */
static const struct object_version *held_before(const struct versions *versions,
                                                const struct remembered *change, int family)
{
    if (!change || change->changed <= versions->applied[family] ||
        !object_version_is_set(&change->versions[family]))
        return NULL;
    return &change->versions[family];
}

bool versions_of(const struct versions *versions, const char *id, const struct known_object *known,
                 struct object_versions *out)
{
    const struct remembered *change = find(&versions->pending, id);
    const struct remembered *rejected = find(&versions->rejected, id);
    *out = (struct object_versions){.id = id,
                                    .received = known ? known->version : NULL,
                                    .rejected = rejected ? rejected->versions : NULL};
    bool any = known || rejected;
    for (int family = 0; family < FAMILY_COUNT; family++) {
        const struct object_version *before = held_before(versions, change, family);
        bool concerned = known && known->concerns[family];
        bool applied = known ? known->changed <= versions->applied[family] : !before;
        out->family[family].concerned = concerned || before;
        out->family[family].applied = applied;
        out->family[family].held = concerned && applied ? known->version : before;
        any = any || before;
    }
    return any;
}

static bool is_owner(const struct remembered *object, const char *owner)
{
    return object && object->owner && strcmp(object->owner, owner) == 0;
}

void versions_each_of_owner(const struct versions *versions, const char *owner,
                            void (*take)(void *ctx, const char *id), void *ctx)
{
    hash_table_each (&versions->pending, const struct remembered, it)
        if (is_owner(it, owner))
            take(ctx, it->id);
    hash_table_each (&versions->rejected, const struct remembered, it)
        if (is_owner(it, owner) && !is_owner(find(&versions->pending, it->id), owner))
            take(ctx, it->id);
}
