/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The current objects. Caches own them, ignore updates that change nothing, and report the others
 * to their follower. Borrowed pointers are valid until the next change.
 */
#ifndef KUBE_NFTD_CACHE_H
#define KUBE_NFTD_CACHE_H

#include "kube-nftd/base.h"
#include "kube-nftd/model.h"

#include <stdbool.h>
#include <stdint.h>

/* ---- versions: received, rejected, applied ---- */

/* Versions of one object. All strings are borrowed until the next change. */
struct object_versions {
    const char *id;
    const struct object_version *received; /* NULL: deleted, or never decoded */
    const struct object_version *rejected; /* later version that failed to decode; NULL: none */
    struct {
        bool concerned; /* the object has, or will have, state in the table */
        bool applied;   /* the table matches the received version */
        const struct object_version *programmed; /* version in the table; NULL: none */
    } family[FAMILY_COUNT];
};

typedef VEC(struct object_versions) object_versions_vec;

/* ---- EndpointSlices ---- */

/*
 * The slices of all Services, merged and deduplicated per service port (docs/behaviour.md 2,
 * KEP-752). The key is the slice's namespace/name, so a slice that moves to another Service or
 * loses its label leaves nothing behind. A slice may arrive before, after or without its Service.
 * FQDN slices and slices without the service label contribute nothing.
 */
struct endpoint_slice_cache;

/* The key of a merged list of endpoints; strings are borrowed. */
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
    uint32_t place; /* position by slice id, then index in the slice; breaks ties of copies */
};

typedef VEC(struct endpoint) endpoint_vec;

/* The winning copy of an endpoint, or its attributes, changed. Borrowed. */
struct endpoint_delta {
    struct backend backend;
    const struct slice_endpoint *before, *after; /* NULL: added, removed */
};

/* Called for each service port whose merged endpoints changed. @deltas holds @n entries, one per
 * changed endpoint of endpoint_slice_cache_merge(). NULL: the only slice was added or removed, and
 * all endpoints with it. */
typedef void (*endpoints_changed_fn)(void *ctx, const struct service_port_ref *ref,
                                     const struct endpoint_delta *deltas, size_t n);

struct slice_counts {
    size_t known;                /* of both families and FQDN */
    uint64_t seen[FAMILY_COUNT]; /* as in struct service_counts; only slices of a Service */
    size_t pending;
};

struct endpoint_slice_cache *endpoint_slice_cache_new(void);
void endpoint_slice_cache_free(struct endpoint_slice_cache *cache);

/** Sets the only follower. Call once, before the first slice. */
void endpoint_slice_cache_follow(struct endpoint_slice_cache *cache, endpoints_changed_fn changed,
                                 void *ctx);

/** Adds @slice or replaces the slice with its id. Takes @slice. The cost depends on this slice
 * alone, not on the others of its Service. Returns the slice if it changed a slice of a Service,
 * be it the resourceVersion alone; else NULL. */
const struct endpoint_slice *endpoint_slice_cache_put(struct endpoint_slice_cache *cache,
                                                      struct endpoint_slice *slice);

/** Removes the slice @id, if known. */
void endpoint_slice_cache_remove(struct endpoint_slice_cache *cache, const char *id);

/** Removes every slice whose id is not in @keep (objects of KIND_ENDPOINTSLICE). */
void endpoint_slice_cache_retain(struct endpoint_slice_cache *cache, const object_vec *keep);

/** Records that the slice @object (no payload) failed to decode. The known version stays. */
void endpoint_slice_cache_reject(struct endpoint_slice_cache *cache, const struct object *object);

/**
 * Puts the endpoints of a service port into @out (cleared first), sorted by address and port. Among
 * copies of one address:port, one that is not terminating wins, then the first by slice id and
 * index (docs/behaviour.md 2.5).
 */
void endpoint_slice_cache_merge(const struct endpoint_slice_cache *cache,
                                const struct service_port_ref *ref, endpoint_vec *out);

/**
 * Appends the endpoints of @slice for a service port: none if the family differs or the slice has
 * no port of that name and protocol. Places continue from those in @out.
 */
void endpoint_slice_gather(const struct endpoint_slice *slice, const struct service_port_ref *ref,
                           endpoint_vec *out);

