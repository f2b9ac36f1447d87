/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The Services that are known, by id. Owns them. */
#ifndef KUBE_NFTD_CACHE_SERVICE_CACHE_H
#define KUBE_NFTD_CACHE_SERVICE_CACHE_H

#include "kube-nftd/cache/receipts.h"
#include "kube-nftd/model/object.h"

struct service_cache;

/* Told of each real change, while both versions are still there: @before or @after is NULL when a
 * Service comes or goes. */
typedef void (*service_changed_fn)(void *ctx, const struct service *before,
                                   const struct service *after);

/* What came in: whether or not it made a difference, and what did and is not applied yet. */
struct cache_changes {
    uint64_t seen;  /* objects put, and known ones removed */
    size_t pending; /* objects that became others since all was applied; one that goes and comes
                     * again meanwhile counts as two */
};

struct service_cache *service_cache_new(service_changed_fn changed, void *ctx);
void service_cache_free(struct service_cache *cache);

/** Adds @service or replaces the one of its id; says nothing if both are equal. Takes @service.
 * Logs its warnings when they are new. */
void service_cache_put(struct service_cache *cache, struct service *service);

/** Forgets the Service @id; an unknown one is fine. */
void service_cache_remove(struct service_cache *cache, const char *id);

/** Forgets every Service whose id is not in @keep (objects of KIND_SERVICE). */
void service_cache_retain(struct service_cache *cache, const object_vec *keep);

/** The Service @id, borrowed until it changes, or NULL. */
const struct service *service_cache_get(const struct service_cache *cache, const char *id);

/** How many there are. */
size_t service_cache_count(const struct service_cache *cache);

/** What changed. */
struct cache_changes service_cache_changes(const struct service_cache *cache);

/** The Service @object, which has no payload, came and cannot be read: what is known of it stays.
 */
void service_cache_leave_out(struct service_cache *cache, const struct object *object);

/** What was told so far is applied in these families; true for one that is not in use. */
void service_cache_turn_over(struct service_cache *cache, const bool in_force[FAMILY_COUNT]);

/** Which version of the Service @id came, and which is applied (receipts.h). False if nothing is
 * known of it, in the kernel neither. */
bool service_cache_receipt(const struct service_cache *cache, const char *id, struct receipt *out);

#endif
