/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "endpoint_merge.h"
#include "versions.h"

#include <stdlib.h>
#include <string.h>

struct cached_slice {
    struct hash_link link; /* by slice->id */
    struct endpoint_slice *slice;
    struct owner *owner;     /* NULL if the slice belongs to no Service */
    generation changed : 63; /* of the last change */
    uint64_t kept : 1;       /* scratch of endpoint_slice_cache_retain() */
};

/* The slices of one Service, which need not exist, sorted by id. */
struct owner {
    struct hash_link link; /* by service_id */
    char *service_id;
    VEC(struct cached_slice *) slices;
    struct address_index *indexes[FAMILY_COUNT]; /* NULL with fewer than two slices of the family */
};

struct endpoint_slice_cache {
    struct hash_table slices, owners;
    endpoints_changed_fn changed;
    void *ctx;
    uint64_t seen[FAMILY_COUNT];
    struct versions versions;
    struct endpoint_merge merge;
};

struct endpoint_slice_cache *endpoint_slice_cache_new(void)
{
    return xcalloc(1, sizeof(struct endpoint_slice_cache));
}

void endpoint_slice_cache_follow(struct endpoint_slice_cache *cache, endpoints_changed_fn changed,
                                 void *ctx)
{
    cache->changed = changed;
    cache->ctx = ctx;
}

static struct hash_key slice_key(const struct hash_link *link)
{
    return hash_key_of_text(((const struct cached_slice *)link)->slice->id);
}

static struct cached_slice *find(const struct endpoint_slice_cache *cache, const char *id)
{
    return hash_table_find(&cache->slices, slice_key, hash_key_of_text(id));
}

static bool contributes(const struct endpoint_slice *slice)
{
    return slice && slice->service_id && slice->has_family;
}

/* ---- the slices of a Service ---- */

static struct hash_key owner_key(const struct hash_link *link)
{
    return hash_key_of_text(((const struct owner *)link)->service_id);
}

static struct owner *find_owner(const struct endpoint_slice_cache *cache, const char *service_id)
{
    return hash_table_find(&cache->owners, owner_key, hash_key_of_text(service_id));
}

