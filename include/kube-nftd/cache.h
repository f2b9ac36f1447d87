/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The current objects. Caches own them, ignore updates that change nothing, and report the others.
 * Borrowed pointers are valid until the next change.
 */
#ifndef KUBE_NFTD_CACHE_H
#define KUBE_NFTD_CACHE_H

#include "kube-nftd/base.h"
#include "kube-nftd/model.h"
#include "kube-nftd/source.h"

#include <stdbool.h>
#include <stdint.h>

/* Of objects of one kind. */
struct object_counts {
    size_t known;
    size_t pending; /* changed objects not applied yet; one removed and added again meanwhile may
                     * count twice */
    /* Objects put, changed or not, and known objects removed: Services count in both families,
     * slices of a Service in theirs. */
    uint64_t seen[FAMILY_COUNT];
};

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

/* ---- objects of one kind, by id ---- */

struct object_store;

/** The object with that id, of the type of its kind; borrowed until it changes. NULL: unknown. */
const void *object_store_get(const struct object_store *store, const char *id);

struct object_counts object_store_counts(const struct object_store *store);

/** The versions of a Service. False if neither the store nor the kernel's tables know it.
 * @applied  the families in which all changes of this object are applied, though those of others
 * may not be: see caches_applied(); NULL: none is known */
bool object_store_versions(const struct object_store *store, const char *id,
                           const bool applied[FAMILY_COUNT], struct object_versions *out);

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

/* ---- changes of slices ---- */

/* A slice of a Service was added, changed or removed. Valid during the callback. */
struct slice_change {
    const char *service_id;
    enum family family;
    struct slice_comparison *comparison; /* private */
};

/* The winning copy of an endpoint, or its attributes, changed. Borrowed. */
struct endpoint_delta {
    struct backend backend;
    const struct slice_endpoint *before, *after; /* NULL: added, removed */
};

typedef VEC(struct endpoint_delta) endpoint_delta_vec;

/** What the change does to endpoint_slice_cache_merge() of @ref, of the same Service and family: a
 * delta for each changed endpoint, borrowed until the next call. NULL if other slices have copies
 * of one, which only a merge can compare. The cost depends on this slice alone, not on the others
 * of its Service, except for the first change in a Service with several slices, which indexes their
 * addresses. */
const endpoint_delta_vec *slice_change_deltas(const struct slice_change *change,
                                              const struct service_port_ref *ref);

/* ---- queries about slices ---- */

/**
 * Puts the endpoints of a service port into @out (cleared first), sorted by address and port. Among
 * copies of one address:port, one that is not terminating wins, then one that is ready, then one
 * that is serving, then the first by slice id and index (docs/behaviour.md 2.5). Returns how many
 * slices and endpoints, copies included, were walked.
 */
size_t endpoint_slice_cache_merge(const struct endpoint_slice_cache *cache,
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

/** Walks the names of the Services that slices belong to, whether or not these exist: in pieces, as
 * hash_table_scan(). */
size_t endpoint_slice_cache_scan(const struct endpoint_slice_cache *cache, size_t cursor,
                                 void (*take)(void *ctx, const char *service_id), void *ctx);

/** Appends the versions of a Service's slices to @out: its current slices first, then former ones
 * and those whose last version failed to decode. @applied as for object_store_versions(). */
void endpoint_slice_cache_versions(const struct endpoint_slice_cache *cache, const char *service_id,
                                   const bool applied[FAMILY_COUNT], object_versions_vec *out);

/* ---- all caches ---- */

/* Whom the caches report changes to. */
struct caches_ops {
    /* A Service changed. Both versions exist; @before is NULL for a new one, @after for a removed
     * one. */
    void (*service_changed)(void *ctx, const struct service *before, const struct service *after);
    void (*slice_changed)(void *ctx, const struct slice_change *change);
    /* A Node, which no cache keeps, was added or changed. */
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
    struct object_store *stores[KIND_COUNT]; /* NULL: Nodes are not stored */
    struct endpoint_slice_cache *slices;     /* those of KIND_ENDPOINTSLICE by Service */
    range_vec covered[FAMILY_COUNT];         /* as last passed to ops.covered */
    bool no_external_ips;                    /* drop external IPs of Services */
    bool complete[KIND_COUNT];               /* the kind was listed completely once */
    uint64_t rejected[KIND_COUNT];           /* decoding failures */
    struct caches_ops ops;
};

/** Initialises empty caches. @caches must not move: the sink points to it. Release with
 * caches_clear(). */
void caches_init(struct caches *caches, const struct caches_ops *ops);
void caches_clear(struct caches *caches);

/** Whether Services and EndpointSlices are complete. */
bool caches_are_synced(const struct caches *caches);

/** Marks all changes so far as applied in these families. Pass true for a family not in use. */
void caches_applied(struct caches *caches, const bool applied[FAMILY_COUNT]);

#endif
