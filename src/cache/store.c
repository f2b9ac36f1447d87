/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "store.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

/* While one family fails, changes of the other pile up. A sweep drops obsolete versions once their
 * number exceeds twice what the last sweep kept, plus this many. */
#define SWEEP_ALLOWANCE 1024

/* What is kept of an object beyond its current state. */
struct past {
    struct object_version programmed[FAMILY_COUNT]; /* in the tables, from before the change */
    struct object_version rejected;                 /* failed to decode */
    char *owner;          /* of the slice that is in the tables; NULL: none */
    char *rejected_owner; /* NULL: unknown or none */
    char id[];
};

const char *slice_owner(const struct endpoint_slice *slice)
{
    return slice && slice->has_family ? slice->service_id : NULL;
}

/* ---- what differs between the kinds ---- */

_Static_assert(offsetof(struct service, id) == 0 && offsetof(struct endpoint_slice, id) == 0 &&
                   offsetof(struct service_cidr, id) == 0,
               "id_of() reads the id of each kind");

static const char *id_of(const void *object)
{
    return *(char *const *)object;
}

/* Of a Service or slice. */
static struct object_version *version_of(const struct object_store *store, void *object)
{
    return store->kind == KIND_SERVICE ? &((struct service *)object)->version
                                       : &((struct endpoint_slice *)object)->version;
}

/* Whether @object, which may be NULL, has state in the table of @family. */
static bool concerns(const struct object_store *store, const void *object, int family)
{
    const struct service *service = object;
    const struct endpoint_slice *slice = object;
    if (store->kind == KIND_SERVICE)
        return service && !service->skipped && service->has_cluster_ip[family];
    return store->kind == KIND_ENDPOINTSLICE && slice_owner(slice) && (int)slice->family == family;
}

/* ServiceCIDRs are few, so whoever follows them compares. */
static bool equal(const struct object_store *store, const void *a, const void *b)
{
    return store->kind == KIND_SERVICE         ? service_equal(a, b)
           : store->kind == KIND_ENDPOINTSLICE ? endpoint_slice_equal(a, b)
                                               : false;
}

static void free_object(const struct object_store *store, void *object)
{
    object_clear(&(struct object){.kind = store->kind, .payload = object});
}

/* Moves what equal() does not compare to @known, and frees @object. */
static void take_rest(struct object_store *store, void *known, void *object)
{
    object_version_move(version_of(store, known), version_of(store, object));
    if (store->kind == KIND_SERVICE) {
        struct service *service = object, *old = known;
        char *warnings = old->warnings;
        old->uid = service->uid;
        old->type = service->type;
        old->warnings = service->warnings;
        service->warnings = warnings;
    }
    free_object(store, object);
}

/* Whether replacing @before by @after, either of which may be NULL, affects a table. */
static bool affects(const struct object_store *store, const void *before, const void *after)
{
    return store->kind == KIND_SERVICE ||
           (store->kind == KIND_ENDPOINTSLICE && (slice_owner(before) || slice_owner(after)));
}

/* Logs what is ignored in @object, unless it was logged for @before, which may be NULL. */
static void log_ignored(const struct object_store *store, const void *before, const void *object)
{
    if (store->kind == KIND_SERVICE) {
        const struct service *service = object, *known = before;
        const char *logged = known && known->warnings ? known->warnings : "";
        if (service->warnings && strcmp(service->warnings, logged) != 0)
            log_warn("cache", "ignored fields: Service %s: %s", service->id, service->warnings);
        return;
    }
    const struct endpoint_slice *slice = object;
    if (store->kind == KIND_ENDPOINTSLICE && !before && !slice->has_family)
        log_info("cache", "ignored slice=%s: its address type is neither IPv4 nor IPv6", slice->id);
}

/* Counts a put of @after, or the removal of @before. */
static void count_seen(struct object_store *store, const void *before, const void *after)
{
    const bool slices = store->kind == KIND_ENDPOINTSLICE;
    const void *slice = slices && slice_owner(after) ? after : before;
    for (int family = 0; family < FAMILY_COUNT; family++)
        store->counts.seen[family] += !slices || concerns(store, slice, family);
}

/* ---- entries ---- */

static struct hash_key stored_key(const struct hash_link *link)
{
    const struct entry *entry = (const struct entry *)link;
    return hash_key_of_text(entry->object ? id_of(entry->object) : entry->past->id);
}

static struct entry *find_stored(const struct object_store *store, const char *id)
{
    return hash_table_find(&store->entries, stored_key, hash_key_of_text(id));
}

const void *object_store_get(const struct object_store *store, const char *id)
{
    const struct entry *entry = find_stored(store, id);
    return entry ? entry->object : NULL;
}

