/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Services and ServiceCIDRs, and the sink through which sources fill all caches. */
#include "versions.h"

#include <stdlib.h>
#include <string.h>

struct cached_service {
    struct hash_link link; /* by service->id */
    struct service *service;
    generation changed : 63; /* of the last change */
    uint64_t kept : 1;       /* scratch of service_cache_retain() */
};

struct service_cache {
    struct hash_table services;
    service_changed_fn changed;
    void *ctx;
    uint64_t seen;
    struct versions versions;
};

struct service_cache *service_cache_new(void)
{
    return xcalloc(1, sizeof(struct service_cache));
}

void service_cache_follow(struct service_cache *cache, service_changed_fn changed, void *ctx)
{
    cache->changed = changed;
    cache->ctx = ctx;
}

static struct hash_key key_of(const struct hash_link *link)
{
    return hash_key_of_text(((const struct cached_service *)link)->service->id);
}

static struct cached_service *find(const struct service_cache *cache, const char *id)
{
    return hash_table_find(&cache->services, key_of, hash_key_of_text(id));
}

static struct known_object known_of(const struct cached_service *entry)
{
    struct known_object known = {0};
    if (!entry)
        return known;
    const struct service *service = entry->service;
    known.version = &service->version;
    known.changed = entry->changed;
    for (int family = 0; family < FAMILY_COUNT; family++)
        known.concerns[family] = !service->skipped && service->has_cluster_ip[family];
    return known;
}

/* Logs ignored fields of @service, unless they were logged for @before. */
static void warn(const struct service *before, const struct service *service)
{
    const char *logged = before && before->warnings ? before->warnings : "";
    if (service->warnings && strcmp(service->warnings, logged) != 0)
        log_warn("services", "ignored fields: Service %s: %s", service->id, service->warnings);
}

/* Moves the fields that service_equal() does not compare. */
static void take_rest(struct service *known, struct service *service)
{
    char *warnings = known->warnings;
    known->uid = service->uid;
    known->type = service->type;
    known->warnings = service->warnings;
    service->warnings = warnings;
    object_version_move(&known->version, &service->version);
}

void service_cache_put(struct service_cache *cache, struct service *service)
{
    struct cached_service *entry = find(cache, service->id);
    struct service *before = entry ? entry->service : NULL;
    const struct known_object known = known_of(entry);
    cache->seen++;
    versions_accept(&cache->versions, service->id);
    warn(before, service);
    if (entry && service_equal(before, service)) {
        take_rest(before, service);
        service_free(service);
        return;
    }
    if (entry)
        hash_table_remove(&cache->services, &entry->link); /* its key goes with the old version */
    else
        entry = xcalloc(1, sizeof(*entry));
    entry->changed = versions_change(&cache->versions, service->id, NULL, known);
    entry->service = service;
    hash_table_add(&cache->services, key_of, &entry->link);
    cache->changed(cache->ctx, before, service);
    service_free(before);
}

static void forget(struct service_cache *cache, struct cached_service *entry)
{
    hash_table_remove(&cache->services, &entry->link);
    cache->seen++;
    versions_change(&cache->versions, entry->service->id, NULL, known_of(entry));
    cache->changed(cache->ctx, entry->service, NULL);
    service_free(entry->service);
    free(entry);
}

void service_cache_remove(struct service_cache *cache, const char *id)
{
    struct cached_service *entry = find(cache, id);
    versions_accept(&cache->versions, id);
    if (entry)
        forget(cache, entry);
}

void service_cache_retain(struct service_cache *cache, const object_vec *keep)
{
    versions_accept_all(&cache->versions);
    vec_each (keep, object) {
        struct cached_service *entry = find(cache, object->id);
        if (entry)
            entry->kept = true;
    }
    hash_table_each (&cache->services, struct cached_service, entry) {
        if (!entry->kept)
            forget(cache, entry);
        else
            entry->kept = false;
    }
}

const struct service *service_cache_get(const struct service_cache *cache, const char *id)
{
    const struct cached_service *entry = find(cache, id);
    return entry ? entry->service : NULL;
}

struct service_counts service_cache_counts(const struct service_cache *cache)
{
    return (struct service_counts){cache->services.n, cache->seen, cache->versions.n_pending};
}

void service_cache_reject(struct service_cache *cache, const struct object *object)
{
    versions_reject(&cache->versions, object->id, NULL, &object->version);
}

void service_cache_applied(struct service_cache *cache, const bool applied[FAMILY_COUNT])
{
    versions_apply(&cache->versions, applied);
}

bool service_cache_versions(const struct service_cache *cache, const char *id,
                            struct object_versions *out)
{
    const struct cached_service *entry = find(cache, id);
    return versions_of(&cache->versions, entry ? entry->service->id : id, known_of(entry), out);
}

void service_cache_free(struct service_cache *cache)
{
    hash_table_each (&cache->services, struct cached_service, entry) {
        hash_table_remove(&cache->services, &entry->link);
        service_free(entry->service);
        free(entry);
    }
    versions_clear(&cache->versions);
    free(cache);
}

/* ---- ServiceCIDRs ---- */

