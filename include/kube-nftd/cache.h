/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The objects as they are now. Caches own them, drop what is equal, and tell policy what changed;
 * what they lend is good until the next change.
 */
#ifndef KUBE_NFTD_CACHE_H
#define KUBE_NFTD_CACHE_H

#include "kube-nftd/base.h"
#include "kube-nftd/model.h"

#include <stdbool.h>
#include <stdint.h>

/*
 * Which version of each object of a kind has come, and which one the kernel's tables hold.
 *
 * Time is counted in generations: one for each time that changes are sent to the kernel. An object
 * is stamped with the generation in which it last became another; a family holds it when the
 * generation is applied there. Nothing is looked through for that. What was held before a change
 * is remembered until the change is applied in both families, and so are objects that went;
 * besides, the last version of each object that could not be read.
 */

/* 63 bits: there is always another one. */
typedef uint64_t generation;

struct receipts;

/* An object as it is known. */
struct received_object {
    const struct object_version *version; /* borrowed */
    generation changed;                   /* in which it became what it is */
    bool concerns[FAMILY_COUNT];          /* the tables of these families hold something of it */
};

/* What there is to say of an object. All texts are borrowed until the next change. */
struct receipt {
    const char *id;
    const struct object_version *received; /* NULL: it is gone, or never could be read */
    const struct object_version *left_out; /* came later, but could not be read; NULL: none */
    struct {
        bool concerned; /* the table of the family holds something of it, or shall */
        bool in_force;  /* what was received is what the table holds */
        const struct object_version *held; /* NULL: nothing of it */
    } family[FAMILY_COUNT];
};

struct receipts *receipts_new(void);
void receipts_free(struct receipts *receipts);

/** The generation to stamp what changes now with. The first one is 1. */
generation receipts_now(const struct receipts *receipts);

/** Whether all that was stamped with @changed is applied in both families. */
bool receipts_is_in_force(const struct receipts *receipts, generation changed);

/**
 * The object @id becomes another; its stamp has to become receipts_now().
 * @owner   the Service of an EndpointSlice, as @before has it; else NULL
 * @before  what it was; NULL: it was not there
 */
void receipts_change(struct receipts *receipts, const char *id, const char *owner,
                     const struct received_object *before);

/** @version of @id came and could not be read: what was known of it stays. @owner as above, or
 * NULL if it is not known. */
void receipts_leave_out(struct receipts *receipts, const char *id, const char *owner,
                        const struct object_version *version);

/** @id could be read again, or is gone. */
void receipts_take_in(struct receipts *receipts, const char *id);

/** The same for all objects. */
void receipts_take_all_in(struct receipts *receipts);

/** What was stamped so far is applied in these families (true for one that is not in use). The
 * next generation begins. Returns whether all that was stamped is applied in both. */
bool receipts_next(struct receipts *receipts, const bool in_force[FAMILY_COUNT]);

/** Says in @out what there is to say of @id, which is @known, or unknown if that is NULL. False if
 * nothing is. */
bool receipts_of(const struct receipts *receipts, const char *id,
                 const struct received_object *known, struct receipt *out);

/** Calls @take with the id of each object that went or could not be read and whose owner is
 * @owner. The object may be there again, of another owner or the same. */
void receipts_each_of_owner(const struct receipts *receipts, const char *owner,
                            void (*take)(void *ctx, const char *id), void *ctx);

/*
 * EndpointSliceCache: the slices of all Services, merged and without duplicates per service port
 * (docs/behaviour.md 2, KEP-752).
 *
 * Slices are kept by their own identity (namespace/name), so one that moves to another Service or
 * loses its label leaves nothing behind. They may come before, after or without their Service.
 * FQDN slices and slices without the service label contribute nothing.
 */

struct endpoint_slice_cache;

/* What a merged list of endpoints belongs to; strings are borrowed. */
struct service_port_ref {
    const char *service_id;
    enum family family;
    const char *port_name;
    uint8_t protocol;
};

/* One endpoint of a service port. */
struct endpoint {
    struct address address;
    const char *node_name; /* interned; borrowed from the cache until its next change; or NULL */
    const struct endpoint_hints *hints; /* borrowed likewise; NULL if it has none */
    uint16_t port;
    uint8_t flags;  /* of enum endpoint_flag */
    uint8_t zone;   /* see kube-nftd/model.h */
    uint32_t place; /* in the order of slice ids and places in them: decides between equal copies */
};

typedef VEC(struct endpoint) endpoint_vec;

/* Another copy of an endpoint wins now, or one of other attributes. Borrowed. */
struct endpoint_change {
    struct address address;
    uint16_t port;
    const struct slice_endpoint *before, *after; /* NULL: there was, or is, none */
};

typedef VEC(struct endpoint_change) endpoint_change_vec;

