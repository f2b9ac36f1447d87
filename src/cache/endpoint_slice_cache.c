/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "kube-nftd/cache.h"

#include "endpoint_diff.h"
#include "kube-nftd/base.h"

#include <string.h>

struct owner;

struct cached_slice {
    struct hash_link link; /* by slice->id */
    struct endpoint_slice *slice;
    struct owner *owner;     /* NULL if the slice belongs to no Service */
    generation changed : 63; /* when it became another last */
    uint64_t kept : 1;       /* scratch of endpoint_slice_cache_retain() */
    uint32_t number;         /* in the owner's index of its family, if there is one */
};

/* The slices that name one Service, which need not exist, in the order of their ids. */
struct owner {
    struct hash_link link; /* by service_id */
    char *service_id;
    VEC(struct cached_slice *) slices;
    struct address_index *indexes[FAMILY_COUNT]; /* NULL without a second slice of the family */
};

struct endpoint_slice_cache {
    struct hash_table slices, owners;
    service_port_changed_fn changed;
    void *ctx;
    struct slice_changes changes;
    struct receipts *receipts;
    struct endpoint_diff diff;
};

struct endpoint_slice_cache *endpoint_slice_cache_new(service_port_changed_fn changed, void *ctx)
{
    struct endpoint_slice_cache *cache = xcalloc(1, sizeof(*cache));
    cache->changed = changed;
    cache->ctx = ctx;
    cache->receipts = receipts_new();
    return cache;
}

static struct hash_key slice_key(const struct hash_link *link)
{
    return hash_key_of_text(((const struct cached_slice *)link)->slice->id);
}

static struct cached_slice *find(const struct endpoint_slice_cache *cache, const char *id)
{
    return hash_table_find(&cache->slices, slice_key, hash_key_of_text(id));
}

static void leave(struct endpoint_slice_cache *cache, struct cached_slice *entry)
{
    hash_table_remove(&cache->slices, &entry->link);
}

/* ---- which slices name which Service ---- */

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

static void index_slice(struct owner *owner, struct cached_slice *entry)
{
    struct address_index *index = owner->indexes[entry->slice->family];
    entry->number = address_index_add(index, entry->slice);
}

/* For the slice that came last. The first two of a family make an index. */
static void join_index(struct owner *owner, struct cached_slice *entry)
{
    enum family family = entry->slice->family;
    size_t n = 0;
    if (owner->indexes[family]) {
        index_slice(owner, entry);
        return;
    }
    vec_each (&owner->slices, it)
        n += (*it)->slice->family == family;
    if (n < 2)
        return;
    owner->indexes[family] = xcalloc(1, sizeof(*owner->indexes[family]));
    vec_each (&owner->slices, it)
        if ((*it)->slice->family == family)
            index_slice(owner, *it);
}

static void free_index(struct owner *owner, enum family family)
{
    address_index_clear(owner->indexes[family]);
    free(owner->indexes[family]);
    owner->indexes[family] = NULL;
}

/* The last one needs none. */
static void leave_index(struct owner *owner, const struct cached_slice *entry)
{
    enum family family = entry->slice->family;
    struct address_index *index = owner->indexes[family];
    if (!index)
        return;
    if (index->n_slices == 2)
        free_index(owner, family);
    else
        address_index_remove(index, entry->number);
}

static void join_owner(struct endpoint_slice_cache *cache, struct cached_slice *entry)
{
    const char *service_id = entry->slice->service_id;
    struct owner *owner = find_owner(cache, service_id);
    if (!owner) {
        owner = xcalloc(1, sizeof(*owner));
        owner->service_id = xstrdup(service_id);
        hash_table_add(&cache->owners, owner_key, &owner->link);
    }
    size_t place = place_in_owner(owner, entry->slice->id);
    vec_push(&owner->slices, NULL);
    memmove(&owner->slices.v[place + 1], &owner->slices.v[place],
            (owner->slices.n - 1 - place) * sizeof(*owner->slices.v));
    owner->slices.v[place] = entry;
    entry->owner = owner;
    join_index(owner, entry);
}

