/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "kube-nftd/cache.h"

#include "kube-nftd/base.h"

#include <stdlib.h>
#include <string.h>

/* While one family fails, changes of the other pile up: what says nothing any more is looked for
 * when there are twice as many as were worth keeping the last time, and so many more. */
#define SWEEP_ALLOWANCE 1024

/* A change that is not applied in both families yet, as far as anything was held before it; or an
 * object that could not be read. */
struct remembered {
    struct hash_link link; /* by id */
    char *owner;           /* before the change; NULL for what has none */
    generation changed;    /* of a change */
    /* What the families held before the change. Of an object that could not be read, its version is
     * the first one. */
    struct object_version versions[FAMILY_COUNT];
    char id[];
};

struct receipts {
    struct hash_table in_flight, left_out;
    generation now;
    generation in_force[FAMILY_COUNT]; /* all up to these */
    generation last_change;
    size_t kept; /* how many were in flight after the last sweep */
};

struct receipts *receipts_new(void)
{
    struct receipts *receipts = xcalloc(1, sizeof(*receipts));
    receipts->now = 1;
    return receipts;
}

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

void receipts_free(struct receipts *receipts)
{
    forget_all(&receipts->in_flight);
    forget_all(&receipts->left_out);
    free(receipts);
}

generation receipts_now(const struct receipts *receipts)
{
    return receipts->now;
}

bool receipts_is_in_force(const struct receipts *receipts, generation changed)
{
    for (int family = 0; family < FAMILY_COUNT; family++)
        if (changed > receipts->in_force[family])
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

/* What the families hold that the change before has reached. Returns whether it has reached any. */
static bool note_held(const struct receipts *receipts, struct remembered *change,
                      const struct received_object *before)
{
    bool any = false;
    for (int family = 0; family < FAMILY_COUNT; family++) {
        struct object_version *held = &change->versions[family];
        generation last = before ? before->changed : change->changed;
        if (last > receipts->in_force[family])
            continue;
        any = true;
        if (before && before->concerns[family])
            object_version_copy(held, before->version);
        else
            object_version_clear(held);
    }
    return any;
}

void receipts_change(struct receipts *receipts, const char *id, const char *owner,
                     const struct received_object *before)
{
    struct remembered *change = find(&receipts->in_flight, id);
    receipts->last_change = receipts->now;
    if (!change && !before)
        return;
    if (!change)
        change = add(&receipts->in_flight, id);
    if (note_held(receipts, change, before) && before) {
        free(change->owner);
        change->owner = xstrdup(owner);
    }
    if (!holds_anything(change)) {
        forget(&receipts->in_flight, change);
        return;
    }
    change->changed = receipts->now;
}

void receipts_leave_out(struct receipts *receipts, const char *id, const char *owner,
                        const struct object_version *version)
{
    receipts_take_in(receipts, id);
    struct remembered *object = add(&receipts->left_out, id);
    object->owner = xstrdup(owner);
    object_version_copy(&object->versions[0], version);
}

void receipts_take_in(struct receipts *receipts, const char *id)
{
    struct remembered *object = find(&receipts->left_out, id);
    if (object)
        forget(&receipts->left_out, object);
}

void receipts_take_all_in(struct receipts *receipts)
{
    forget_all(&receipts->left_out);
}

/* ---- what was applied ---- */

static void sweep(struct receipts *receipts)
{
    hash_table_each (&receipts->in_flight, struct remembered, change) {
        for (int family = 0; family < FAMILY_COUNT; family++)
            if (change->changed <= receipts->in_force[family])
                object_version_clear(&change->versions[family]);
        if (!holds_anything(change))
            forget(&receipts->in_flight, change);
    }
    receipts->kept = receipts->in_flight.n;
}

bool receipts_next(struct receipts *receipts, const bool in_force[FAMILY_COUNT])
{
    generation last = receipts->now;
    for (int family = 0; family < FAMILY_COUNT; family++)
        if (in_force[family])
            receipts->in_force[family] = receipts->now;
    receipts->now++;
    if (receipts->in_flight.n > 0 && receipts_is_in_force(receipts, receipts->last_change))
        forget_all(&receipts->in_flight);
    else if (receipts->in_flight.n > 2 * receipts->kept + SWEEP_ALLOWANCE)
        sweep(receipts);
    return receipts_is_in_force(receipts, last);
}

/* ---- what can be asked ---- */

/* What @family held before @change, if it is not applied; NULL: nothing. */
static const struct object_version *held_before(const struct receipts *receipts,
                                                const struct remembered *change, int family)
{
    if (!change || change->changed <= receipts->in_force[family] ||
        !object_version_is_set(&change->versions[family]))
        return NULL;
    return &change->versions[family];
}

bool receipts_of(const struct receipts *receipts, const char *id,
                 const struct received_object *known, struct receipt *out)
{
    const struct remembered *change = find(&receipts->in_flight, id);
    const struct remembered *left_out = find(&receipts->left_out, id);
    *out = (struct receipt){.id = id,
                            .received = known ? known->version : NULL,
                            .left_out = left_out ? left_out->versions : NULL};
    bool any = known || left_out;
    for (int family = 0; family < FAMILY_COUNT; family++) {
        const struct object_version *before = held_before(receipts, change, family);
        bool concerned = known && known->concerns[family];
        out->family[family].concerned = concerned || before;
        out->family[family].in_force =
            known ? known->changed <= receipts->in_force[family] : before == NULL;
        out->family[family].held =
            concerned && out->family[family].in_force ? known->version : before;
        any = any || before;
    }
    return any;
}

static bool is_owner(const char *owner, const char *wanted)
{
    return owner && strcmp(owner, wanted) == 0;
}

void receipts_each_of_owner(const struct receipts *receipts, const char *owner,
                            void (*take)(void *ctx, const char *id), void *ctx)
{
    hash_table_each (&receipts->in_flight, const struct remembered, it)
        if (is_owner(it->owner, owner))
            take(ctx, it->id);
    hash_table_each (&receipts->left_out, const struct remembered, it) {
        const struct remembered *change = find(&receipts->in_flight, it->id);
        if (is_owner(it->owner, owner) && !(change && is_owner(change->owner, owner)))
            take(ctx, it->id);
    }
}
