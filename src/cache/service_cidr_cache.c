/* SPDX-License-Identifier: GPL-2.0-or-later */
/* There are a handful of ServiceCIDRs and they hardly ever change, so each change looks at all. */
#include "kube-nftd/cache/service_cidr_cache.h"

#include "kube-nftd/base/hash.h"

#include <string.h>

struct cached_cidr {
    UT_hash_handle hh; /* by service_cidr->id */
    struct service_cidr *service_cidr;
    bool kept; /* scratch of service_cidr_cache_replace() */
};

struct service_cidr_cache {
    struct cached_cidr *cidrs;
    range_vec told[FAMILY_COUNT];
    service_cidrs_changed_fn changed;
    void *ctx;
};

struct service_cidr_cache *service_cidr_cache_new(service_cidrs_changed_fn changed, void *ctx)
{
    struct service_cidr_cache *cache = xcalloc(1, sizeof(*cache));
    cache->changed = changed;
    cache->ctx = ctx;
    return cache;
}

/* ---- what is covered ---- */

static bool ranges_equal(const range_vec *a, const range_vec *b)
{
    return a->n == b->n && (a->n == 0 || memcmp(a->v, b->v, a->n * sizeof(*a->v)) == 0);
}

static void tell_family(struct service_cidr_cache *cache, enum family family)
{
    range_vec ranges = {0};
    for (struct cached_cidr *entry = cache->cidrs; entry; entry = entry->hh.next)
        if (entry->service_cidr->has_cidr[family])
            vec_push(&ranges, cidr_range(family, &entry->service_cidr->cidr[family]));
    ranges_normalize(family, &ranges);
    if (ranges_equal(&ranges, &cache->told[family])) {
        vec_free(&ranges);
        return;
    }
    vec_free(&cache->told[family]);
    cache->told[family] = ranges;
    cache->changed(cache->ctx, family, &cache->told[family]);
}

static void tell(struct service_cidr_cache *cache)
{
    for (int family = 0; family < FAMILY_COUNT; family++)
        tell_family(cache, (enum family)family);
}

bool service_cidr_cache_contains(const struct service_cidr_cache *cache, enum family family,
                                 const struct address *address)
{
    return ranges_contain(&cache->told[family], address);
}

/* ---- changes ---- */

static struct cached_cidr *find(const struct service_cidr_cache *cache, const char *id)
{
    struct cached_cidr *entry;
    HASH_FIND_STR(cache->cidrs, id, entry);
    return entry;
}

static void forget(struct service_cidr_cache *cache, struct cached_cidr *entry)
{
    HASH_DELETE(hh, cache->cidrs, entry);
    service_cidr_free(entry->service_cidr);
    free(entry);
}

static struct cached_cidr *keep(struct service_cidr_cache *cache, struct service_cidr *service_cidr)
{
    struct cached_cidr *entry = find(cache, service_cidr->id);
    if (entry)
        forget(cache, entry);
    entry = xcalloc(1, sizeof(*entry));
    entry->service_cidr = service_cidr;
    HASH_ADD_KEYPTR(hh, cache->cidrs, service_cidr->id, strlen(service_cidr->id), entry);
    return entry;
}

void service_cidr_cache_put(struct service_cidr_cache *cache, struct service_cidr *service_cidr)
{
    keep(cache, service_cidr);
    tell(cache);
}

void service_cidr_cache_remove(struct service_cidr_cache *cache, const char *id)
{
    struct cached_cidr *entry = find(cache, id);
    if (!entry)
        return;
    forget(cache, entry);
    tell(cache);
}

void service_cidr_cache_replace(struct service_cidr_cache *cache, object_vec *objects)
{
    struct cached_cidr *entry, *next;
    vec_each (objects, object) {
        entry = object->payload ? keep(cache, object->service_cidr) : find(cache, object->id);
        object->payload = NULL;
        if (entry)
            entry->kept = true;
    }
    HASH_ITER(hh, cache->cidrs, entry, next)
    {
        if (!entry->kept)
            forget(cache, entry);
        else
            entry->kept = false;
    }
    tell(cache);
}

void service_cidr_cache_free(struct service_cidr_cache *cache)
{
    if (!cache)
        return;
    struct cached_cidr *entry, *next;
    HASH_ITER(hh, cache->cidrs, entry, next)
    {
        HASH_DELETE(hh, cache->cidrs, entry);
        service_cidr_free(entry->service_cidr);
        free(entry);
    }
    for (int family = 0; family < FAMILY_COUNT; family++)
        vec_free(&cache->told[family]);
    free(cache);
}
