/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "kube-nftd/cache.h"

#include <stdlib.h>
#include <string.h>

struct service_cidr_cache {
    VEC(struct service_cidr *) all;
    range_vec covered[FAMILY_COUNT];
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

static void update_covered(struct service_cidr_cache *cache)
{
    for (int family = 0; family < FAMILY_COUNT; family++) {
        range_vec ranges = {0}, *covered = &cache->covered[family];
        vec_each (&cache->all, it)
            if ((*it)->has_cidr[family])
                vec_push(&ranges, cidr_range((enum family)family, &(*it)->cidr[family]));
        ranges_normalize((enum family)family, &ranges);
        if (ranges.n == covered->n &&
            (ranges.n == 0 || memcmp(ranges.v, covered->v, ranges.n * sizeof(*ranges.v)) == 0)) {
            vec_free(&ranges);
            continue;
        }
        vec_free(covered);
        *covered = ranges;
        cache->changed(cache->ctx, (enum family)family, covered);
    }
}

/* Takes the ServiceCIDR @id out. NULL if there is none. */
static struct service_cidr *take(struct service_cidr_cache *cache, const char *id)
{
    vec_each (&cache->all, it) {
        struct service_cidr *found = *it;
        if (strcmp(found->id, id) != 0)
            continue;
        *it = cache->all.v[--cache->all.n];
        return found;
    }
    return NULL;
}

void service_cidr_cache_put(struct service_cidr_cache *cache, struct service_cidr *service_cidr)
{
    service_cidr_free(take(cache, service_cidr->id));
    vec_push(&cache->all, service_cidr);
    update_covered(cache);
}

void service_cidr_cache_remove(struct service_cidr_cache *cache, const char *id)
{
    service_cidr_free(take(cache, id));
    update_covered(cache);
}

static bool is_among(const object_vec *objects, const char *id)
{
    vec_each (objects, object)
        if (strcmp(object->id, id) == 0)
            return true;
    return false;
}

void service_cidr_cache_retain(struct service_cidr_cache *cache, const object_vec *keep)
{
    size_t n = 0;
    vec_each (&cache->all, it) {
        if (is_among(keep, (*it)->id))
            cache->all.v[n++] = *it;
        else
            service_cidr_free(*it);
    }
    cache->all.n = n;
    update_covered(cache);
}

bool service_cidr_cache_contains(const struct service_cidr_cache *cache, enum family family,
                                 const struct address *address)
{
    return ranges_contain(&cache->covered[family], address);
}

void service_cidr_cache_free(struct service_cidr_cache *cache)
{
    vec_each (&cache->all, it)
        service_cidr_free(*it);
    vec_free(&cache->all);
    for (int family = 0; family < FAMILY_COUNT; family++)
        vec_free(&cache->covered[family]);
    free(cache);
}