static size_t place_in_owner(const struct owner *owner, const char *slice_id)
{
    size_t low = 0, high = owner->slices.n;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (strcmp(owner->slices.v[middle]->slice->id, slice_id) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Indexes the existing slices of a family, unless indexed already. */
static void make_index(struct endpoint_slice_cache *cache, struct owner *owner, enum family family)
{
    if (owner->indexes[family])
        return;
    vec_each (&owner->slices, it) {
        struct cached_slice *entry = *it;
        if (entry->slice->family != family)
            continue;
        if (!owner->indexes[family])
            owner->indexes[family] = xcalloc(1, sizeof(struct address_index));
        endpoint_merge_begin(&cache->merge, NULL, entry->slice);
        endpoint_merge_index(&cache->merge, owner->indexes[family], &entry->slice);
    }
}

static void join_owner(struct endpoint_slice_cache *cache, struct cached_slice *entry)
{
    const struct endpoint_slice *slice = entry->slice;
    struct owner *owner = find_owner(cache, slice->service_id);
    if (!owner) {
        owner = xcalloc(1, sizeof(*owner));
        owner->service_id = xstrdup(slice->service_id);
        hash_table_add(&cache->owners, owner_key, &owner->link);
    }
    make_index(cache, owner, slice->family);
    size_t place = place_in_owner(owner, slice->id);
    vec_push(&owner->slices, NULL);
    memmove(&owner->slices.v[place + 1], &owner->slices.v[place],
            (owner->slices.n - 1 - place) * sizeof(*owner->slices.v));
    owner->slices.v[place] = entry;
    entry->owner = owner;
}

/* A single slice needs no index. */
static void drop_index(struct owner *owner, enum family family)
{
    struct address_index *index = owner->indexes[family];
    if (!index || (index->n_slices > 1 && owner->slices.n > 0))
        return;
    address_index_clear(index);
    free(index);
    owner->indexes[family] = NULL;
}

static void leave_owner(struct endpoint_slice_cache *cache, struct cached_slice *entry)
{
    struct owner *owner = entry->owner;
    size_t place = place_in_owner(owner, entry->slice->id);
    owner->slices.n--;
    memmove(&owner->slices.v[place], &owner->slices.v[place + 1],
            (owner->slices.n - place) * sizeof(*owner->slices.v));
    entry->owner = NULL;
    drop_index(owner, FAMILY_IPV4);
    drop_index(owner, FAMILY_IPV6);
    if (owner->slices.n > 0)
        return;
    hash_table_remove(&cache->owners, &owner->link);
    vec_free(&owner->slices);
    free(owner->service_id);
    free(owner);
}

/* ---- reporting changes ---- */

static struct slice_ports all_ports(const struct endpoint_slice *slice)
{
    return slice ? (struct slice_ports){slice->ports.v, slice->ports.n} : (struct slice_ports){0};
}

/* Reports each service port affected by the change of @entry from @before to @after, in port order.
 * Both are of the same Service and family; @entry has an owner. */
static void report_change(struct endpoint_slice_cache *cache, struct cached_slice *entry,
                          const struct endpoint_slice *before, const struct endpoint_slice *after)
{
    struct endpoint_merge *merge = &cache->merge;
    const struct endpoint_slice *slice = after ? after : before;
    struct slice_ports old = all_ports(before), new = all_ports(after);
    struct address_index *index = entry->owner->indexes[slice->family];
    const bool is_only_one = !index && !(before && after);
    if (!is_only_one)
        endpoint_merge_begin(merge, before, after);
    if (index)
        endpoint_merge_index(merge, index, &entry->slice);
    while (old.n || new.n) {
        struct slice_ports was = {0}, is = {0};
        int order = !old.n ? 1 : !new.n ? -1 : slice_port_compare_keys(old.v, new.v);
        if (order <= 0)
            was = slice_ports_take(&old);
        if (order >= 0)
            is = slice_ports_take(&new);
        const struct slice_port *port = is.n ? is.v : was.v;
        struct service_port_ref ref = {slice->service_id, slice->family, port->name,
                                       port->protocol};
        if (is_only_one) {
            endpoint_deltas_log(&ref, NULL, 0);
            cache->changed(cache->ctx, &ref, NULL, 0);
            continue;
        }
        endpoint_merge_port(merge, index, &entry->slice, was, is);
        if (merge->deltas.n == 0)
            continue;
        endpoint_deltas_log(&ref, merge->deltas.v, merge->deltas.n);
        cache->changed(cache->ctx, &ref, merge->deltas.v, merge->deltas.n);
    }
}

/* Replaces the slice of @entry, which may have none yet, by @after (NULL: removed). */
static void change_slice(struct endpoint_slice_cache *cache, struct cached_slice *entry,
                         struct endpoint_slice *after)
{
    struct endpoint_slice *before = entry->slice;
    if (contributes(before) && contributes(after) && before->family == after->family &&
        strcmp(before->service_id, after->service_id) == 0) {
        entry->slice = after;
        report_change(cache, entry, before, after);
        return;
    }
    if (entry->owner) {
        report_change(cache, entry, before, NULL);
        leave_owner(cache, entry);
    }
    entry->slice = after;
    if (contributes(after)) {
        join_owner(cache, entry);
        report_change(cache, entry, NULL, after);
    }
}

/* ---- changes ---- */

/* Counts a put of @after, or the removal of @before. */
static void count_seen(struct endpoint_slice_cache *cache, const struct endpoint_slice *before,
                       const struct endpoint_slice *after)
{
    const struct endpoint_slice *counts = contributes(after) ? after : before;
    if (contributes(counts))
        cache->seen[counts->family]++;
}

static struct known_object known_of(const struct cached_slice *entry)
{
    const struct endpoint_slice *slice = entry ? entry->slice : NULL;
    struct known_object known = {.version = slice ? &slice->version : NULL};
    if (slice)
        known.changed = entry->changed;
    if (contributes(slice))
        known.concerns[slice->family] = true;
    return known;
}

/* Records the change of @entry, still in its old state, to @after (NULL: removed). Returns false if
 * no Service is affected. */
static bool record_version(struct endpoint_slice_cache *cache, struct cached_slice *entry,
                           const struct endpoint_slice *after)
{
    const struct endpoint_slice *before = entry->slice;
    if (!contributes(before) && !contributes(after))
        return false;
    entry->changed = versions_change(&cache->versions, before ? before->id : after->id,
                                     before ? before->service_id : NULL, known_of(entry));
    return true;
}

const struct endpoint_slice *endpoint_slice_cache_put(struct endpoint_slice_cache *cache,
                                                      struct endpoint_slice *slice)
{
    struct cached_slice *entry = find(cache, slice->id);
    struct endpoint_slice *before = entry ? entry->slice : NULL;
    versions_accept(&cache->versions, slice->id);
    count_seen(cache, before, slice);
    if (entry && endpoint_slice_equal(before, slice)) {
        bool another =
            contributes(slice) && !object_version_equal(&before->version, &slice->version);
        object_version_move(&before->version, &slice->version);
        endpoint_slice_free(slice);
        return another ? before : NULL;
    }
    if (entry) {
        hash_table_remove(&cache->slices, &entry->link); /* its key goes with the old slice */
    } else {
        entry = xcalloc(1, sizeof(*entry));
        if (!slice->has_family)
            log_info("endpointslices",
                     "ignored slice=%s: its address type is neither IPv4 nor IPv6", slice->id);
    }
    bool differs = record_version(cache, entry, slice);
    change_slice(cache, entry, slice);
    hash_table_add(&cache->slices, slice_key, &entry->link);
    endpoint_slice_free(before);
    return differs ? slice : NULL;
}

static void forget(struct endpoint_slice_cache *cache, struct cached_slice *entry)
{
    struct endpoint_slice *slice = entry->slice;
    hash_table_remove(&cache->slices, &entry->link);
    count_seen(cache, slice, NULL);
    record_version(cache, entry, NULL);
    change_slice(cache, entry, NULL);
    endpoint_slice_free(slice);
    free(entry);
}

void endpoint_slice_cache_remove(struct endpoint_slice_cache *cache, const char *id)
{
    struct cached_slice *entry = find(cache, id);
    versions_accept(&cache->versions, id);
    if (entry)
        forget(cache, entry);
}

void endpoint_slice_cache_retain(struct endpoint_slice_cache *cache, const object_vec *keep)
{
    versions_accept_all(&cache->versions);
    vec_each (keep, object) {
        struct cached_slice *entry = find(cache, object->id);
        if (entry)
            entry->kept = true;
    }
    hash_table_each (&cache->slices, struct cached_slice, entry) {
        if (!entry->kept)
            forget(cache, entry);
        else
            entry->kept = false;
    }
}

void endpoint_slice_cache_free(struct endpoint_slice_cache *cache)
{
    hash_table_each (&cache->slices, struct cached_slice, entry) {
        if (entry->owner)
            leave_owner(cache, entry);
        hash_table_remove(&cache->slices, &entry->link);
        endpoint_slice_free(entry->slice);
        free(entry);
    }
    versions_clear(&cache->versions);
    endpoint_merge_clear(&cache->merge);
    free(cache);
}

/* ---- counts and versions ---- */

struct slice_counts endpoint_slice_cache_counts(const struct endpoint_slice_cache *cache)
{
    return (struct slice_counts){cache->slices.n,
                                 {cache->seen[FAMILY_IPV4], cache->seen[FAMILY_IPV6]},
                                 cache->versions.n_pending};
}

void endpoint_slice_cache_applied(struct endpoint_slice_cache *cache,
                                  const bool applied[FAMILY_COUNT])
{
    versions_apply(&cache->versions, applied);
}

void endpoint_slice_cache_reject(struct endpoint_slice_cache *cache, const struct object *object)
{
    versions_reject(&cache->versions, object->id, object->owner, &object->version);
}

/* Arguments of endpoint_slice_cache_versions(). */
struct versions_query {
    const struct endpoint_slice_cache *cache;
    const char *service_id;
    object_versions_vec *out;
};

static void add_versions(const struct versions_query *query, const char *id,
                         const struct cached_slice *entry)
{
    struct object_versions versions;
    if (versions_of(&query->cache->versions, id, known_of(entry), &versions))
        vec_push(query->out, versions);
}

/* Skips the owner's current slices, which are added already. */
static void add_former(void *ctx, const char *id)
{
    const struct versions_query *query = ctx;
    const struct cached_slice *entry = find(query->cache, id);
    if (!entry || !entry->owner || strcmp(entry->owner->service_id, query->service_id) != 0)
        add_versions(query, id, entry);
}

void endpoint_slice_cache_versions(const struct endpoint_slice_cache *cache, const char *service_id,
                                   object_versions_vec *out)
{
    struct versions_query query = {cache, service_id, out};
    struct owner *owner = find_owner(cache, service_id);
    if (owner)
        vec_each (&owner->slices, entry)
            add_versions(&query, (*entry)->slice->id, *entry);
    versions_each_of_owner(&cache->versions, service_id, add_former, &query);
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

const struct endpoint_slice *endpoint_slice_cache_at(const struct endpoint_slice_cache *cache,
                                                     const char *service_id, size_t i)
{
    const struct owner *owner = find_owner(cache, service_id);
    return owner && i < owner->slices.n ? owner->slices.v[i]->slice : NULL;
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
        order = (p->flags & ENDPOINT_TERMINATING) - (q->flags & ENDPOINT_TERMINATING);
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

void endpoint_slice_cache_merge(const struct endpoint_slice_cache *cache,
                                const struct service_port_ref *ref, endpoint_vec *out)
{
    const struct owner *owner = find_owner(cache, ref->service_id);
    vec_clear(out);
    if (!owner)
        return;
    vec_each (&owner->slices, entry)
        endpoint_slice_gather((*entry)->slice, ref, out);
    if (!is_sorted(out))
        qsort(out->v, out->n, sizeof(*out->v), compare_copies);
    size_t kept = 0;
    for (size_t i = 0; i < out->n; i++)
        if (kept == 0 || compare_identity(&out->v[kept - 1], &out->v[i]) != 0)
            out->v[kept++] = out->v[i];
    out->n = kept;
}
