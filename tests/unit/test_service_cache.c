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

TEST(comes_changes_goes)
{
    service_cache_put(cache, make_service("a/web", "10.96.0.1", "http/TCP:80"));
    expect_told("+a/web:1 ");
    service_cache_put(cache, make_service("b/web", "10.96.0.2", "http/TCP:80 dns/UDP:53"));
    expect_told("+b/web:2 ");
    ck_assert_uint_eq(service_cache_count(cache), 2);
    service_cache_put(cache, make_service("a/web", "10.96.0.1", ""));
    expect_told("a/web:1>a/web:0 ");
    ck_assert_uint_eq(service_cache_count(cache), 2);
    service_cache_remove(cache, "a/web");
    expect_told("-a/web:0 ");
    ck_assert_uint_eq(service_cache_count(cache), 1);
    ck_assert_ptr_null(service_cache_get(cache, "a/web"));
    ck_assert_str_eq(service_cache_get(cache, "b/web")->id, "b/web");
    service_cache_put(cache, make_service("a/web", "10.96.0.1", ""));
    expect_told("+a/web:0 ");
}

TEST(replay_says_nothing)
{
    for (int i = 0; i < 3; i++)
        service_cache_put(cache, make_service("a/web", "10.96.0.1 fd00::1", "http/TCP:80"));
    expect_told("+a/web:1 ");
    ck_assert_uint_eq(service_cache_count(cache), 1);
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

static void retain(const char *ids)
{
    object_vec keep = make_ids(KIND_SERVICE, ids);
    service_cache_retain(cache, &keep);
    object_vec_clear(&keep);
}

TEST(retain_forgets_the_others)
{
    service_cache_put(cache, make_service("a/one", "10.96.0.1", ""));
    service_cache_put(cache, make_service("a/two", "10.96.0.2", ""));
    service_cache_put(cache, make_service("a/three", "10.96.0.3", ""));
    told[0] = '\0';
    retain("a/one a/three a/two a/unknown a/one");
    expect_told("");
    retain("a/one a/three");
    expect_told("-a/two:0 ");
    /* What was kept once is not kept for ever. */
    retain("a/three");
    expect_told("-a/one:0 ");
    ck_assert_uint_eq(service_cache_count(cache), 1);
    ck_assert_ptr_nonnull(service_cache_get(cache, "a/three"));
    retain("");
    expect_told("-a/three:0 ");
    ck_assert_uint_eq(service_cache_count(cache), 0);
    retain("a/one");
    expect_told("");
}

/* The end of the cache is no news of its Services. */
TEST(free_says_nothing)
{
    struct service_cache *kept = cache;
    service_cache_put(cache, make_service("a/one", "10.96.0.1", "http/TCP:80"));
    service_cache_put(cache, make_service("a/two", "10.96.0.2", ""));
    told[0] = '\0';
    service_cache_free(kept);
    expect_told("");
    cache = service_cache_new(on_changed, told);
}

/* ---------------------------------------------------------- figures */

static void expect_changes(uint64_t seen, size_t pending)
{
    struct cache_changes changes = service_cache_changes(cache);
    ck_assert_uint_eq(changes.seen, seen);
    ck_assert_uint_eq(changes.pending, pending);
}

TEST(changes_are_counted)
{
    expect_changes(0, 0);
    service_cache_put(cache, make_service("a/web", "10.96.0.1", "http/TCP:80"));
    service_cache_put(cache, make_service("b/web", "10.96.0.2", "http/TCP:80"));
    expect_changes(2, 2);
    service_cache_put(cache, make_service("a/web", "10.96.0.1", "http/TCP:80")); /* the same */
    expect_changes(3, 2);
    service_cache_put(cache, make_service("a/web", "10.96.0.1", "http/TCP:81"));
    expect_changes(4, 2); /* one Service, however often it changes */
    service_cache_turn_over(cache, (const bool[FAMILY_COUNT]){true, true});
    expect_changes(4, 0);
    service_cache_turn_over(cache, (const bool[FAMILY_COUNT]){true, true});
    service_cache_put(cache, make_service("a/web", "10.96.0.1", "http/TCP:81"));
    expect_changes(5, 0);
    service_cache_remove(cache, "a/web");
    expect_changes(6, 1);
    service_cache_remove(cache, "a/web"); /* unknown by now */
    expect_changes(6, 1);
    const object_vec none = {0};
    service_cache_retain(cache, &none);
    expect_changes(7, 2);
    service_cache_turn_over(cache, (const bool[FAMILY_COUNT]){true, true});
    expect_changes(7, 0);
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
