/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Services, and the ServiceCIDRs that their cluster IPs are from. */
#include "versions.h"

#include <stdlib.h>
#include <string.h>

struct cached_service {
    struct hash_link link; /* by service->id */
    struct service *service;
    generation changed : 63; /* when it changed last */
    uint64_t kept : 1;       /* scratch of service_cache_retain() */
};

struct service_cache {
    struct hash_table services;
    service_changed_fn changed;
    void *ctx;
    uint64_t seen;
    struct versions versions;
};

struct service_cache *service_cache_new(void)
{
    return xcalloc(1, sizeof(struct service_cache));
}

void service_cache_follow(struct service_cache *cache, service_changed_fn changed, void *ctx)
{
    cache->changed = changed;
    cache->ctx = ctx;
}

static struct hash_key key_of(const struct hash_link *link)
{
    return hash_key_of_text(((const struct cached_service *)link)->service->id);
}

static struct cached_service *find(const struct service_cache *cache, const char *id)
{
    return hash_table_find(&cache->services, key_of, hash_key_of_text(id));
}

static struct known_object known_of(const struct cached_service *entry)
{
    const struct service *service = entry->service;
    struct known_object known = {&service->version, entry->changed, {false, false}};
    for (int family = 0; family < FAMILY_COUNT; family++)
        known.concerns[family] = !service->skipped && service->has_cluster_ip[family];
    return known;
}

/* Logs what is ignored of @service, unless it was logged for @before. */
static void warn(const struct service *before, const struct service *service)
{
    const char *logged = before && before->warnings ? before->warnings : "";
    if (service->warnings && strcmp(service->warnings, logged) != 0)
        log_warn("services", "ignored fields: Service %s: %s", service->id, service->warnings);
}

/* Takes what two equal Services may differ in. */
static void take_rest(struct service *known, struct service *service)
{
    char *warnings = known->warnings;
    known->uid = service->uid;
    known->type = service->type;
    known->warnings = service->warnings;
    service->warnings = warnings;
    object_version_move(&known->version, &service->version);
}

void service_cache_put(struct service_cache *cache, struct service *service)
{
    struct cached_service *entry = find(cache, service->id);
    struct service *before = entry ? entry->service : NULL;
    struct known_object known = {0};
    cache->seen++;
    versions_accept(&cache->versions, service->id);
    warn(before, service);
    if (entry && service_equal(before, service)) {
        take_rest(before, service);
        service_free(service);
        return;
    }
    if (entry) {
        known = known_of(entry);
        hash_table_remove(&cache->services, &entry->link); /* its key goes with the old version */
    } else {
        entry = xcalloc(1, sizeof(*entry));
    }
    entry->changed = versions_change(&cache->versions, service->id, NULL, before ? &known : NULL);
    entry->service = service;
    hash_table_add(&cache->services, key_of, &entry->link);
    cache->changed(cache->ctx, before, service);
    service_free(before);
}

static void forget(struct service_cache *cache, struct cached_service *entry)
{
    const struct known_object known = known_of(entry);
    hash_table_remove(&cache->services, &entry->link);
    cache->seen++;
    versions_change(&cache->versions, entry->service->id, NULL, &known);
    cache->changed(cache->ctx, entry->service, NULL);
    service_free(entry->service);
    free(entry);
}

void service_cache_remove(struct service_cache *cache, const char *id)
{
    struct cached_service *entry = find(cache, id);
    versions_accept(&cache->versions, id);
    if (entry)
        forget(cache, entry);
}

void service_cache_retain(struct service_cache *cache, const object_vec *keep)
{
    versions_accept_all(&cache->versions);
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

struct service_counts service_cache_counts(const struct service_cache *cache)
{
    return (struct service_counts){cache->services.n, cache->seen, cache->versions.n_pending};
}

void service_cache_reject(struct service_cache *cache, const struct object *object)
{
    versions_reject(&cache->versions, object->id, NULL, &object->version);
}

void service_cache_applied(struct service_cache *cache, const bool applied[FAMILY_COUNT])
{
    versions_apply(&cache->versions, applied);
}

bool service_cache_versions(const struct service_cache *cache, const char *id,
                            struct object_versions *out)
{
    const struct cached_service *entry = find(cache, id);
    struct known_object known = {0};
    if (entry)
        known = known_of(entry);
    return versions_of(&cache->versions, entry ? entry->service->id : id, entry ? &known : NULL,
                       out);
}

void service_cache_free(struct service_cache *cache)
{
    hash_table_each (&cache->services, struct cached_service, entry) {
        hash_table_remove(&cache->services, &entry->link);
        service_free(entry->service);
        free(entry);
    }
    versions_clear(&cache->versions);
    free(cache);
}

/* ---- ServiceCIDRs ---- */

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