struct object_counts object_store_counts(const struct object_store *store)
{
    return store->counts;
}

static struct past *make_past(struct object_store *store, struct entry *entry, const char *id)
{
    const size_t length = strlen(id);
    if (entry->past)
        return entry->past;
    entry->past = xcalloc(1, sizeof(*entry->past) + length + 1);
    memcpy(entry->past->id, id, length);
    vec_push(&store->with_past, entry);
    return entry->past;
}

static bool is_programmed(const struct past *past)
{
    return object_version_is_set(&past->programmed[FAMILY_IPV4]) ||
           object_version_is_set(&past->programmed[FAMILY_IPV6]);
}

static void free_past(struct entry *entry)
{
    struct past *past = entry->past;
    if (!past)
        return;
    for (int family = 0; family < FAMILY_COUNT; family++)
        object_version_clear(&past->programmed[family]);
    object_version_clear(&past->rejected);
    free(past->owner);
    free(past->rejected_owner);
    free(past);
    entry->past = NULL;
}

static void free_entry(struct object_store *store, struct entry *entry)
{
    hash_table_remove(&store->entries, &entry->link);
    if (entry->object)
        free_object(store, entry->object);
    free_past(entry);
    free(entry);
}

void store_clear(struct object_store *store)
{
    hash_table_each (&store->entries, struct entry, entry)
        free_entry(store, entry);
    vec_free(&store->with_past);
}

/* ---- changes ---- */

static bool is_applied(const struct object_store *store, generation changed)
{
    return changed <= store->applied[FAMILY_IPV4] && changed <= store->applied[FAMILY_IPV6];
}

/* Keeps the version of @before, the object of @entry until now, that is in the tables: if the
 * previous change is applied in a family, its table has the version of that change. */
static void record(struct object_store *store, struct entry *entry, void *before)
{
    const generation now = store->now + 1;
    store->last_change = now;
    store->counts.pending += is_applied(store, entry->changed);
    for (int family = 0; family < FAMILY_COUNT; family++) {
        if (entry->changed > store->applied[family])
            continue;
        if (concerns(store, before, family)) {
            struct past *past = make_past(store, entry, id_of(before));
            object_version_copy(&past->programmed[family], version_of(store, before));
            free(past->owner);
            past->owner = store->kind == KIND_SERVICE ? NULL : xstrdup(slice_owner(before));
        } else if (entry->past) {
            object_version_clear(&entry->past->programmed[family]);
        }
    }
    entry->changed = now;
}

/* Replaces the object of @entry, change->before, by change->after. */
static void replace(struct object_store *store, struct entry *entry, struct store_change *change)
{
    if (affects(store, change->before, change->after))
        record(store, entry, change->before);
    entry->object = change->after;
    store->counts.known += !change->before;
    store->counts.known -= !change->after;
    change->gone = !change->after && !entry->past ? entry : NULL;
    if (change->gone)
        hash_table_remove(&store->entries, &entry->link);
}

void store_release(struct object_store *store, const struct store_change *change)
{
    if (change->before)
        free_object(store, change->before);
    free(change->gone);
}

/* The object was decoded, or removed. */
static void clear_rejected(struct object_store *store, struct entry *entry)
{
    if (!entry->past || !object_version_is_set(&entry->past->rejected))
        return;
    object_version_clear(&entry->past->rejected);
    store->last_change = store->now + 1; /* the next sweep frees it */
}

bool store_put(struct object_store *store, void *object, struct store_change *change,
               const void **newer)
{
    struct entry *entry = find_stored(store, id_of(object));
    void *before = entry ? entry->object : NULL;
    const bool matters = affects(store, before, object);
    if (entry)
        clear_rejected(store, entry);
    count_seen(store, before, object);
    log_ignored(store, before, object);
    if (before && equal(store, before, object)) {
        const bool same =
            !matters || object_version_equal(version_of(store, before), version_of(store, object));
        take_rest(store, before, object);
        *newer = same ? NULL : before;
        return false;
    }
    if (!entry) {
        entry = xcalloc(1, sizeof(*entry));
        entry->object = object;
        hash_table_add(&store->entries, stored_key, &entry->link);
    }
    *newer = matters ? object : NULL;
    *change = (struct store_change){before, object, NULL};
    replace(store, entry, change);
    return true;
}

static bool forget_stored(struct object_store *store, struct entry *entry,
                          struct store_change *change)
{
    clear_rejected(store, entry);
    if (!entry->object)
        return false;
    count_seen(store, entry->object, NULL);
    *change = (struct store_change){entry->object, NULL, NULL};
    replace(store, entry, change);
    return true;
}

