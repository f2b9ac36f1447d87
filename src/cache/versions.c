/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "versions.h"

#include <string.h>

/* While one family fails, changes of the other pile up. A sweep drops obsolete entries once their
 * number exceeds twice what the last sweep kept, plus this many. */
#define SWEEP_ALLOWANCE 1024

/* What is remembered of an object beyond its cached state. */
struct remembered {
    struct hash_link link; /* by id */
    /* A change that is not applied in both families yet: */
    generation changed;
    struct object_version programmed[FAMILY_COUNT]; /* in the tables, from before the change */
    char *owner;                                    /* before the change; NULL: none */
    /* A version that failed to decode: */
    struct object_version rejected;
    char *rejected_owner; /* NULL: unknown or none */
    char id[];
};

static struct hash_key key_of(const struct hash_link *link)
{
    return hash_key_of_text(((const struct remembered *)link)->id);
}

static struct remembered *find(const struct versions *versions, const char *id)
{
    return hash_table_find(&versions->remembered, key_of, hash_key_of_text(id));
}

static struct remembered *find_or_add(struct versions *versions, const char *id)
{
    struct remembered *it = find(versions, id);
    size_t length = strlen(id);
    if (it)
        return it;
    it = xcalloc(1, sizeof(*it) + length + 1);
    memcpy(it->id, id, length);
    hash_table_add(&versions->remembered, key_of, &it->link);
    return it;
}

static bool holds_anything(const struct remembered *it)
{
    return object_version_is_set(&it->programmed[FAMILY_IPV4]) ||
           object_version_is_set(&it->programmed[FAMILY_IPV6]);
}

/* Frees the entry once nothing in it is set. */
static void tidy(struct versions *versions, struct remembered *it)
{
    if (object_version_is_set(&it->rejected) || holds_anything(it))
        return;
    hash_table_remove(&versions->remembered, &it->link);
    free(it->owner);
    free(it->rejected_owner);
    free(it);
}

void versions_clear(struct versions *versions)
{
    hash_table_each (&versions->remembered, struct remembered, it) {
        object_version_clear(&it->programmed[FAMILY_IPV4]);
        object_version_clear(&it->programmed[FAMILY_IPV6]);
        object_version_clear(&it->rejected);
        tidy(versions, it);
    }
}

static bool is_applied(const struct versions *versions, generation changed)
{
    for (int family = 0; family < FAMILY_COUNT; family++)
        if (changed > versions->applied[family])
            return false;
    return true;
}

/* ---- changes ---- */

generation versions_change(struct versions *versions, const char *id, const char *owner,
                           struct known_object before)
{
    const generation now = versions->now + 1;
    struct remembered *change = find(versions, id);
    bool reached = false;
    versions->last_change = now;
    versions->n_pending += !before.version || is_applied(versions, before.changed);
    if (!change && !before.version)
        return now;
    change = find_or_add(versions, id);
    /* If the previous change is applied in a family, its table has the version of that change. */
    for (int family = 0; family < FAMILY_COUNT; family++) {
        if ((before.version ? before.changed : change->changed) > versions->applied[family])
            continue;
        reached = true;
        if (before.version && before.concerns[family])
            object_version_copy(&change->programmed[family], before.version);
        else
            object_version_clear(&change->programmed[family]);
    }
    if (reached && before.version) {
        free(change->owner);
        change->owner = xstrdup(owner);
    }
    change->changed = now;
    tidy(versions, change);
    return now;
}

void versions_reject(struct versions *versions, const char *id, const char *owner,
                     const struct object_version *version)
{
    struct remembered *it = find_or_add(versions, id);
    free(it->rejected_owner);
    it->rejected_owner = xstrdup(owner);
    object_version_copy(&it->rejected, version);
}

static void accept(struct versions *versions, struct remembered *it)
{
    object_version_clear(&it->rejected);
    tidy(versions, it);
}

void versions_accept(struct versions *versions, const char *id)
{
    struct remembered *it = find(versions, id);
    if (it)
        accept(versions, it);
}

void versions_accept_all(struct versions *versions)
{
    hash_table_each (&versions->remembered, struct remembered, it)
        accept(versions, it);
}

/* ---- applying ---- */

void versions_apply(struct versions *versions, const bool applied[FAMILY_COUNT])
{
    versions->now++;
    for (int family = 0; family < FAMILY_COUNT; family++)
        if (applied[family])
            versions->applied[family] = versions->now;
    if (is_applied(versions, versions->now))
        versions->n_pending = 0;
    const bool all = is_applied(versions, versions->last_change);
    if (versions->swept >= versions->last_change ||
        !(all || versions->remembered.n > 2 * versions->kept + SWEEP_ALLOWANCE))
        return;
    hash_table_each (&versions->remembered, struct remembered, it) {
        for (int family = 0; family < FAMILY_COUNT; family++)
            if (it->changed <= versions->applied[family])
                object_version_clear(&it->programmed[family]);
        tidy(versions, it);
    }
    versions->kept = versions->remembered.n;
    versions->swept = all ? versions->now : 0;
}

/* ---- queries ---- */

bool versions_of(const struct versions *versions, const char *id, struct known_object known,
                 struct object_versions *out)
{
    const struct remembered *it = find(versions, id);
    bool rejected = it && object_version_is_set(&it->rejected), any = known.version || rejected;
    *out = (struct object_versions){
        .id = id, .received = known.version, .rejected = rejected ? &it->rejected : NULL};
    for (int family = 0; family < FAMILY_COUNT; family++) {
        const struct object_version *before = NULL; /* in the table until the change is applied */
        if (it && it->changed > versions->applied[family] &&
            object_version_is_set(&it->programmed[family]))
            before = &it->programmed[family];
        bool concerned = known.version && known.concerns[family];
        bool applied = known.version ? known.changed <= versions->applied[family] : !before;
        out->family[family].concerned = concerned || before;
        out->family[family].applied = applied;
        out->family[family].programmed = concerned && applied ? known.version : before;
        any = any || before;
    }
    return any;
}

static bool is_text(const char *text, const char *wanted)
{
    return text && strcmp(text, wanted) == 0;
}

void versions_each_of_owner(const struct versions *versions, const char *owner,
                            void (*take)(void *ctx, const char *id), void *ctx)
{
    hash_table_each (&versions->remembered, const struct remembered, it)
        if ((holds_anything(it) && is_text(it->owner, owner)) ||
            (object_version_is_set(&it->rejected) && is_text(it->rejected_owner, owner)))
            take(ctx, it->id);
}
