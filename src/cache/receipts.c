/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "kube-nftd/cache/receipts.h"

#include "kube-nftd/base/hash.h"

#include <string.h>

/* While one family fails, changes of the other pile up: what says nothing any more is looked for
 * when there are twice as many as were worth keeping the last time, and so many more. */
#define SWEEP_ALLOWANCE 1024

/* A change that is not in force in both families yet, as far as anything was held before it. */
struct in_flight {
    UT_hash_handle hh; /* by id */
    char *id;
    char *owner; /* before the change; NULL for what has none */
    generation changed;
    bool gone;
    struct object_version held[FAMILY_COUNT];
};

struct left_out {
    UT_hash_handle hh; /* by id */
    char *id;
    char *owner;
    struct object_version version;
};

struct receipts {
    struct in_flight *in_flight;
    struct left_out *left_out;
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

static void free_in_flight(struct receipts *receipts, struct in_flight *change)
{
    HASH_DELETE(hh, receipts->in_flight, change);
    for (int family = 0; family < FAMILY_COUNT; family++)
        object_version_clear(&change->held[family]);
    free(change->owner);
    free(change->id);
    free(change);
}

static void free_left_out(struct receipts *receipts, struct left_out *object)
{
    HASH_DELETE(hh, receipts->left_out, object);
    object_version_clear(&object->version);
    free(object->owner);
    free(object->id);
    free(object);
}

static void free_all_in_flight(struct receipts *receipts)
{
    struct in_flight *change, *next;
    HASH_ITER(hh, receipts->in_flight, change, next)
    {
        free_in_flight(receipts, change);
    }
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
    struct in_flight *change;
    HASH_FIND_STR(receipts->in_flight, id, change);
    return change;
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
    struct in_flight *change = xcalloc(1, sizeof(*change));
    change->id = xstrdup(id);
    HASH_ADD_KEYPTR(hh, receipts->in_flight, change->id, strlen(id), change);
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
    struct left_out *object;
    receipts_take_in(receipts, id);
    object = xcalloc(1, sizeof(*object));
    object->id = xstrdup(id);
    object->owner = xstrdup(owner);
    object_version_copy(&object->version, version);
    HASH_ADD_KEYPTR(hh, receipts->left_out, object->id, strlen(object->id), object);
}

void receipts_take_in(struct receipts *receipts, const char *id)
{
    struct left_out *object;
    HASH_FIND_STR(receipts->left_out, id, object);
    if (object)
        free_left_out(receipts, object);
}

void receipts_take_all_in(struct receipts *receipts)
{
    struct left_out *object, *next;
    HASH_ITER(hh, receipts->left_out, object, next)
    {
        free_left_out(receipts, object);
    }
}

/* ---- what came to be in force ---- */

static void sweep(struct receipts *receipts)
{
    struct in_flight *change, *next;
    HASH_ITER(hh, receipts->in_flight, change, next)
    {
        for (int family = 0; family < FAMILY_COUNT; family++)
            if (change->changed <= receipts->in_force[family])
                object_version_clear(&change->held[family]);
        if (!holds_anything(change))
            free_in_flight(receipts, change);
    }
    receipts->kept = HASH_COUNT(receipts->in_flight);
}

void receipts_next(struct receipts *receipts, const bool in_force[FAMILY_COUNT])
{
    for (int family = 0; family < FAMILY_COUNT; family++)
        if (in_force[family])
            receipts->in_force[family] = receipts->now;
    receipts->now++;
    if (!receipts->in_flight)
        return;
    if (receipts_is_in_force(receipts, receipts->last_change))
        free_all_in_flight(receipts);
    else if (HASH_COUNT(receipts->in_flight) > 2 * receipts->kept + SWEEP_ALLOWANCE)
        sweep(receipts);
}

/* ---- what can be asked ---- */

/* What @family held before @change, if it is not in force; NULL: nothing. */
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
    const struct left_out *left_out;
    HASH_FIND_STR(receipts->left_out, id, left_out);
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
    for (const struct in_flight *it = receipts->in_flight; it; it = it->hh.next)
        if (is_owner(it->owner, owner))
            take(ctx, it->id);
    for (const struct left_out *it = receipts->left_out; it; it = it->hh.next) {
        const struct in_flight *change = find(receipts, it->id);
        if (is_owner(it->owner, owner) && !(change && is_owner(change->owner, owner)))
            take(ctx, it->id);
    }
}

size_t receipts_in_flight(const struct receipts *receipts)
{
    return HASH_COUNT(receipts->in_flight);
}
