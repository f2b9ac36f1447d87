/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "kube-nftd/cache/receipts.h"

#include "kube-nftd/base/alloc.h"
#include "kube-nftd/base/hash_table.h"

#include <stdlib.h>
#include <string.h>

/* While one family fails, changes of the other pile up: what says nothing any more is looked for
 * when there are twice as many as were worth keeping the last time, and so many more. */
#define SWEEP_ALLOWANCE 1024

/* A change that is not applied in both families yet, as far as anything was held before it. */
struct in_flight {
    struct hash_link link; /* by id */
    char *owner;           /* before the change; NULL for what has none */
    generation changed;
    bool gone;
    struct object_version held[FAMILY_COUNT];
    char id[];
};

struct left_out {
    struct hash_link link; /* by id */
    char *owner;
    struct object_version version;
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

static struct hash_key in_flight_key(const struct hash_link *link)
{
    return hash_key_of_text(((const struct in_flight *)link)->id);
}

static struct hash_key left_out_key(const struct hash_link *link)
{
    return hash_key_of_text(((const struct left_out *)link)->id);
}

static void free_in_flight(struct receipts *receipts, struct in_flight *change)
{
    hash_table_remove(&receipts->in_flight, &change->link);
    for (int family = 0; family < FAMILY_COUNT; family++)
        object_version_clear(&change->held[family]);
    free(change->owner);
    free(change);
}

static void free_left_out(struct receipts *receipts, struct left_out *object)
{
    hash_table_remove(&receipts->left_out, &object->link);
    object_version_clear(&object->version);
    free(object->owner);
    free(object);
}

static void free_all_in_flight(struct receipts *receipts)
{
    hash_table_each (&receipts->in_flight, struct in_flight, change)
        free_in_flight(receipts, change);
}

void receipts_free(struct receipts *receipts)
{
    free_all_in_flight(receipts);
    receipts_take_all_in(receipts);
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

static struct in_flight *find(const struct receipts *receipts, const char *id)
{
    return hash_table_find(&receipts->in_flight, in_flight_key, hash_key_of_text(id));
}

static bool holds_anything(const struct in_flight *change)
{
    for (int family = 0; family < FAMILY_COUNT; family++)
        if (object_version_is_set(&change->held[family]))
            return true;
    return false;
}

/* What the families hold that the change before has reached. Returns whether it has reached any. */
static bool note_held(const struct receipts *receipts, struct in_flight *change,
                      const struct received_object *before)
{
    bool any = false;
    for (int family = 0; family < FAMILY_COUNT; family++) {
        struct object_version *held = &change->held[family];
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

static struct in_flight *add(struct receipts *receipts, const char *id)
{
    size_t length = strlen(id);
    struct in_flight *change = xcalloc(1, sizeof(*change) + length + 1);
    memcpy(change->id, id, length);
    hash_table_add(&receipts->in_flight, in_flight_key, &change->link);
    return change;
}

void receipts_change(struct receipts *receipts, const char *id, const char *owner,
                     const struct received_object *before, bool goes)
{
    struct in_flight *change = find(receipts, id);
    receipts->last_change = receipts->now;
    if (!change && !before)
        return;
    if (!change)
        change = add(receipts, id);
    if (note_held(receipts, change, before) && before) {
        free(change->owner);
        change->owner = xstrdup(owner);
    }
    if (!holds_anything(change)) {
        free_in_flight(receipts, change);
        return;
    }
    change->changed = receipts->now;
    change->gone = goes;
}

void receipts_leave_out(struct receipts *receipts, const char *id, const char *owner,
                        const struct object_version *version)
{
    size_t length = strlen(id);
    receipts_take_in(receipts, id);
    struct left_out *object = xcalloc(1, sizeof(*object) + length + 1);
    memcpy(object->id, id, length);
    object->owner = xstrdup(owner);
    object_version_copy(&object->version, version);
    hash_table_add(&receipts->left_out, left_out_key, &object->link);
}

static struct left_out *find_left_out(const struct receipts *receipts, const char *id)
{
    return hash_table_find(&receipts->left_out, left_out_key, hash_key_of_text(id));
}

void receipts_take_in(struct receipts *receipts, const char *id)
{
    struct left_out *object = find_left_out(receipts, id);
    if (object)
        free_left_out(receipts, object);
}

void receipts_take_all_in(struct receipts *receipts)
{
    hash_table_each (&receipts->left_out, struct left_out, object)
        free_left_out(receipts, object);
}

/* ---- what was applied ---- */

static void sweep(struct receipts *receipts)
{
    hash_table_each (&receipts->in_flight, struct in_flight, change) {
        for (int family = 0; family < FAMILY_COUNT; family++)
            if (change->changed <= receipts->in_force[family])
                object_version_clear(&change->held[family]);
        if (!holds_anything(change))
            free_in_flight(receipts, change);
    }
    receipts->kept = receipts->in_flight.n;
}

void receipts_next(struct receipts *receipts, const bool in_force[FAMILY_COUNT])
{
    for (int family = 0; family < FAMILY_COUNT; family++)
        if (in_force[family])
            receipts->in_force[family] = receipts->now;
    receipts->now++;
    if (receipts->in_flight.n == 0)
        return;
    if (receipts_is_in_force(receipts, receipts->last_change))
        free_all_in_flight(receipts);
    else if (receipts->in_flight.n > 2 * receipts->kept + SWEEP_ALLOWANCE)
        sweep(receipts);
}

/* ---- what can be asked ---- */

/* What @family held before @change, if it is not applied; NULL: nothing. */
static const struct object_version *held_before(const struct receipts *receipts,
                                                const struct in_flight *change, int family)
{
    if (!change || change->changed <= receipts->in_force[family] ||
        !object_version_is_set(&change->held[family]))
        return NULL;
    return &change->held[family];
}

bool receipts_of(const struct receipts *receipts, const char *id,
                 const struct received_object *known, struct receipt *out)
{
    const struct in_flight *change = find(receipts, id);
    const struct left_out *left_out = find_left_out(receipts, id);
    *out = (struct receipt){.id = id,
                            .received = known ? known->version : NULL,
                            .left_out = left_out ? &left_out->version : NULL};
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
    hash_table_each (&receipts->in_flight, const struct in_flight, it)
        if (is_owner(it->owner, owner))
            take(ctx, it->id);
    hash_table_each (&receipts->left_out, const struct left_out, it) {
        const struct in_flight *change = find(receipts, it->id);
        if (is_owner(it->owner, owner) && !(change && is_owner(change->owner, owner)))
            take(ctx, it->id);
    }
}
