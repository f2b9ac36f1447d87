/* SPDX-License-Identifier: GPL-2.0-or-later */
/* There are a handful of ServiceCIDRs and they hardly ever change, so each change looks at all. */
#include "kube-nftd/cache.h"

#include "kube-nftd/base.h"

#include <stdlib.h>
#include <string.h>

struct cached_cidr {
    struct hash_link link; /* by service_cidr->id */
    struct service_cidr *service_cidr;
    bool kept; /* scratch of service_cidr_cache_replace() */
};

struct service_cidr_cache {
    struct hash_table cidrs;
    range_vec told[FAMILY_COUNT];
    service_cidrs_changed_fn changed;
    void *ctx;
};

static struct hash_key key_of(const struct hash_link *link)
{
    return hash_key_of_text(((const struct cached_cidr *)link)->service_cidr->id);
}

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
    hash_table_each (&cache->cidrs, struct cached_cidr, entry)
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
    return hash_table_find(&cache->cidrs, key_of, hash_key_of_text(id));
}

static void forget(struct service_cidr_cache *cache, struct cached_cidr *entry)
{
    hash_table_remove(&cache->cidrs, &entry->link);
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
    hash_table_add(&cache->cidrs, key_of, &entry->link);
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
    vec_each (objects, object) {
        struct cached_cidr *entry =
            object->payload ? keep(cache, object->service_cidr) : find(cache, object->id);
        object->payload = NULL;
        if (entry)
            entry->kept = true;
    }
    hash_table_each (&cache->cidrs, struct cached_cidr, entry) {
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
    hash_table_each (&cache->cidrs, struct cached_cidr, entry)
        forget(cache, entry);
    for (int family = 0; family < FAMILY_COUNT; family++)
        vec_free(&cache->told[family]);
    free(cache);
}
