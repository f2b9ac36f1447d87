/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Commands that change caches of Services and EndpointSlices. */
#ifndef KUBE_NFTD_TESTS_CACHE_SCRIPT_H
#define KUBE_NFTD_TESTS_CACHE_SCRIPT_H

#include "script_objects.h"

static struct service_cache *services;
static struct endpoint_slice_cache *slices;

/* The text below is its warnings. */
COMMAND(service)
{
    struct service *service = script_service(words);
    const char *warnings = script_text();
    if (*warnings)
        service->warnings = xstrndup(warnings, strlen(warnings) - 1);
    service_cache_put(services, service);
}

COMMAND(no_service)
{
    service_cache_remove(services, words);
}

static inline void put_slice(struct endpoint_slice *slice, FILE *out)
{
    if (!endpoint_slice_cache_put(slices, slice))
        fputs("nothing new\n", out);
}

COMMAND(slice)
{
    put_slice(script_slice(words), out);
}

/* One of a family that nobody knows. */
COMMAND(fqdn)
{
    struct endpoint_slice *slice = script_slice(words);
    slice->has_family = false;
    put_slice(slice, out);
}

COMMAND(no_slice)
{
    endpoint_slice_cache_remove(slices, words);
}

COMMAND(keep_slices)
{
    object_vec keep = {0};
    each_word(words, id) vec_push(&keep, (struct object){.id = xstrdup(id)});
    endpoint_slice_cache_retain(slices, &keep);
    object_vec_clear(&keep);
    ck_assert(keep.n == 0 && !keep.v);
}

/* "ID VERSION": one that could not be read. */
COMMAND(bad_service)
{
    struct object object = {.kind = KIND_SERVICE, .id = xstrdup(script_word(&words))};
    object_version_set(&object.version, words);
    service_cache_reject(services, &object);
    object_clear(&object);
}

/* "ID OWNER VERSION" */
COMMAND(bad_slice)
{
    struct object object = {.kind = KIND_ENDPOINTSLICE, .id = xstrdup(script_word(&words))};
    object.owner = xstrdup(script_word(&words));
    object_version_set(&object.version, words);
    endpoint_slice_cache_reject(slices, &object);
    object_clear(&object);
}

/* All changes are applied in these families. */
COMMAND(applied)
{
    const bool applied[FAMILY_COUNT] = {strstr(words, "IPv4"), strstr(words, "IPv6")};
    service_cache_applied(services, applied);
    endpoint_slice_cache_applied(slices, applied);
}

#endif
