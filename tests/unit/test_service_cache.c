/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "kube-nftd/cache/service_cache.h"

#include "objects.h"
#include "unit.h"

#include <string.h>

/* The cache under test, and what it has told: "+id", "-id" or "id before>after ". */
static struct service_cache *cache;
static char told[1024];

/* Reads both versions, so that the sanitizers see one that is freed already. */
static void on_changed(void *ctx, const struct service *before, const struct service *after)
{
    ck_assert_ptr_eq(ctx, told);
    ck_assert(before || after);
    char *end = told + strlen(told);
    size_t room = sizeof(told) - (size_t)(end - told);
    if (!before)
        snprintf(end, room, "+%s:%zu ", after->id, after->ports.n);
    else if (!after)
        snprintf(end, room, "-%s:%zu ", before->id, before->ports.n);
    else
        snprintf(end, room, "%s:%zu>%s:%zu ", before->id, before->ports.n, after->id,
                 after->ports.n);
    /* The cache holds the new state already. */
    const struct service *now = service_cache_get(cache, (after ? after : before)->id);
    ck_assert_ptr_eq(now, after);
}

static void expect_told(const char *expected)
{
    ck_assert_str_eq(told, expected);
    told[0] = '\0';
}

static void set_up(void)
{
    told[0] = '\0';
    cache = service_cache_new(on_changed, told);
}

static void tear_down(void)
{
    service_cache_free(cache);
}

/* ---- warnings ---- */

/* They are said with the first version that has them, whatever else changes; but they are no
 * change. */
TEST(warnings_are_said_once)
{
    static const struct {
        const char *ports, *warnings, *logged, *told;
    } versions[] = {
        {"", "x: bad", "x: bad", "+a/web:0 "},
        {"", "x: bad", NULL, ""},
        {"", "y: bad", "y: bad", ""},
        {"", "y: bad", NULL, ""},
        {"", NULL, NULL, ""},
        {"", "y: bad", "y: bad", ""},
        {"http/TCP:80", "y: bad", NULL, "a/web:0>a/web:1 "},
        {"http/TCP:81", NULL, NULL, "a/web:1>a/web:1 "},
        {"http/TCP:80", "y: bad", "y: bad", "a/web:1>a/web:1 "},
    };
    for (int i = 0; i < COUNT(versions); i++) {
        struct service *service = make_service("a/web", "10.96.0.1", versions[i].ports);
        service->warnings = xstrdup(versions[i].warnings);
        service_cache_put(cache, service);
        expect_told(versions[i].told);
        ck_assert_int_eq(logged(LOG_LEVEL_WARN), versions[i].logged != NULL);
        if (versions[i].logged)
            ck_assert_str_eq(strstr(last_logged(LOG_LEVEL_WARN), ": x: bad") ? "x: bad" : "y: bad",
                             versions[i].logged);
        forget_logged();
    }
}

/* ---------------------------------------------------------- figures */

static void expect_changes(uint64_t seen, size_t pending)
{
    struct cache_changes changes = service_cache_changes(cache);
    ck_assert_uint_eq(changes.seen, seen);
    ck_assert_uint_eq(changes.pending, pending);
}

/* What is changed and removed before it is in force is one Service. */
TEST(a_service_that_goes_is_counted_once)
{
    service_cache_put(cache, make_service("a/web", "10.96.0.1", "http/TCP:80"));
    service_cache_turn_over(cache, (const bool[FAMILY_COUNT]){true, true});
    service_cache_put(cache, make_service("a/web", "10.96.0.1", "http/TCP:81"));
    service_cache_remove(cache, "a/web");
    expect_changes(3, 1);
}

UNIT_FIXTURE(set_up, tear_down)
