/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "tally.h"

#include "kube-nftd/base/hash_table.h"
#include "kube-nftd/base/vec.h"

struct used {
    struct hash_link link; /* by thing */
    struct frontend thing;
    uint32_t users;
    bool told;  /* as used */
    bool noted; /* in tally->noted */
};

struct tally {
    struct hash_table things;
    VEC(struct used *) noted;
};

struct tally *tally_new(void)
{
    return xcalloc(1, sizeof(struct tally));
}

static void note(struct tally *tally, struct used *used)
{
    if (used->noted)
        return;
    used->noted = true;
    vec_push(&tally->noted, used);
}

static struct hash_key key_of(const struct hash_link *link)
{
    return hash_key_of_frontend(&((const struct used *)link)->thing);
}

static struct used *find(const struct tally *tally, const struct frontend *thing)
{
    return hash_table_find(&tally->things, key_of, hash_key_of_frontend(thing));
}

void tally_add(struct tally *tally, const struct frontend *thing)
{
    struct used *used = find(tally, thing);
    if (!used) {
        used = xcalloc(1, sizeof(*used));
        used->thing = *thing;
        hash_table_add(&tally->things, key_of, &used->link);
    }
    if (used->users++ == 0)
        note(tally, used);
}

void tally_drop(struct tally *tally, const struct frontend *thing)
{
    struct used *used = find(tally, thing);
    if (--used->users == 0)
        note(tally, used);
}

bool tally_has(const struct tally *tally, const struct frontend *thing)
{
    const struct used *used = find(tally, thing);
    return used && used->users > 0;
}

static void forget(struct tally *tally, struct used *used)
{
    hash_table_remove(&tally->things, &used->link);
    free(used);
}

void tally_settle(struct tally *tally,
                  void (*tell)(void *ctx, const struct frontend *thing, bool in_use), void *ctx)
{
    vec_each (&tally->noted, it) {
        struct used *used = *it;
        used->noted = false;
        if (used->told != (used->users > 0))
            tell(ctx, &used->thing, used->users > 0);
        used->told = used->users > 0;
        if (!used->told)
            forget(tally, used);
    }
    vec_clear_few(&tally->noted);
}

void tally_free(struct tally *tally)
{
    hash_table_each (&tally->things, struct used, used)
        forget(tally, used);
    vec_free(&tally->noted);
    free(tally);
}
