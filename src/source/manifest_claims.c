/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A claim is one object that is held by somebody: its owner and, seldom, others that wait for it.
 * The objects themselves are not kept. So when an owner drops its object, the heir must be read
 * again; until then the sink keeps the old version.
 */
#include "kube-nftd/source/manifest_claims.h"

#include "kube-nftd/base/hash_table.h"
#include "kube-nftd/base/log.h"

#include <string.h>

struct manifest_claim {
    struct hash_link link; /* by id */
    struct manifest_holder *owner;
    VEC(struct manifest_holder *) others; /* sorted by name */
    enum object_kind kind;
    unsigned pass; /* of the last manifest_claims_set() that named it */
    size_t slot;   /* where it was named there */
    char id[];
};

struct manifest_claims {
    const struct object_sink *sink;
    manifest_heir_fn heir;
    void *ctx;
    struct hash_table by_id[KIND_COUNT];
    unsigned pass;
    bool started;
    object_vec first[KIND_COUNT]; /* until then */
};

struct manifest_claims *manifest_claims_new(const struct object_sink *sink, manifest_heir_fn heir,
                                            void *ctx)
{
    struct manifest_claims *claims = xcalloc(1, sizeof(*claims));
    claims->sink = sink;
    claims->heir = heir;
    claims->ctx = ctx;
    return claims;
}

static struct hash_key key_of(const struct hash_link *link)
{
    return hash_key_of_text(((const struct manifest_claim *)link)->id);
}

static void claim_free(struct manifest_claims *claims, struct manifest_claim *claim)
{
    hash_table_remove(&claims->by_id[claim->kind], &claim->link);
    vec_free(&claim->others);
    free(claim);
}

void manifest_claims_free(struct manifest_claims *claims)
{
    if (!claims)
        return;
    for (int kind = 0; kind < KIND_COUNT; kind++) {
        hash_table_each (&claims->by_id[kind], struct manifest_claim, claim)
            claim_free(claims, claim);
        object_vec_clear(&claims->first[kind]);
    }
    free(claims);
}

/* Where @holder is in the others of @claim, or would have to be. */
static size_t place_of(const struct manifest_claim *claim, const struct manifest_holder *holder)
{
    size_t low = 0, high = claim->others.n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (strcmp(claim->others.v[middle]->name, holder->name) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static bool holds(const struct manifest_claim *claim, const struct manifest_holder *holder)
{
    size_t place = place_of(claim, holder);
    return claim->owner == holder || (place < claim->others.n && claim->others.v[place] == holder);
}

static void wait_for(struct manifest_claim *claim, struct manifest_holder *holder)
{
    size_t place = place_of(claim, holder);
    vec_reserve(&claim->others, 1);
    memmove(claim->others.v + place + 1, claim->others.v + place,
            (claim->others.n - place) * sizeof(*claim->others.v));
    claim->others.v[place] = holder;
    claim->others.n++;
}

static void wait_no_more(struct manifest_claim *claim, size_t place)
{
    claim->others.n--;
    memmove(claim->others.v + place, claim->others.v + place + 1,
            (claim->others.n - place) * sizeof(*claim->others.v));
}

static void add_holder(struct manifest_claim *claim, struct manifest_holder *holder)
{
    if (!claim->owner) {
        claim->owner = holder;
    } else if (strcmp(holder->name, claim->owner->name) < 0) {
        wait_for(claim, claim->owner);
        claim->owner = holder;
    } else {
        wait_for(claim, holder);
    }
}

/* The claim of @object, made if nobody holds it. */
static struct manifest_claim *claim_of(struct manifest_claims *claims, const struct object *object)
{
    struct hash_table *by_id = &claims->by_id[object->kind];
    struct hash_key id = hash_key_of_text(object->id);
    struct manifest_claim *claim = hash_table_find(by_id, key_of, id);
    if (claim)
        return claim;
    claim = xcalloc(1, sizeof(*claim) + id.length + 1);
    claim->kind = object->kind;
    memcpy(claim->id, id.bytes, id.length);
    hash_table_add(by_id, key_of, &claim->link);
    return claim;
}

static void put(struct manifest_claims *claims, struct object *object)
{
    if (claims->started) {
        claims->sink->put(claims->sink->ctx, object);
        return;
    }
    vec_push(&claims->first[object->kind], *object);
    memset(object, 0, sizeof(*object));
}

/* @holder names its objects: the claims on them, each once, with the slot of the last. */
static void name_objects(struct manifest_claims *claims, struct manifest_holder *holder,
                         object_vec *objects)
{
    claims->pass++;
    vec_reserve(&holder->claims, objects->n);
    for (size_t i = 0; i < objects->n; i++) {
        struct manifest_claim *claim = claim_of(claims, &objects->v[i]);
        if (claim->pass == claims->pass && claim->owner) {
            log_warn("manifests", "%s: %s %s is there twice; the last one counts", holder->name,
                     object_kind_name(claim->kind), claim->id);
            object_clear(&objects->v[claim->slot]);
        } else {
            vec_push(&holder->claims, claim);
        }
        if (!holds(claim, holder))
            add_holder(claim, holder);
        claim->pass = claims->pass;
        claim->slot = i;
    }
}

static void drop(struct manifest_claims *claims, struct manifest_holder *holder,
                 struct manifest_claim *claim)
{
    if (claim->owner != holder) {
        wait_no_more(claim, place_of(claim, holder));
    } else if (claim->others.n > 0) {
        claim->owner = claim->others.v[0];
        wait_no_more(claim, 0);
        claims->heir(claims->ctx, claim->owner);
    } else {
        claims->sink->remove(claims->sink->ctx, claim->kind, claim->id);
        claim_free(claims, claim);
    }
}

/* Hands on what @holder owns of what it holds. */
static void put_owned(struct manifest_claims *claims, struct manifest_holder *holder,
                      object_vec *objects)
{
    size_t shared = 0;
    const struct manifest_claim *first = NULL;
    vec_each (&holder->claims, claim) {
        if ((*claim)->others.n > 0) {
            first = first ? first : *claim;
            shared++;
        }
        if ((*claim)->owner == holder)
            put(claims, &objects->v[(*claim)->slot]);
    }
    if (shared > 0)
        log_warn("manifests",
                 "%s: objects are in other files too; the file that sorts first counts objects=%zu "
                 "first=\"%s %s\" from=%s",
                 holder->name, shared, object_kind_name(first->kind), first->id,
                 first->owner->name);
}

/* What is gone goes first: a new object may use the address of an old one. */
void manifest_claims_set(struct manifest_claims *claims, struct manifest_holder *holder,
                         object_vec *objects)
{
    struct manifest_holder before = *holder;
    memset(&holder->claims, 0, sizeof(holder->claims));
    name_objects(claims, holder, objects);
    vec_each (&before.claims, claim) {
        if ((*claim)->pass != claims->pass)
            drop(claims, holder, *claim);
    }
    vec_free(&before.claims);
    put_owned(claims, holder, objects);
    object_vec_clear(objects);
}

void manifest_claims_start(struct manifest_claims *claims)
{
    claims->started = true;
    for (int kind = 0; kind < KIND_COUNT; kind++) {
        claims->sink->replace(claims->sink->ctx, (enum object_kind)kind, &claims->first[kind]);
        object_vec_clear(&claims->first[kind]);
    }
}