/* A cluster has a handful and they rarely change, so each change recomputes the union. */
static void update_covered(struct caches *caches)
{
    for (int family = 0; family < FAMILY_COUNT; family++) {
        range_vec ranges = {0}, *covered = &caches->covered[family];
        vec_each (&caches->service_cidrs, it)
            if ((*it)->has_cidr[family])
                vec_push(&ranges, cidr_range((enum family)family, &(*it)->cidr[family]));
        ranges_normalize((enum family)family, &ranges);
        if (ranges.n == covered->n &&
            (ranges.n == 0 || memcmp(ranges.v, covered->v, ranges.n * sizeof(*ranges.v)) == 0)) {
            vec_free(&ranges);
            continue;
        }
        vec_free(covered);
        *covered = ranges;
        caches->ops.covered(caches->ops.ctx, (enum family)family, covered);
    }
}

static void remove_cidr(struct caches *caches, const char *id)
{
    vec_each (&caches->service_cidrs, it) {
        if (strcmp((*it)->id, id) != 0)
            continue;
        service_cidr_free(*it);
        *it = caches->service_cidrs.v[--caches->service_cidrs.n];
        return;
    }
}

static bool is_among(const object_vec *objects, const char *id)
{
    vec_each (objects, object)
        if (strcmp(object->id, id) == 0)
            return true;
    return false;
}

static void retain_cidrs(struct caches *caches, const object_vec *keep)
{
    size_t n = 0;
    vec_each (&caches->service_cidrs, it) {
        if (is_among(keep, (*it)->id))
            caches->service_cidrs.v[n++] = *it;
        else
            service_cidr_free(*it);
    }
    caches->service_cidrs.n = n;
    update_covered(caches);
}

static void put_cidr(struct caches *caches, struct service_cidr *service_cidr)
{
    remove_cidr(caches, service_cidr->id);
    vec_push(&caches->service_cidrs, service_cidr);
    update_covered(caches);
}

/* ---- from sources ---- */

static void put_service(struct caches *caches, struct service *service)
{
    for (int family = 0; caches->no_external_ips && service->own_outside && family < FAMILY_COUNT;
         family++)
        vec_clear(&service->own_outside->external_ips[family]);
    service_cache_put(caches->services, service);
}

static void put_slice(struct caches *caches, const struct object *object)
{
    const struct endpoint_slice *slice = endpoint_slice_cache_put(caches->slices, object->slice);
    if (slice && object->trigger_time > 0)
        caches->ops.triggered(caches->ops.ctx, slice, object->trigger_time);
}

/* Decoding failed: the known version stays. */
static void reject(struct caches *caches, const struct object *object)
{
    caches->rejected[object->kind]++;
    if (object->kind == KIND_SERVICE)
        service_cache_reject(caches->services, object);
    else if (object->kind == KIND_ENDPOINTSLICE)
        endpoint_slice_cache_reject(caches->slices, object);
}

static void put(struct caches *caches, struct object *object)
{
    if (!object->payload)
        reject(caches, object);
    else if (object->kind == KIND_NODE)
        caches->ops.node(caches->ops.ctx, object->node);
    else if (object->kind == KIND_SERVICE)
        put_service(caches, object->service);
    else if (object->kind == KIND_ENDPOINTSLICE)
        put_slice(caches, object);
    else
        put_cidr(caches, object->service_cidr);
    if (object->kind != KIND_NODE)
        object->payload = NULL; /* the cache has it */
    object_clear(object);
}

static void on_put(void *ctx, struct object *object)
{
    put(ctx, object);
}

static void on_remove(void *ctx, enum object_kind kind, const char *id)
{
    struct caches *caches = ctx;
    if (kind == KIND_SERVICE)
        service_cache_remove(caches->services, id);
    else if (kind == KIND_ENDPOINTSLICE)
        endpoint_slice_cache_remove(caches->slices, id);
    else if (kind == KIND_NODE)
        caches->ops.node_gone(caches->ops.ctx, id);
    else if (kind == KIND_SERVICECIDR) {
        remove_cidr(caches, id);
        update_covered(caches);
    }
}

static void on_replace(void *ctx, enum object_kind kind, object_vec *objects)
{
    struct caches *caches = ctx;
    if (kind == KIND_SERVICE)
        service_cache_retain(caches->services, objects);
    else if (kind == KIND_ENDPOINTSLICE)
        endpoint_slice_cache_retain(caches->slices, objects);
    else if (kind == KIND_SERVICECIDR)
        retain_cidrs(caches, objects);
    else if (kind == KIND_NODE)
        caches->ops.node_gone(caches->ops.ctx, NULL);
    vec_each (objects, object)
        put(caches, object);
    vec_free(objects);
    if (kind == KIND_NODE)
        caches->ops.nodes_complete(caches->ops.ctx);
    caches->complete[kind] = true;
}

void caches_init(struct caches *caches, const struct caches_ops *ops)
{
    *caches = (struct caches){.sink = {caches, on_replace, on_put, on_remove},
                              .services = service_cache_new(),
                              .slices = endpoint_slice_cache_new(),
                              .ops = *ops};
}

void caches_clear(struct caches *caches)
{
    service_cache_free(caches->services);
    endpoint_slice_cache_free(caches->slices);
    vec_each (&caches->service_cidrs, it)
        service_cidr_free(*it);
    vec_free(&caches->service_cidrs);
    for (int family = 0; family < FAMILY_COUNT; family++)
        vec_free(&caches->covered[family]);
}

bool caches_are_synced(const struct caches *caches)
{
    return caches->complete[KIND_SERVICE] && caches->complete[KIND_ENDPOINTSLICE];
}
