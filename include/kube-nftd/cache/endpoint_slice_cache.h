/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * EndpointSliceCache: the slices of all Services, merged and without duplicates per service port
 * (docs/behaviour.md 2, KEP-752).
 *
 * Slices are kept by their own identity (namespace/name), so one that moves to another Service or
 * loses its label leaves nothing behind. They may come before, after or without their Service.
 * FQDN slices and slices without the service label contribute nothing.
 */
#ifndef KUBE_NFTD_CACHE_ENDPOINT_SLICE_CACHE_H
#define KUBE_NFTD_CACHE_ENDPOINT_SLICE_CACHE_H

#include "kube-nftd/base/vec.h"
#include "kube-nftd/cache/receipts.h"
#include "kube-nftd/model/object.h"

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
    uint8_t zone;   /* see model/zone.h */
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

#endif
