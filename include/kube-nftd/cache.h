/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The objects as they are now. Caches own them, drop what is equal, and tell who follows them what
 * changed; what they lend is good until the next change.
 */
#ifndef KUBE_NFTD_CACHE_H
#define KUBE_NFTD_CACHE_H

#include "kube-nftd/base.h"
#include "kube-nftd/model.h"

#include <stdbool.h>
#include <stdint.h>

/* ---- which versions came and are applied ---- */

/* Of one object. All texts are borrowed until the next change. */
struct object_versions {
    const char *id;
    const struct object_version *received; /* NULL: it is gone, or never could be read */
    const struct object_version *rejected; /* came later, but could not be read; NULL: none */
    struct {
        bool concerned;                    /* the family's table holds something of it, or is to */
        bool applied;                      /* what was received is what the table holds */
        const struct object_version *held; /* NULL: nothing of it */
    } family[FAMILY_COUNT];
};

typedef VEC(struct object_versions) object_versions_vec;

/* ---- EndpointSlices ---- */

/*
 * The slices of all Services, merged and without duplicates per service port (docs/behaviour.md 2,
 * KEP-752). They are kept by their own identity (namespace/name), so one that moves to another
 * Service or loses its label leaves nothing behind. They may come before, after or without their
 * Service. FQDN slices and slices without the service label contribute nothing.
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
struct endpoint_delta {
    struct backend backend;
    const struct slice_endpoint *before, *after; /* NULL: there was, or is, none */
};

/* Told of each service port to whose endpoints a change made a difference: the @n @deltas, each of
 * another endpoint, of those that endpoint_slice_cache_merge() gives. NULL: its only slice came or
 * went, and all of them with it. */
typedef void (*endpoints_changed_fn)(void *ctx, const struct service_port_ref *ref,
                                     const struct endpoint_delta *deltas, size_t n);

struct slice_counts {
    size_t known;                /* of whatever family */
    uint64_t seen[FAMILY_COUNT]; /* as struct service_counts says, of slices of some Service */
    size_t pending;
};

struct endpoint_slice_cache *endpoint_slice_cache_new(void);
void endpoint_slice_cache_free(struct endpoint_slice_cache *cache);

/** To be called once, before slices come. */
void endpoint_slice_cache_follow(struct endpoint_slice_cache *cache, endpoints_changed_fn changed,
                                 void *ctx);

/** Adds @slice or replaces the one of its id. Takes @slice. Costs as much as the slice, whatever
 * others its Service has. Returns the slice if a Service's is another by it, if only by its
 * resourceVersion; else NULL. */
const struct endpoint_slice *endpoint_slice_cache_put(struct endpoint_slice_cache *cache,
                                                      struct endpoint_slice *slice);

/** Forgets the slice @id; an unknown one is fine. */
void endpoint_slice_cache_remove(struct endpoint_slice_cache *cache, const char *id);

/** Forgets every slice whose id is not in @keep (objects of KIND_ENDPOINTSLICE). */
void endpoint_slice_cache_retain(struct endpoint_slice_cache *cache, const object_vec *keep);

/** The slice @object, which has no payload, came and cannot be read: what is known of it stays. */
void endpoint_slice_cache_reject(struct endpoint_slice_cache *cache, const struct object *object);

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

/** The @i-th slice of a Service, in the order of their ids: that of places. NULL: it has not so
 * many. */
const struct endpoint_slice *endpoint_slice_cache_at(const struct endpoint_slice_cache *cache,
                                                     const char *service_id, size_t i);

struct slice_counts endpoint_slice_cache_counts(const struct endpoint_slice_cache *cache);

/** All that changed so far is applied in these families; true for one that is not in use. */
void endpoint_slice_cache_applied(struct endpoint_slice_cache *cache,
                                  const bool applied[FAMILY_COUNT]);

/** Appends those of the slices of a Service to @out: of those that it has now, then of those that
 * it had or whose last version could not be read. */
void endpoint_slice_cache_versions(const struct endpoint_slice_cache *cache, const char *service_id,
                                   object_versions_vec *out);

/* ---- Services ---- */

/* By id. */
struct service_cache;

/* Told of each real change, while both versions are still there: @before or @after is NULL when a
 * Service comes or goes. */
typedef void (*service_changed_fn)(void *ctx, const struct service *before,
                                   const struct service *after);

struct service_counts {
    size_t known;
    uint64_t seen;  /* objects put, and known ones removed, whether or not it made a difference */
    size_t pending; /* objects that changed and are not applied yet; one that goes and comes again
                     * meanwhile counts as two */
};

struct service_cache *service_cache_new(void);
void service_cache_free(struct service_cache *cache);

/** To be called once, before Services come. */
void service_cache_follow(struct service_cache *cache, service_changed_fn changed, void *ctx);

/** Adds @service or replaces the one of its id; says nothing if both are equal. Takes @service.
 * Logs its warnings when they are new. */
void service_cache_put(struct service_cache *cache, struct service *service);

/** Forgets the Service @id; an unknown one is fine. */
void service_cache_remove(struct service_cache *cache, const char *id);

/** Forgets every Service whose id is not in @keep (objects of KIND_SERVICE). */
void service_cache_retain(struct service_cache *cache, const object_vec *keep);

/** The Service @object, which has no payload, came and cannot be read: what is known of it stays.
 */
void service_cache_reject(struct service_cache *cache, const struct object *object);

/** The Service @id, borrowed until it changes, or NULL. */
const struct service *service_cache_get(const struct service_cache *cache, const char *id);

struct service_counts service_cache_counts(const struct service_cache *cache);

/** As endpoint_slice_cache_applied(). */
void service_cache_applied(struct service_cache *cache, const bool applied[FAMILY_COUNT]);

/** False if nothing is known of the Service @id, in the kernel neither. */
bool service_cache_versions(const struct service_cache *cache, const char *id,
                            struct object_versions *out);

/* ---- all of them ---- */

/* Told of what no cache keeps, and of ServiceCIDRs. */
struct caches_ops {
    /* A Node came or changed. */
    void (*node)(void *ctx, const struct node *node);
    /* The Node @id is gone; NULL: all are, but those that come until nodes_complete(). */
    void (*node_gone)(void *ctx, const char *id);
    void (*nodes_complete)(void *ctx);
    /* @slice, which just came and makes a difference, says that it began at @time (seconds since
     * 1970). */
    void (*triggered)(void *ctx, const struct endpoint_slice *slice, double time);
    /* What the ServiceCIDRs cover together in @family changed: disjoint ranges in ascending order,
     * borrowed. They may overlap or be equal; a range is covered until the last of them that holds
     * it is gone (KEP-1880, docs/behaviour.md 1.5). */
    void (*covered)(void *ctx, enum family family, const range_vec *ranges);
    void *ctx;
};

/* All caches, and the sink that sources fill them by. */
struct caches {
    struct object_sink sink;
    struct service_cache *services;
    struct endpoint_slice_cache *slices;
    VEC(struct service_cidr *) service_cidrs;
    range_vec covered[FAMILY_COUNT]; /* as ops.covered was told last */
    bool no_external_ips;            /* those of Services are dropped */
    bool complete[KIND_COUNT];       /* all objects of the kind came once */
    uint64_t rejected[KIND_COUNT];   /* how often an object could not be read */
    struct caches_ops ops;
};

/** Empty caches; @caches stays where it is. Release with caches_clear(). */
void caches_init(struct caches *caches, const struct caches_ops *ops);
void caches_clear(struct caches *caches);

/** Whether Services and EndpointSlices are complete. */
bool caches_are_synced(const struct caches *caches);

#endif
