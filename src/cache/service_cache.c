/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "kube-nftd/cache/service_cache.h"

#include "kube-nftd/base/hash.h"
#include "kube-nftd/base/log.h"

#include <string.h>

struct cached_service {
    UT_hash_handle hh; /* by service->id */
    struct service *service;
    bool kept;      /* scratch of service_cache_retain() */
    uint32_t round; /* cache->round when it changed last */
};

struct service_cache {
    struct cached_service *services;
    service_changed_fn changed;
    void *ctx;
    struct cache_changes changes;
    uint32_t round; /* one more with each service_cache_applied() */
};

struct service_cache *service_cache_new(service_changed_fn changed, void *ctx)
{
    struct service_cache *cache = xcalloc(1, sizeof(*cache));
    cache->changed = changed;
    cache->ctx = ctx;
    cache->round = 1;
    return cache;
}

static void count_change(struct service_cache *cache, struct cached_service *entry)
{
    cache->changes.pending += entry->round != cache->round;
    entry->round = cache->round;
}

/* Says what is ignored of @service, unless that was said of @before. */
static void warn(const struct service *before, const struct service *service)
{
    const char *said = before && before->warnings ? before->warnings : "";
    if (service->warnings && strcmp(service->warnings, said) != 0)
        log_warn("services", "ignored fields: Service %s: %s", service->id, service->warnings);
}

/* @known says the same as @service but perhaps for what is ignored. */
static void take_warnings(struct service *known, struct service *service)
{
    char *warnings = known->warnings;
    known->warnings = service->warnings;
    service->warnings = warnings;
}

void service_cache_put(struct service_cache *cache, struct service *service)
{
    struct cached_service *entry;
    struct service *before = NULL;
    cache->changes.seen++;
    HASH_FIND_STR(cache->services, service->id, entry);
    warn(entry ? entry->service : NULL, service);
    if (entry && service_equal(entry->service, service)) {
        take_warnings(entry->service, service);
        service_free(service);
        return;
    }
    if (entry) {
        before = entry->service;
        HASH_DELETE(hh, cache->services, entry);
    } else {
        entry = xcalloc(1, sizeof(*entry));
    }
    entry->service = service;
    HASH_ADD_KEYPTR(hh, cache->services, service->id, strlen(service->id), entry);
    count_change(cache, entry);
    cache->changed(cache->ctx, before, service);
    service_free(before);
}

static void forget(struct service_cache *cache, struct cached_service *entry)
{
    HASH_DELETE(hh, cache->services, entry);
    cache->changes.seen++;
    count_change(cache, entry);
    cache->changed(cache->ctx, entry->service, NULL);
    service_free(entry->service);
    free(entry);
}

void service_cache_remove(struct service_cache *cache, const char *id)
{
    struct cached_service *entry;
    HASH_FIND_STR(cache->services, id, entry);
    if (entry)
        forget(cache, entry);
}

void service_cache_retain(struct service_cache *cache, const object_vec *keep)
{
    struct cached_service *entry, *next;
    vec_each (keep, object) {
        HASH_FIND_STR(cache->services, object->id, entry);
        if (entry)
            entry->kept = true;
    }
    HASH_ITER(hh, cache->services, entry, next)
    {
        if (!entry->kept)
            forget(cache, entry);
        else
            entry->kept = false;
    }
}

const struct service *service_cache_get(const struct service_cache *cache, const char *id)
{
    struct cached_service *entry;
    HASH_FIND_STR(cache->services, id, entry);
    return entry ? entry->service : NULL;
}

size_t service_cache_count(const struct service_cache *cache)
{
    return HASH_COUNT(cache->services);
}

struct cache_changes service_cache_changes(const struct service_cache *cache)
{
    return cache->changes;
}

void service_cache_applied(struct service_cache *cache)
{
    if (cache->changes.pending == 0)
        return;
    cache->changes.pending = 0;
    cache->round++;
}

void service_cache_free(struct service_cache *cache)
{
    struct cached_service *entry, *next;
    HASH_ITER(hh, cache->services, entry, next)
    {
        HASH_DELETE(hh, cache->services, entry);
        service_free(entry->service);
        free(entry);
    }
    free(cache);
}
