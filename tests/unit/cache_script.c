/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "cache_script.h"

struct caches caches;

void put_object(enum object_kind kind, void *payload)
{
    struct object object = {.kind = kind, .payload = payload, .trigger_time = 1};
    caches.sink.put(caches.sink.ctx, &object);
}

void remove_object(enum object_kind kind, const char *id)
{
    caches.sink.remove(caches.sink.ctx, kind, id);
}

/* The text below is its warnings. */
COMMAND(service)
{
    struct service *service = script_service(words);
    const char *warnings = script_text();
    if (*warnings)
        service->warnings = xstrndup(warnings, strlen(warnings) - 1);
    put_object(KIND_SERVICE, service);
}

COMMAND(no_service)
{
    remove_object(KIND_SERVICE, words);
}

static bool triggered; /* by the last slice */

static void on_triggered(void *ctx, const struct endpoint_slice *slice, double time)
{
    ck_assert_ptr_eq(ctx, &caches);
    ck_assert(slice && time > 0);
    triggered = true;
}

const struct caches_ops cache_ops = {.triggered = on_triggered, .ctx = &caches};

static void put_slice(struct endpoint_slice *slice, FILE *out)
{
    triggered = false;
    put_object(KIND_ENDPOINTSLICE, slice);
    if (!triggered)
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
    remove_object(KIND_ENDPOINTSLICE, words);
}

/* All there are. */
COMMAND(list_slices)
{
    object_vec listed = {0};
    char *many = script_many(words), *rest = many;
    for (char *word; *(word = script_word(&rest));)
        vec_push(&listed, (struct object){.kind = KIND_ENDPOINTSLICE, .id = xstrdup(word)});
    caches.sink.replace(caches.sink.ctx, KIND_ENDPOINTSLICE, &listed);
    ck_assert(listed.n == 0 && !listed.v);
    free(many);
}

static void put_undecoded(enum object_kind kind, char *words, bool owned)
{
    struct object object = {.kind = kind, .id = xstrdup(script_word(&words))};
    object.owner = owned ? xstrdup(script_word(&words)) : NULL;
    object_version_set(&object.version, words);
    caches.sink.put(caches.sink.ctx, &object);
}

/* "ID VERSION": one that cannot be decoded. */
COMMAND(bad_service)
{
    put_undecoded(KIND_SERVICE, words, false);
}

/* "ID OWNER VERSION" */
COMMAND(bad_slice)
{
    put_undecoded(KIND_ENDPOINTSLICE, words, true);
}

/* All changes are applied in these families. */
COMMAND(applied)
{
    const bool applied[FAMILY_COUNT] = {strstr(words, "IPv4"), strstr(words, "IPv6")};
    caches_applied(&caches, applied);
}
