/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The slices of each Service, and their endpoints merged. */
#include "slice_change.h"
#include "store.h"

#include <stdlib.h>
#include <string.h>

/* The slices of one Service, which need not exist, sorted by id. */
struct owner {
    struct hash_link link; /* by service_id */
    char *service_id;
    struct members members;
};

struct endpoint_slice_cache {
    const struct object_store *store;
    struct hash_table owners;
    struct slice_comparison comparison;
};

/* ---- the slices of a Service ---- */

static struct hash_key owner_key(const struct hash_link *link)
{
    return hash_key_of_text(((const struct owner *)link)->service_id);
}

static struct owner *find_owner(const struct endpoint_slice_cache *cache, const char *service_id)
{
    return hash_table_find(&cache->owners, owner_key, hash_key_of_text(service_id));
}

static struct owner *find_or_add_owner(struct endpoint_slice_cache *cache, const char *service_id)
{
    struct owner *owner = find_owner(cache, service_id);
    if (owner)
        return owner;
    owner = xcalloc(1, sizeof(*owner));
    owner->service_id = xstrdup(service_id);
    vec_make_room(&owner->members.by_id, 1); /* most Services have one slice */
    hash_table_add(&cache->owners, owner_key, &owner->link);
    return owner;
}

/* The index of the slice @id in owner->members.by_id, or where to insert it. */
static size_t place_of_slice(const struct owner *owner, const char *id)
{
    size_t low = 0, high = owner->members.by_id.n;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (strcmp(owner->members.by_id.v[middle]->id, id) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static void insert(struct owner *owner, const struct endpoint_slice *slice)
{
    size_t place = place_of_slice(owner, slice->id);
    if (owner->members.by_id.n == owner->members.by_id.cap) /* most Services have one slice */
        vec_make_room(&owner->members.by_id, owner->members.by_id.n * 2 + 1);
    owner->members.by_id.n++;
    const struct endpoint_slice **member = &owner->members.by_id.v[place];
    memmove(member + 1, member, (owner->members.by_id.n - 1 - place) * sizeof(*member));
    *member = slice;
}

static void free_owner(struct endpoint_slice_cache *cache, struct owner *owner)
{
    free(owner->members.index);
    hash_table_remove(&cache->owners, &owner->link);
    vec_free(&owner->members.by_id);
    free(owner->service_id);
    free(owner);
}

static void remove_member(struct endpoint_slice_cache *cache, struct owner *owner,
                          const struct endpoint_slice **member)
{
    size_t behind = (size_t)(owner->members.by_id.v + owner->members.by_id.n - member - 1);
    memmove(member, member + 1, behind * sizeof(*member));
    if (--owner->members.by_id.n == 0)
        free_owner(cache, owner);
}

/* ---- changes ---- */

/* Reports the change of one of the owner's slices, which stays in one family. */
static void report_changes(struct endpoint_slice_cache *cache, const struct caches_ops *ops,
                           struct owner *owner, const struct endpoint_slice *before,
                           const struct endpoint_slice *after)
{
    struct slice_comparison *comparison = &cache->comparison;
    const struct slice_change change = {owner->service_id, (after ? after : before)->family,
                                        comparison};
    comparison->before = before;
    comparison->after = after;
    comparison->members = &owner->members;
    comparison->compared = false;
    ops->slice_changed(ops->ctx, &change);
    slice_comparison_finish(comparison);
}

void endpoint_slice_cache_change(struct endpoint_slice_cache *cache,
                                 const struct store_change *change, const struct caches_ops *ops)
{
    const struct endpoint_slice *before = change->before, *after = change->after;
    const char *was = slice_owner(before), *is = slice_owner(after);
    struct owner *owner = was ? find_owner(cache, was) : NULL;
    const struct endpoint_slice **member =
        was ? &owner->members.by_id.v[place_of_slice(owner, before->id)] : NULL;
    if (was && is && before->family == after->family && strcmp(was, is) == 0) {
        *member = after;
        report_changes(cache, ops, owner, before, after);
        return;
    }
    if (was) {
        report_changes(cache, ops, owner, before, NULL);
        remove_member(cache, owner, member);
    }
    if (is) {
        owner = find_or_add_owner(cache, is);
        insert(owner, after);
        report_changes(cache, ops, owner, NULL, after);
    }
}

struct endpoint_slice_cache *endpoint_slice_cache_new(const struct object_store *store)
{
    struct endpoint_slice_cache *cache = xcalloc(1, sizeof(*cache));
    cache->store = store;
    return cache;
}

void endpoint_slice_cache_free(struct endpoint_slice_cache *cache)
{
    hash_table_each (&cache->owners, struct owner, owner)
        free_owner(cache, owner);
    slice_comparison_clear(&cache->comparison);
    free(cache);
}

/* ---- queries ---- */

void endpoint_slice_cache_versions(const struct endpoint_slice_cache *cache, const char *service_id,
                                   const bool applied[FAMILY_COUNT], object_versions_vec *out)
{
    const struct owner *owner = find_owner(cache, service_id);
    struct object_versions versions;
    if (owner)
        vec_each (&owner->members.by_id, it)
            if (object_store_versions(cache->store, (*it)->id, applied, &versions))
                vec_push(out, versions);
    store_former_slices(cache->store, service_id, applied, out);
}

const struct endpoint_slice *endpoint_slice_cache_at(const struct endpoint_slice_cache *cache,
                                                     const char *service_id, size_t i)
{
    const struct owner *owner = find_owner(cache, service_id);
    return owner && i < owner->members.by_id.n ? owner->members.by_id.v[i] : NULL;
}

struct scan {
    void (*take)(void *ctx, const char *service_id);
    void *ctx;
};

static void take_owner(void *ctx, void *item)
{
    const struct scan *scan = ctx;
    scan->take(scan->ctx, ((const struct owner *)item)->service_id);
}

size_t endpoint_slice_cache_scan(const struct endpoint_slice_cache *cache, size_t cursor,
                                 void (*take)(void *ctx, const char *service_id), void *ctx)
{
    return hash_table_scan(&cache->owners, cursor, take_owner, &(struct scan){take, ctx});
}

/* ---- merging ---- */

void endpoint_slice_gather(const struct endpoint_slice *slice, const struct service_port_ref *ref,
                           endpoint_vec *out)
{
    if (slice->family != ref->family)
        return;
    struct slice_ports ports = endpoint_slice_ports(slice, ref->port_name, ref->protocol);
    vec_each (&ports, port) {
        vec_reserve(out, slice->endpoints.n);
        vec_each (&slice->endpoints, endpoint) {
            uint32_t place = (uint32_t)out->n;
            vec_push(out, (struct endpoint){endpoint->address, endpoint->node_name, endpoint->hints,
                                            port->port, endpoint->flags, endpoint->zone, place});
        }
    }
}

static int compare_identity(const struct endpoint *a, const struct endpoint *b)
{
    int order = memcmp(&a->address, &b->address, sizeof(a->address));
    return order ? order : (int)a->port - (int)b->port;
}

/* By identity, then the winning copy first. A total order. */
static int compare_copies(const void *a, const void *b)
{
    const struct endpoint *p = a, *q = b;
    int order = compare_identity(p, q);
    if (order == 0)
        order = (int)copy_rank(p->flags) - (int)copy_rank(q->flags);
    return order ? order : (p->place > q->place) - (p->place < q->place);
}

/* The usual case: one slice, in the order the controller wrote. */
static bool is_sorted(const endpoint_vec *endpoints)
{
    for (size_t i = 1; i < endpoints->n; i++)
        if (compare_copies(&endpoints->v[i - 1], &endpoints->v[i]) > 0)
            return false;
    return true;
}

/* Keeps one copy of each endpoint, so that sorting costs the same however many there are. */
static void drop_copies(endpoint_vec *endpoints)
{
    size_t n_buckets = 8, kept = 0;
    while (n_buckets < 2 * endpoints->n)
        n_buckets *= 2;
    uint32_t *buckets = xcalloc(n_buckets, sizeof(*buckets)); /* index plus 1 */
    vec_each (endpoints, it) {
        size_t at = address_hash(&it->address, it->port) & (n_buckets - 1);
        while (buckets[at] && compare_identity(&endpoints->v[buckets[at] - 1], it) != 0)
            at = (at + 1) & (n_buckets - 1);
        struct endpoint *known = buckets[at] ? &endpoints->v[buckets[at] - 1] : NULL;
        if (known && copy_rank(it->flags) < copy_rank(known->flags))
            *known = *it;
        if (known)
            continue;
        endpoints->v[kept++] = *it;
        buckets[at] = (uint32_t)kept;
    }
    endpoints->n = kept;
    free(buckets);
}

size_t endpoint_slice_cache_merge(const struct endpoint_slice_cache *cache,
                                  const struct service_port_ref *ref, endpoint_vec *out)
{
    const struct owner *owner = find_owner(cache, ref->service_id);
    size_t walked, n_slices = 0, kept = 0;
    vec_clear(out);
    if (!owner)
        return 0;
    vec_each (&owner->members.by_id, it) {
        const size_t n = out->n;
        endpoint_slice_gather(*it, ref, out);
        n_slices += out->n > n;
    }
    walked = owner->members.by_id.n + out->n;
    if (n_slices > 1)
        drop_copies(out);
    if (!is_sorted(out))
        vec_sort(out, compare_copies);
    for (size_t i = 0; i < out->n; i++)
        if (kept == 0 || compare_identity(&out->v[kept - 1], &out->v[i]) != 0)
            out->v[kept++] = out->v[i];
    out->n = kept;
    return walked;
}
