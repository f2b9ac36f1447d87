/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What comes from sources, to the cache of its kind. */
#include "kube-nftd/cache.h"

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

/* One that could not be read: what is known of it stays. */
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
        service_cidr_cache_put(caches->service_cidrs, object->service_cidr);
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
    else if (kind == KIND_SERVICECIDR)
        service_cidr_cache_remove(caches->service_cidrs, id);
    else if (kind == KIND_NODE)
        caches->ops.node_gone(caches->ops.ctx, id);
}

static void on_replace(void *ctx, enum object_kind kind, object_vec *objects)
{
    struct caches *caches = ctx;
    if (kind == KIND_SERVICE)
        service_cache_retain(caches->services, objects);
    else if (kind == KIND_ENDPOINTSLICE)
        endpoint_slice_cache_retain(caches->slices, objects);
    else if (kind == KIND_SERVICECIDR)
        service_cidr_cache_retain(caches->service_cidrs, objects);
    else if (kind == KIND_NODE)
        caches->ops.node_gone(caches->ops.ctx, NULL);
    vec_each (objects, object)
        put(caches, object);
    vec_free(objects);
    if (kind == KIND_NODE)
        caches->ops.nodes_complete(caches->ops.ctx);
    caches->complete[kind] = true;
}

void caches_init(struct caches *caches, const struct caches_ops *ops,
                 service_cidrs_changed_fn cidrs_changed)
{
    *caches = (struct caches){.sink = {caches, on_replace, on_put, on_remove},
                              .services = service_cache_new(),
                              .slices = endpoint_slice_cache_new(),
                              .service_cidrs = service_cidr_cache_new(cidrs_changed, ops->ctx),
                              .ops = *ops};
}

void caches_clear(struct caches *caches)
{
    service_cache_free(caches->services);
    endpoint_slice_cache_free(caches->slices);
    service_cidr_cache_free(caches->service_cidrs);
}

bool caches_are_synced(const struct caches *caches)
{
    return caches->complete[KIND_SERVICE] && caches->complete[KIND_ENDPOINTSLICE];
}