static void leave_owner(struct endpoint_slice_cache *cache, struct cached_slice *entry)
{
    struct owner *owner = entry->owner;
    size_t place = place_in_owner(owner, entry->slice->id);
    owner->slices.n--;
    memmove(&owner->slices.v[place], &owner->slices.v[place + 1],
            (owner->slices.n - place) * sizeof(*owner->slices.v));
    entry->owner = NULL;
    leave_index(owner, entry);
    if (owner->slices.n > 0)
        return;
    hash_table_remove(&cache->owners, &owner->link);
    vec_free(&owner->slices);
    free(owner->service_id);
    free(owner);
}

/* ---- what a change makes different ---- */

static bool contributes(const struct endpoint_slice *slice)
{
    return slice && slice->service_id && slice->has_family;
}

static bool same_numbers(const struct slice_ports *a, const struct slice_ports *b)
{
    if (a->n != b->n)
        return false;
    for (size_t i = 0; i < a->n; i++)
        if (a->v[i].port != b->v[i].port)
            return false;
    return true;
}

static void tell(struct endpoint_slice_cache *cache, const struct slice_change *change,
                 const struct port_change *ports)
{
    const struct endpoint_slice *slice = change->after ? change->after : change->before;
    const struct slice_port *port = ports->after.n ? ports->after.v : ports->before.v;
    struct service_port_ref ref = {slice->service_id, slice->family, port->name, port->protocol};
    bool is_only_one = !change->others && !(change->before && change->after);
    if (is_only_one) {
        cache->changed(cache->ctx, &ref, NULL, 0);
        return;
    }
    endpoint_diff_make(&cache->diff, change, ports);
    if (cache->diff.changes.n)
        cache->changed(cache->ctx, &ref, cache->diff.changes.v, cache->diff.changes.n);
}

static struct slice_ports all_ports(const struct endpoint_slice *slice)
{
    return slice ? (struct slice_ports){slice->ports.v, slice->ports.n} : (struct slice_ports){0};
}

/* Takes what the two have of the service port that comes first in one of them. */
static struct port_change take_ports(struct slice_ports *before, struct slice_ports *after)
{
    struct port_change ports = {0};
    int order = before->n == 0  ? 1
                : after->n == 0 ? -1
                                : slice_port_compare_keys(before->v, after->v);
    if (order <= 0)
        ports.before = slice_ports_take(before);
    if (order >= 0)
        ports.after = slice_ports_take(after);
    ports.numbers_differ = !same_numbers(&ports.before, &ports.after);
    return ports;
}

/* Tells of every port of the two slices, of one Service and family, that is another by it, in the
 * order of ports. */
static void tell_change(struct endpoint_slice_cache *cache, const struct slice_change *change)
{
    struct slice_ports before = all_ports(change->before), after = all_ports(change->after);
    bool differ =
        !change->before || !change->after || !slice_endpoints_equal(change->before, change->after);
    endpoint_diff_begin(&cache->diff, change);
    while (before.n || after.n) {
        struct port_change ports = take_ports(&before, &after);
        if (differ || ports.numbers_differ)
            tell(cache, change, &ports);
    }
}

static const struct address_index *others_of(const struct cached_slice *entry)
{
    return entry->owner->indexes[entry->slice->family];
}

/* ---- coming and going ---- */

/* @entry has another slice than before, or its first. */
static void join(struct endpoint_slice_cache *cache, struct cached_slice *entry)
{
    if (!contributes(entry->slice))
        return;
    join_owner(cache, entry);
    tell_change(cache, &(struct slice_change){NULL, entry->slice, others_of(entry), entry->number});
}

static void leave_service(struct endpoint_slice_cache *cache, struct cached_slice *entry)
{
    if (!entry->owner)
        return;
    tell_change(cache, &(struct slice_change){entry->slice, NULL, others_of(entry), entry->number});
    leave_owner(cache, entry);
}

