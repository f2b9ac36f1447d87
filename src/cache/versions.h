/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Tracks which version of each object was received, and which one the kernel's tables hold.
 *
 * Time is counted in generations, one per sync with the kernel. Each object carries the generation
 * of its last change; a family has the object applied once that generation is applied there, so
 * applying changes walks no objects. Until a change is applied in both families, the version before
 * it is remembered, for removed objects too. So is the last version of each object that failed to
 * decode.
 */
#ifndef KUBE_NFTD_CACHE_VERSIONS_H
#define KUBE_NFTD_CACHE_VERSIONS_H

#include "kube-nftd/cache.h"

/* 63 bits never wrap. */
typedef uint64_t generation;

/* The cached state of an object; zero: not cached. */
struct known_object {
    const struct object_version *version; /* borrowed */
    generation changed;                   /* of the last change */
    bool concerns[FAMILY_COUNT];          /* families in whose table it has state */
};

/* Starts zeroed; release with versions_clear(). */
struct versions {
    struct hash_table remembered;
    generation now; /* the current one minus 1, so that the first is 1 */
    generation applied[FAMILY_COUNT];
    generation last_change, swept;
    size_t kept;      /* entries left by the last sweep */
    size_t n_pending; /* changed objects not applied yet; one removed and added again meanwhile
                       * counts twice */
};

/** Records that the object @id, until now @before, is added, changed or removed. @owner is the
 * previous Service of an EndpointSlice, else NULL. Returns the generation of the change. */
generation versions_change(struct versions *versions, const char *id, const char *owner,
                           struct known_object before);

/** Records that @version of @id failed to decode. The known version stays. @owner as above, or
 * NULL if unknown. */
void versions_reject(struct versions *versions, const char *id, const char *owner,
                     const struct object_version *version);

/** Clears the decoding failure of @id, which was decoded or removed; or of all objects. */
void versions_accept(struct versions *versions, const char *id);
void versions_accept_all(struct versions *versions);

/** Marks all changes so far as applied in these families (true for a family not in use) and starts
 * the next generation. */
void versions_apply(struct versions *versions, const bool applied[FAMILY_COUNT]);

/** Fills @out for @id. False if neither the cache nor the tables know the object. */
bool versions_of(const struct versions *versions, const char *id, struct known_object known,
                 struct object_versions *out);

/** Calls @take with the id of each remembered object whose owner is or was @owner. */
void versions_each_of_owner(const struct versions *versions, const char *owner,
                            void (*take)(void *ctx, const char *id), void *ctx);

void versions_clear(struct versions *versions);

#endif