/* Told of every service port to whose endpoints a change made a difference: the @n @changes, each
 * of another endpoint (borrowed), of those of endpoint_slice_cache_merge(). NULL: its only slice
 * came or went, and all of them with it. */
typedef void (*service_port_changed_fn)(void *ctx, const struct service_port_ref *ref,
                                        const struct endpoint_change *changes, size_t n);

/* What came in, as struct cache_changes has it; only of slices that belong to a Service. */
struct slice_changes {
    uint64_t seen[FAMILY_COUNT];
    size_t pending;
};

struct endpoint_slice_cache *endpoint_slice_cache_new(service_port_changed_fn changed, void *ctx);
void endpoint_slice_cache_free(struct endpoint_slice_cache *cache);

/** Adds @slice or replaces the one of its id. Takes @slice. Costs as much as the slice, whatever
 * others its Service has. Returns whether the slice of a Service is another one by it, if only by
 * its resourceVersion. */
bool endpoint_slice_cache_put(struct endpoint_slice_cache *cache, struct endpoint_slice *slice);

/** Forgets the slice @id; an unknown one is fine. */
void endpoint_slice_cache_remove(struct endpoint_slice_cache *cache, const char *id);

/** Forgets every slice whose id is not in @keep (objects of KIND_ENDPOINTSLICE). */
void endpoint_slice_cache_retain(struct endpoint_slice_cache *cache, const object_vec *keep);

/**
 * Puts the endpoints of a service port into @out (cleared first), sorted by address and port. Of
 * several copies of one address:port, one that is not terminating wins over those that are; among
 * equals the order of slice ids and places decides (docs/behaviour.md 2.5).
 */
void endpoint_slice_cache_merge(const struct endpoint_slice_cache *cache,
                                const struct service_port_ref *ref, endpoint_vec *out);

/**
 * Appends the endpoints that @slice gives to a service port: none if it is of another family, or
 * has no port of that name and protocol. Their places go on from those in @out.
 */
void endpoint_slice_gather(const struct endpoint_slice *slice, const struct service_port_ref *ref,
                           endpoint_vec *out);

/** Calls @fn with each slice of a Service, in the order of their ids: that of places. */
void endpoint_slice_cache_each(const struct endpoint_slice_cache *cache, const char *service_id,
                               void (*fn)(void *ctx, const struct endpoint_slice *slice),
                               void *ctx);

/** How many slices there are, of whatever family. */
size_t endpoint_slice_cache_count(const struct endpoint_slice_cache *cache);

/** What changed. */
struct slice_changes endpoint_slice_cache_changes(const struct endpoint_slice_cache *cache);

/** The slice @object, which has no payload, came and cannot be read: what is known of it stays. */
void endpoint_slice_cache_leave_out(struct endpoint_slice_cache *cache,
                                    const struct object *object);

/** What was told so far is applied in these families; true for one that is not in use. */
void endpoint_slice_cache_turn_over(struct endpoint_slice_cache *cache,
                                    const bool in_force[FAMILY_COUNT]);

typedef void (*receipt_fn)(void *ctx, const struct receipt *receipt);

/** Which version of each slice of a Service came, and which is applied (receipts.h): those that
 * it has now first, then those that it had or whose last version could not be read. */
void endpoint_slice_cache_receipts(const struct endpoint_slice_cache *cache, const char *service_id,
                                   receipt_fn take, void *ctx);

/* The Services that are known, by id. Owns them. */

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

/*
 * The ServiceCIDRs that are known, by id, and what they cover together (KEP-1880,
 * docs/behaviour.md 1.5). They may overlap or be equal; a range is covered until the last of them
 * that holds it is gone.
 */

struct service_cidr_cache;

/* Told when what is covered in @family became different: disjoint ranges in ascending order,
 * borrowed. */
typedef void (*service_cidrs_changed_fn)(void *ctx, enum family family, const range_vec *ranges);

struct service_cidr_cache *service_cidr_cache_new(service_cidrs_changed_fn changed, void *ctx);
void service_cidr_cache_free(struct service_cidr_cache *cache);

/** Adds @service_cidr or replaces the one of its id. Takes @service_cidr. */
void service_cidr_cache_put(struct service_cidr_cache *cache, struct service_cidr *service_cidr);

/** Forgets the ServiceCIDR @id; an unknown one is fine. */
void service_cidr_cache_remove(struct service_cidr_cache *cache, const char *id);

/** Whether a ServiceCIDR holds @address. */
bool service_cidr_cache_contains(const struct service_cidr_cache *cache, enum family family,
                                 const struct address *address);

/** Replaces all: forgets what is not in @objects (of KIND_SERVICECIDR; one without payload keeps
 * what was known of it) and takes the payloads of the others, telling of the result once. */
void service_cidr_cache_replace(struct service_cidr_cache *cache, object_vec *objects);

#endif