/** The @i-th slice of a Service, ordered by id, as endpoint.place. NULL: past the last one. */
const struct endpoint_slice *endpoint_slice_cache_at(const struct endpoint_slice_cache *cache,
                                                     const char *service_id, size_t i);

struct slice_counts endpoint_slice_cache_counts(const struct endpoint_slice_cache *cache);

/** Marks all changes so far as applied in these families. Pass true for a family not in use. */
void endpoint_slice_cache_applied(struct endpoint_slice_cache *cache,
                                  const bool applied[FAMILY_COUNT]);

/** Appends the versions of a Service's slices to @out: its current slices first, then former ones
 * and those whose last version failed to decode. */
void endpoint_slice_cache_versions(const struct endpoint_slice_cache *cache, const char *service_id,
                                   object_versions_vec *out);

/* ---- Services ---- */

struct service_cache;

/* Called for each real change, while both versions still exist. @before is NULL for a new Service,
 * @after for a removed one. */
typedef void (*service_changed_fn)(void *ctx, const struct service *before,
                                   const struct service *after);

struct service_counts {
    size_t known;
    uint64_t seen;  /* objects put, changed or not, and known objects removed */
    size_t pending; /* changed objects not applied yet; one removed and added again meanwhile counts
                     * twice */
};

struct service_cache *service_cache_new(void);
void service_cache_free(struct service_cache *cache);

/** Sets the only follower. Call once, before the first Service. */
void service_cache_follow(struct service_cache *cache, service_changed_fn changed, void *ctx);

/** Adds @service or replaces the Service with its id; an equal one is not reported. Takes @service.
 * Logs new warnings. */
void service_cache_put(struct service_cache *cache, struct service *service);

/** Removes the Service @id, if known. */
void service_cache_remove(struct service_cache *cache, const char *id);

/** Removes every Service whose id is not in @keep (objects of KIND_SERVICE). */
void service_cache_retain(struct service_cache *cache, const object_vec *keep);

/** Records that the Service @object (no payload) failed to decode. The known version stays. */
void service_cache_reject(struct service_cache *cache, const struct object *object);

/** The Service @id, borrowed until it changes, or NULL. */
const struct service *service_cache_get(const struct service_cache *cache, const char *id);

struct service_counts service_cache_counts(const struct service_cache *cache);

/** As endpoint_slice_cache_applied(). */
void service_cache_applied(struct service_cache *cache, const bool applied[FAMILY_COUNT]);

/** False if neither the cache nor the kernel's tables know the Service @id. */
bool service_cache_versions(const struct service_cache *cache, const char *id,
                            struct object_versions *out);

/* ---- all caches ---- */

/* Callbacks for Nodes, which no cache keeps, change triggers and ServiceCIDRs. */
struct caches_ops {
    /* A Node was added or changed. */
    void (*node)(void *ctx, const struct node *node);
    /* The Node @id was removed. NULL: all are, except those reported until nodes_complete(). */
    void (*node_gone)(void *ctx, const char *id);
    void (*nodes_complete)(void *ctx);
    /* @slice just changed something; its trigger annotation says @time (seconds since 1970). */
    void (*triggered)(void *ctx, const struct endpoint_slice *slice, double time);
    /* The union of all ServiceCIDRs of @family changed: disjoint ranges in ascending order,
     * borrowed. ServiceCIDRs may overlap or be equal; a range is covered until the last ServiceCIDR
     * with it is removed (KEP-1880, docs/behaviour.md 1.5). */
    void (*covered)(void *ctx, enum family family, const range_vec *ranges);
    void *ctx;
};

/* All caches, and the sink through which sources fill them. */
struct caches {
    struct object_sink sink;
    struct service_cache *services;
    struct endpoint_slice_cache *slices;
    VEC(struct service_cidr *) service_cidrs;
    range_vec covered[FAMILY_COUNT]; /* as last passed to ops.covered */
    bool no_external_ips;            /* drop external IPs of Services */
    bool complete[KIND_COUNT];       /* the kind was listed completely once */
    uint64_t rejected[KIND_COUNT];   /* decoding failures */
    struct caches_ops ops;
};

/** Initialises empty caches. @caches must not move: the sink points to it. Release with
 * caches_clear(). */
void caches_init(struct caches *caches, const struct caches_ops *ops);
void caches_clear(struct caches *caches);

/** Whether Services and EndpointSlices are complete. */
bool caches_are_synced(const struct caches *caches);

#endif
