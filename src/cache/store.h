/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The objects of one kind by id, and which version of each is in the kernel's tables.
 *
 * Time is counted in generations, one per sync with the kernel. Each object carries the generation
 * of its last change; a family has the object applied once that generation is applied there, so
 * applying changes walks no objects. Until a change is applied in both families, the version before
 * it is kept, for removed objects too. So is the last version of each object that failed to decode.
 */
#ifndef KUBE_NFTD_CACHE_STORE_H
#define KUBE_NFTD_CACHE_STORE_H

#include "kube-nftd/cache.h"

/* 63 bits never wrap. */
typedef uint64_t generation;

/* An object, or what is kept of a former one. */
struct entry {
    struct hash_link link;   /* by id */
    void *object;            /* NULL: removed, or never decoded */
    struct past *past;       /* NULL: nothing is kept */
    generation changed : 63; /* of the last change; 0: none */
    uint64_t listed : 1;     /* scratch of store_list() */
};

/* Starts zeroed, except for the kind. */
struct object_store {
    enum object_kind kind; /* any but KIND_NODE */
    struct hash_table entries;
    VEC(struct entry *) with_past;
    generation now; /* the current one minus 1, so that the first is 1 */
    generation applied[FAMILY_COUNT];
    generation last_change, swept;
    size_t kept; /* entries with a past after the last sweep */
    struct object_counts counts;
};

/** Frees all objects without reporting them. */
void store_clear(struct object_store *store);

/* A real change of an object. Both versions exist until store_release(). */
struct store_change {
    void *before, *after; /* NULL: added, removed */
    struct entry *gone;   /* private */
};

/** Adds @object or replaces the object with its id. Takes it. Returns whether that changes
 * something.
 * @newer  gets it, or the equal one that is stored already, if it is a Service, or a slice of one,
 *         with another resourceVersion; else NULL */
bool store_put(struct object_store *store, void *object, struct store_change *change,
               const void **newer);

/** Removes the object @id. Returns whether it was known. */
bool store_remove(struct object_store *store, const char *id, struct store_change *change);

/** Marks the entries of @objects. */
void store_list(struct object_store *store, const object_vec *objects);

/** Removes the object of @entry if it is not marked, and clears the mark. Returns whether there was
 * one. */
bool store_retain(struct object_store *store, struct entry *entry, struct store_change *change);

/** To be called when a change is reported. */
void store_release(struct object_store *store, const struct store_change *change);

/** Records that @object (a Service or slice, no payload) failed to decode. The known version
 * stays. */
void store_reject(struct object_store *store, const struct object *object);

/** Marks all changes so far as applied in these families (true for a family not in use) and starts
 * the next generation. */
void store_apply(struct object_store *store, const bool applied[FAMILY_COUNT]);

/** Appends the versions of former slices of a Service, and of those whose last version failed to
 * decode, to @out. */
void store_former_slices(const struct object_store *store, const char *service_id,
                         const bool applied[FAMILY_COUNT], object_versions_vec *out);

/** The Service that @slice (may be NULL) adds endpoints to; NULL: none. */
const char *slice_owner(const struct endpoint_slice *slice);

/* ---- EndpointSlices: see kube-nftd/cache.h ---- */

/** @store is borrowed. */
struct endpoint_slice_cache *endpoint_slice_cache_new(const struct object_store *store);

/** Takes in a change of @store, and reports it. */
void endpoint_slice_cache_change(struct endpoint_slice_cache *cache,
                                 const struct store_change *change, const struct caches_ops *ops);

/** To be called before store_clear(). */
void endpoint_slice_cache_free(struct endpoint_slice_cache *cache);

#endif
