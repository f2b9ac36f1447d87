/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "kube-nftd/policy/tally.h"

#include "kube-nftd/base/hash.h"
#include "kube-nftd/base/vec.h"

struct used {
    UT_hash_handle hh; /* by thing */
    struct frontend thing;
    uint32_t users;
    bool told;  /* as used */
    bool noted; /* in tally->noted */
};

struct tally {
    struct used *things;
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

static struct used *find(const struct tally *tally, const struct frontend *thing)
{
    struct used *used;
    HASH_FIND(hh, tally->things, thing, sizeof(*thing), used);
    return used;
}

void tally_add(struct tally *tally, const struct frontend *thing)
{
    struct used *used = find(tally, thing);
    if (!used) {
        used = xcalloc(1, sizeof(*used));
        used->thing = *thing;
        HASH_ADD(hh, tally->things, thing, sizeof(used->thing), used);
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
    HASH_DELETE(hh, tally->things, used);
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
    vec_free(&tally->noted);
}

void tally_free(struct tally *tally)
{
    struct used *used, *next;
    HASH_ITER(hh, tally->things, used, next)
    {
        forget(tally, used);
    }
    vec_free(&tally->noted);
    free(tally);
}
