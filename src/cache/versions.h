/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Which version of each object of a kind came, and which one the kernel's tables hold.
 *
 * Time is counted in generations, one for each time that changes go to the kernel. An object is
 * stamped with the generation in which it last changed; a family holds it when that generation is
 * applied there. So nothing is walked when changes are applied. What a family held before a change
 * is remembered until the change is applied in both families, also of objects that are gone, and so
 * is the last version of each object that could not be read.
 */
#ifndef KUBE_NFTD_CACHE_VERSIONS_H
#define KUBE_NFTD_CACHE_VERSIONS_H

#include "kube-nftd/cache.h"

/* 63 bits: there is always another one. */
typedef uint64_t generation;

/* An object as the cache has it; zero: it has none. */
struct known_object {
    const struct object_version *version; /* borrowed */
    generation changed;                   /* when it last changed */
    bool concerns[FAMILY_COUNT];          /* the tables of these families hold something of it */
};

/* Starts zeroed; release with versions_clear(). */
struct versions {
    struct hash_table remembered;
    generation now; /* less 1, so that the first one is 1 */
    generation applied[FAMILY_COUNT];
    generation last_change, swept;
    size_t kept;      /* how many were remembered after the last sweep */
    size_t n_pending; /* objects that changed since all was applied; one that goes and comes again
                       * meanwhile counts as two */
};

/** The object @id, which was @before, changes, comes or goes. Returns the generation to stamp it
 * with. @owner is the Service of an EndpointSlice, as it was; else NULL. */
generation versions_change(struct versions *versions, const char *id, const char *owner,
                           struct known_object before);

/** @version of @id came and could not be read: what was known of it stays. @owner as above, or
 * NULL if it is not known. */
void versions_reject(struct versions *versions, const char *id, const char *owner,
                     const struct object_version *version);

/** @id could be read again, or is gone; or all objects. */
void versions_accept(struct versions *versions, const char *id);
void versions_accept_all(struct versions *versions);

/** What was stamped so far is applied in these families (true for one that is not in use). The
 * next generation begins. */
void versions_apply(struct versions *versions, const bool applied[FAMILY_COUNT]);

/** Fills @out for @id. False if there is nothing to say. */
bool versions_of(const struct versions *versions, const char *id, struct known_object known,
                 struct object_versions *out);

/** Calls @take with the id of each object that is remembered, and whose owner is or was @owner. */
void versions_each_of_owner(const struct versions *versions, const char *owner,
                            void (*take)(void *ctx, const char *id), void *ctx);

void versions_clear(struct versions *versions);

#endif