/* The slice is another of the same Service and family. */
static void replace(struct endpoint_slice_cache *cache, struct cached_slice *entry,
                    struct endpoint_slice *after)
{
    const struct endpoint_slice *before = entry->slice;
    struct address_index *index = entry->owner->indexes[before->family];
    if (index)
        address_index_replace(index, entry->number, after);
    entry->slice = after;
    tell_change(cache, &(struct slice_change){before, after, index, entry->number});
}

static bool stays_where_it_is(const struct endpoint_slice *before,
                              const struct endpoint_slice *after)
{
    return contributes(before) && contributes(after) && before->family == after->family &&
           strcmp(before->service_id, after->service_id) == 0;
}

/* ---- changes ---- */

/* Counts a slice that comes as @after, or goes as @before. */
static void count_seen(struct endpoint_slice_cache *cache, const struct endpoint_slice *before,
                       const struct endpoint_slice *after)
{
    const struct endpoint_slice *counts = contributes(after) ? after : before;
    if (contributes(counts))
        cache->changes.seen[counts->family]++;
}

static struct received_object received_of(const struct cached_slice *entry)
{
    const struct endpoint_slice *slice = entry->slice;
    struct received_object received = {&slice->version, entry->changed, {false, false}};
    if (contributes(slice))
        received.concerns[slice->family] = true;
    return received;
}

/* @entry, which holds what was, if anything was, becomes @after, or goes. Returns whether that may
 * make a difference to a Service. */
static bool note_change(struct endpoint_slice_cache *cache, struct cached_slice *entry,
                        const struct endpoint_slice *after)
{
    const struct endpoint_slice *before = entry->slice;
    if (!contributes(before) && !contributes(after))
        return false;
    if (before) {
        struct received_object received = received_of(entry);
        receipts_change(cache->receipts, before->id, before->service_id, &received);
    } else {
        receipts_change(cache->receipts, after->id, NULL, NULL);
    }
    cache->changes.pending += receipts_is_in_force(cache->receipts, entry->changed);
    entry->changed = receipts_now(cache->receipts);
    return true;
}

bool endpoint_slice_cache_put(struct endpoint_slice_cache *cache, struct endpoint_slice *slice)
{
    struct cached_slice *entry = find(cache, slice->id);
    struct endpoint_slice *before = NULL;
    receipts_take_in(cache->receipts, slice->id);
    count_seen(cache, entry ? entry->slice : NULL, slice);
    if (entry && endpoint_slice_equal(entry->slice, slice)) {
        bool another =
            contributes(slice) && !object_version_equal(&entry->slice->version, &slice->version);
        object_version_move(&entry->slice->version, &slice->version);
        endpoint_slice_free(slice);
        return another;
    }
    if (!entry) {
        entry = xcalloc(1, sizeof(*entry));
        if (!slice->has_family)
            log_info("endpointslices",
                     "ignored slice=%s: its address type is neither IPv4 nor IPv6", slice->id);
    } else {
        before = entry->slice;
        leave(cache, entry);
    }
    bool differs = note_change(cache, entry, slice);
    if (stays_where_it_is(before, slice)) {
        replace(cache, entry, slice);
    } else {
        leave_service(cache, entry);
        entry->slice = slice;
        join(cache, entry);
    }
    hash_table_add(&cache->slices, slice_key, &entry->link);
    endpoint_slice_free(before);
    return differs;
}

static void forget(struct endpoint_slice_cache *cache, struct cached_slice *entry)
{
    leave(cache, entry);
    count_seen(cache, entry->slice, NULL);
    note_change(cache, entry, NULL);
    leave_service(cache, entry);
    endpoint_slice_free(entry->slice);
    free(entry);
}

