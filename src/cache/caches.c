/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Services and ServiceCIDRs, and the sink through which sources fill all caches. */
#include "store.h"

#include <stdlib.h>
#include <string.h>

/* ---- ServiceCIDRs ---- */

/* A cluster has a handful and they rarely change, so each change recomputes the union. */
static void renew_covered(struct caches *caches)
{
    for (int family = 0; family < FAMILY_COUNT; family++) {
        range_vec ranges = {0}, *covered = &caches->covered[family];
        hash_table_each (&caches->stores[KIND_SERVICECIDR]->entries, const struct entry, entry) {
            const struct service_cidr *it = entry->object;
            if (it && it->has_cidr[family])
                vec_push(&ranges, cidr_range((enum family)family, &it->cidr[family]));
        }
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

/* ---- from sources ---- */

static void report(struct caches *caches, struct object_store *store,
                   const struct store_change *change)
{
    const struct caches_ops *ops = &caches->ops;
    if (store->kind == KIND_SERVICE)
        ops->service_changed(ops->ctx, change->before, change->after);
    else if (store->kind == KIND_ENDPOINTSLICE)
        endpoint_slice_cache_change(caches->slices, change, ops);
    else
        renew_covered(caches);
    store_release(store, change);
}

static void on_put(void *ctx, struct object *object)
{
    struct caches *caches = ctx;
    struct object_store *store = caches->stores[object->kind];
    if (!object->payload) { /* decoding failed: the known version stays */
        caches->rejected[object->kind]++;
        if (store && object->kind != KIND_SERVICECIDR)
            store_reject(store, object);
    } else if (!store) {
        caches->ops.node(caches->ops.ctx, object->node);
    } else {
        struct service *service = object->kind == KIND_SERVICE ? object->service : NULL;
        if (service && service->own_outside && caches->no_external_ips)
            for (int family = 0; family < FAMILY_COUNT; family++)
                vec_clear(&service->own_outside->external_ips[family]);
        struct store_change change;
        const void *newer;
        if (store_put(store, object->payload, &change, &newer))
            report(caches, store, &change);
        if (newer && object->kind == KIND_ENDPOINTSLICE && object->trigger_time > 0)
            caches->ops.triggered(caches->ops.ctx, newer, object->trigger_time);
        object->payload = NULL; /* the store has it */
        object->id = NULL;
    }
    object_clear(object);
}

static void on_remove(void *ctx, enum object_kind kind, const char *id)
{
    struct caches *caches = ctx;
    struct object_store *store = caches->stores[kind];
    struct store_change change;
    if (!store)
        caches->ops.node_gone(caches->ops.ctx, id);
    else if (store_remove(store, id, &change))
        report(caches, store, &change);
}

/* Removes what is not listed. */
static void retain(struct caches *caches, struct object_store *store, const object_vec *objects)
{
    struct store_change change;
    store_list(store, objects);
    hash_table_each (&store->entries, struct entry, entry)
        if (store_retain(store, entry, &change))
            report(caches, store, &change);
}

static void on_replace(void *ctx, enum object_kind kind, object_vec *objects)
{
    struct caches *caches = ctx;
    struct object_store *store = caches->stores[kind];
    if (store)
        retain(caches, store, objects);
    else
        caches->ops.node_gone(caches->ops.ctx, NULL);
    vec_each (objects, object)
        on_put(caches, object);
    vec_free(objects);
    if (!store)
        caches->ops.nodes_complete(caches->ops.ctx);
    caches->complete[kind] = true;
}

/* ---- all caches ---- */

void caches_init(struct caches *caches, const struct caches_ops *ops)
{
    static const enum object_kind kinds[] = {KIND_SERVICE, KIND_ENDPOINTSLICE, KIND_SERVICECIDR};
    *caches = (struct caches){.sink = {caches, on_replace, on_put, on_remove}, .ops = *ops};
    for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++) {
        caches->stores[kinds[i]] = xcalloc(1, sizeof(struct object_store));
        caches->stores[kinds[i]]->kind = kinds[i];
    }
    caches->slices = endpoint_slice_cache_new(caches->stores[KIND_ENDPOINTSLICE]);
}

void caches_clear(struct caches *caches)
{
    endpoint_slice_cache_free(caches->slices);
    for (int kind = 0; kind < KIND_COUNT; kind++) {
        if (caches->stores[kind])
            store_clear(caches->stores[kind]);
        free(caches->stores[kind]);
    }
    for (int family = 0; family < FAMILY_COUNT; family++)
        vec_free(&caches->covered[family]);
}

bool caches_are_synced(const struct caches *caches)
{
    return caches->complete[KIND_SERVICE] && caches->complete[KIND_ENDPOINTSLICE];
}

void caches_applied(struct caches *caches, const bool applied[FAMILY_COUNT])
{
    store_apply(caches->stores[KIND_SERVICE], applied);
    store_apply(caches->stores[KIND_ENDPOINTSLICE], applied);
}