bool store_remove(struct object_store *store, const char *id, struct store_change *change)
{
    struct entry *entry = find_stored(store, id);
    return entry && forget_stored(store, entry, change);
}

void store_list(struct object_store *store, const object_vec *objects)
{
    vec_each (objects, object) {
        struct entry *entry = find_stored(store, object->id);
        if (entry)
            entry->listed = true;
    }
}

bool store_retain(struct object_store *store, struct entry *entry, struct store_change *change)
{
    const bool listed = entry->listed;
    entry->listed = false;
    if (listed)
        clear_rejected(store, entry);
    return !listed && forget_stored(store, entry, change);
}

void store_reject(struct object_store *store, const struct object *object)
{
    struct entry *entry = find_stored(store, object->id);
    if (!entry) {
        entry = xcalloc(1, sizeof(*entry));
        make_past(store, entry, object->id);
        hash_table_add(&store->entries, stored_key, &entry->link);
    }
    struct past *past = make_past(store, entry, object->id);
    free(past->rejected_owner);
    past->rejected_owner = xstrdup(object->owner);
    object_version_copy(&past->rejected, &object->version);
}

/* ---- applying ---- */

/* Frees versions that left the tables, and what is empty then. */
static void sweep(struct object_store *store)
{
    size_t n = 0;
    vec_each (&store->with_past, it) {
        struct entry *entry = *it;
        for (int family = 0; family < FAMILY_COUNT; family++)
            if (entry->changed <= store->applied[family])
                object_version_clear(&entry->past->programmed[family]);
        if (object_version_is_set(&entry->past->rejected) || is_programmed(entry->past)) {
            store->with_past.v[n++] = entry;
            continue;
        }
        if (entry->object)
            free_past(entry);
        else
            free_entry(store, entry);
    }
    store->with_past.n = store->kept = n;
    if (n == 0)
        vec_clear_few(&store->with_past);
}

void store_apply(struct object_store *store, const bool applied[FAMILY_COUNT])
{
    store->now++;
    for (int family = 0; family < FAMILY_COUNT; family++)
        if (applied[family])
            store->applied[family] = store->now;
    if (is_applied(store, store->now))
        store->counts.pending = 0;
    const bool all = is_applied(store, store->last_change);
    if (store->swept >= store->last_change ||
        !(all || store->with_past.n > 2 * store->kept + SWEEP_ALLOWANCE))
        return;
    sweep(store);
    store->swept = all ? store->now : 0;
}

/* ---- queries ---- */

static bool versions_of(const struct object_store *store, const struct entry *entry,
                        const bool all_applied[FAMILY_COUNT], struct object_versions *out)
{
    const struct past *past = entry->past;
    bool rejected = past && object_version_is_set(&past->rejected), any = entry->object || rejected;
    const struct object_version *received = entry->object ? version_of(store, entry->object) : NULL;
    *out = (struct object_versions){.id = entry->object ? id_of(entry->object) : past->id,
                                    .received = received,
                                    .rejected = rejected ? &past->rejected : NULL};
    for (int family = 0; family < FAMILY_COUNT; family++) {
        const bool reached =
            entry->changed <= store->applied[family] || (all_applied && all_applied[family]);
        const struct object_version *before = NULL; /* in the table until the change is applied */
        if (past && !reached && object_version_is_set(&past->programmed[family]))
            before = &past->programmed[family];
        bool concerned = concerns(store, entry->object, family);
        bool applied = received ? reached : !before;
        out->family[family].concerned = concerned || before;
        out->family[family].applied = applied;
        out->family[family].programmed = concerned && applied ? received : before;
        any = any || before;
    }
    return any;
}

bool object_store_versions(const struct object_store *store, const char *id,
                           const bool applied[FAMILY_COUNT], struct object_versions *out)
{
    const struct entry *entry = find_stored(store, id);
    return entry && versions_of(store, entry, applied, out);
}

static bool is_text(const char *text, const char *wanted)
{
    return text && strcmp(text, wanted) == 0;
}

void store_former_slices(const struct object_store *store, const char *service_id,
                         const bool applied[FAMILY_COUNT], object_versions_vec *out)
{
    vec_each (&store->with_past, it) {
        const struct past *past = (*it)->past;
        struct object_versions versions;
        bool former = is_programmed(past) && is_text(past->owner, service_id);
        bool rejected =
            object_version_is_set(&past->rejected) && is_text(past->rejected_owner, service_id);
        if ((former || rejected) && !is_text(slice_owner((*it)->object), service_id) &&
            versions_of(store, *it, applied, &versions))
            vec_push(out, versions);
    }
}