void endpoint_slice_cache_remove(struct endpoint_slice_cache *cache, const char *id)
{
    struct cached_slice *entry = find(cache, id);
    receipts_take_in(cache->receipts, id);
    if (entry)
        forget(cache, entry);
}

void endpoint_slice_cache_retain(struct endpoint_slice_cache *cache, const object_vec *keep)
{
    receipts_take_all_in(cache->receipts);
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
        leave(cache, entry);
        endpoint_slice_free(entry->slice);
        free(entry);
    }
    receipts_free(cache->receipts);
    endpoint_diff_clear(&cache->diff);
    free(cache);
}

/* ---- figures ---- */

size_t endpoint_slice_cache_count(const struct endpoint_slice_cache *cache)
{
    return cache->slices.n;
}

struct slice_changes endpoint_slice_cache_changes(const struct endpoint_slice_cache *cache)
{
    return cache->changes;
}

void endpoint_slice_cache_turn_over(struct endpoint_slice_cache *cache,
                                    const bool in_force[FAMILY_COUNT])
{
    if (receipts_next(cache->receipts, in_force))
        cache->changes.pending = 0;
}

/* ---- receipts ---- */

void endpoint_slice_cache_leave_out(struct endpoint_slice_cache *cache, const struct object *object)
{
    receipts_leave_out(cache->receipts, object->id, object->owner, &object->version);
}

/* Who wants the receipts of the slices of @service_id. */
struct receipts_query {
    const struct endpoint_slice_cache *cache;
    const char *service_id;
    receipt_fn take;
    void *ctx;
};

static void give_receipt(const struct receipts_query *query, const char *id,
                         const struct cached_slice *entry)
{
    struct receipt receipt;
    struct received_object known = {0};
    if (entry)
        known = received_of(entry);
    if (receipts_of(query->cache->receipts, id, entry ? &known : NULL, &receipt))
        query->take(query->ctx, &receipt);
}

/* Those that the owner has now were given already. */
static void give_former(void *ctx, const char *id)
{
    const struct receipts_query *query = ctx;
    const struct cached_slice *entry = find(query->cache, id);
    if (!entry || !entry->owner || strcmp(entry->owner->service_id, query->service_id) != 0)
        give_receipt(query, id, entry);
}

void endpoint_slice_cache_receipts(const struct endpoint_slice_cache *cache, const char *service_id,
                                   receipt_fn take, void *ctx)
{
    struct receipts_query query = {cache, service_id, take, ctx};
    struct owner *owner = find_owner(cache, service_id);
    if (owner)
        vec_each (&owner->slices, entry)
            give_receipt(&query, (*entry)->slice->id, *entry);
    receipts_each_of_owner(cache->receipts, service_id, give_former, &query);
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
            vec_push(out, (struct endpoint){endpoint->address, endpoint->node_name, endpoint->hints,
                                            port->port, endpoint->flags, endpoint->zone,
                                            (uint32_t)out->n});
        }
    }
}

void endpoint_slice_cache_each(const struct endpoint_slice_cache *cache, const char *service_id,
                               void (*fn)(void *ctx, const struct endpoint_slice *slice), void *ctx)
{
    struct owner *owner = find_owner(cache, service_id);
    if (!owner)
        return;
    vec_each (&owner->slices, entry)
        fn(ctx, (*entry)->slice);
}

static int compare_identity(const struct endpoint *a, const struct endpoint *b)
{
    int order = memcmp(&a->address, &b->address, sizeof(a->address));
    return order ? order : (int)a->port - (int)b->port;
}

/* By identity, and in each identity the copy that wins first: the order is total. */
static int compare_copies(const void *a, const void *b)
{
    const struct endpoint *p = a, *q = b;
    int order = compare_identity(p, q);
    if (order == 0)
        order = (p->flags & ENDPOINT_TERMINATING) - (q->flags & ENDPOINT_TERMINATING);
    return order ? order : (p->place > q->place) - (p->place < q->place);
}

/* Already sorted lists are the rule: services of one slice, in the order the controller wrote. */
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
