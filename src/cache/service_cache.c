/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "kube-nftd/cache.h"

#include "kube-nftd/base.h"

#include <string.h>

struct cached_service {
    struct hash_link link; /* by service->id */
    struct service *service;
    generation changed : 63; /* when it became another last */
    uint64_t kept : 1;       /* scratch of service_cache_retain() */
};

struct service_cache {
    struct hash_table services;
    service_changed_fn changed;
    void *ctx;
    struct cache_changes changes;
    struct receipts *receipts;
};

struct service_cache *service_cache_new(service_changed_fn changed, void *ctx)
{
    struct service_cache *cache = xcalloc(1, sizeof(*cache));
    cache->changed = changed;
    cache->ctx = ctx;
    cache->receipts = receipts_new();
    return cache;
}

static struct hash_key key_of(const struct hash_link *link)
{
    return hash_key_of_text(((const struct cached_service *)link)->service->id);
}

static struct cached_service *find(const struct service_cache *cache, const char *id)
{
    return hash_table_find(&cache->services, key_of, hash_key_of_text(id));
}

static void leave(struct service_cache *cache, struct cached_service *entry)
{
    hash_table_remove(&cache->services, &entry->link);
}

static struct received_object received_of(const struct cached_service *entry)
{
    const struct service *service = entry->service;
    struct received_object received = {&service->version, entry->changed, {false, false}};
    for (int family = 0; family < FAMILY_COUNT; family++)
        received.concerns[family] = !service->skipped && service->has_cluster_ip[family];
    return received;
}

/* @entry, which holds what was, becomes another or goes. */
static void note_change(struct service_cache *cache, struct cached_service *entry)
{
    struct received_object before = received_of(entry);
    receipts_change(cache->receipts, entry->service->id, NULL, &before);
    cache->changes.pending += receipts_is_in_force(cache->receipts, entry->changed);
    entry->changed = receipts_now(cache->receipts);
}

static struct cached_service *add_entry(struct service_cache *cache, const char *id)
{
    struct cached_service *entry = xcalloc(1, sizeof(*entry));
    receipts_change(cache->receipts, id, NULL, NULL);
    cache->changes.pending++;
    entry->changed = receipts_now(cache->receipts);
    return entry;
}

/* Says what is ignored of @service, unless that was said of @before. */
static void warn(const struct service *before, const struct service *service)
{
    const char *said = before && before->warnings ? before->warnings : "";
    if (service->warnings && strcmp(service->warnings, said) != 0)
        log_warn("services", "ignored fields: Service %s: %s", service->id, service->warnings);
}

/* @known says the same as @service but perhaps for what is ignored, and who it is. */
static void take_rest(struct service *known, struct service *service)
{
    known->uid = service->uid;
    known->type = service->type;
    char *warnings = known->warnings;
    known->warnings = service->warnings;
    service->warnings = warnings;
    object_version_move(&known->version, &service->version);
}

void service_cache_put(struct service_cache *cache, struct service *service)
{
    struct cached_service *entry = find(cache, service->id);
    struct service *before = NULL;
    cache->changes.seen++;
    receipts_take_in(cache->receipts, service->id);
    warn(entry ? entry->service : NULL, service);
    if (entry && service_equal(entry->service, service)) {
        take_rest(entry->service, service);
        service_free(service);
        return;
    }
    if (entry) {
        before = entry->service;
        note_change(cache, entry);
        leave(cache, entry);
    } else {
        entry = add_entry(cache, service->id);
    }
    entry->service = service;
    hash_table_add(&cache->services, key_of, &entry->link);
    cache->changed(cache->ctx, before, service);
    service_free(before);
}

static void forget(struct service_cache *cache, struct cached_service *entry)
{
    leave(cache, entry);
    cache->changes.seen++;
    note_change(cache, entry);
    cache->changed(cache->ctx, entry->service, NULL);
    service_free(entry->service);
    free(entry);
}

void service_cache_remove(struct service_cache *cache, const char *id)
{
    struct cached_service *entry = find(cache, id);
    receipts_take_in(cache->receipts, id);
    if (entry)
        forget(cache, entry);
}

void service_cache_retain(struct service_cache *cache, const object_vec *keep)
{
    receipts_take_all_in(cache->receipts);
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

size_t service_cache_count(const struct service_cache *cache)
{
    return cache->services.n;
}

struct cache_changes service_cache_changes(const struct service_cache *cache)
{
    return cache->changes;
}

void service_cache_leave_out(struct service_cache *cache, const struct object *object)
{
    receipts_leave_out(cache->receipts, object->id, NULL, &object->version);
}

void service_cache_turn_over(struct service_cache *cache, const bool in_force[FAMILY_COUNT])
{
    if (receipts_next(cache->receipts, in_force))
        cache->changes.pending = 0;
}

bool service_cache_receipt(const struct service_cache *cache, const char *id, struct receipt *out)
{
    const struct cached_service *entry = find(cache, id);
    struct received_object known = {0};
    if (entry)
        known = received_of(entry);
    return receipts_of(cache->receipts, entry ? entry->service->id : id, entry ? &known : NULL,
                       out);
}

void service_cache_free(struct service_cache *cache)
{
    hash_table_each (&cache->services, struct cached_service, entry) {
        leave(cache, entry);
        service_free(entry->service);
        free(entry);
    }
    receipts_free(cache->receipts);
    free(cache);
}
