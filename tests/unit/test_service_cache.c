/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "kube-nftd/cache/service_cache.h"

#include "kube-nftd/base/log.h"
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

START_TEST(comes_changes_goes)
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
END_TEST

START_TEST(unknown_ids)
{
    service_cache_remove(cache, "a/web");
    ck_assert_ptr_null(service_cache_get(cache, "a/web"));
    ck_assert_uint_eq(service_cache_count(cache), 0);
    service_cache_put(cache, make_service("a/web", "10.96.0.1", "http/TCP:80"));
    expect_told("+a/web:1 ");
    service_cache_remove(cache, "a/we");
    service_cache_remove(cache, "a/web2");
    service_cache_remove(cache, "");
    expect_told("");
    ck_assert_uint_eq(service_cache_count(cache), 1);
}
END_TEST

START_TEST(replay_says_nothing)
{
    for (int i = 0; i < 3; i++)
        service_cache_put(cache, make_service("a/web", "10.96.0.1 fd00::1", "http/TCP:80"));
    expect_told("+a/web:1 ");
    ck_assert_uint_eq(service_cache_count(cache), 1);
}
END_TEST

/* A Service, and one in which a field is another. */
#define FIELDS 17

static struct service *with_other(int field)
{
    struct service *service = make_service("a/web", "10.96.0.1", "http/TCP:80");
    service->created = field == 0 ? 2 : 1;
    service->skipped = field == 1;
    service->health_check_node_port = field == 2 ? 31000 : 0;
    service->cluster_ip[FAMILY_IPV4].bytes[3] = field == 3 ? 2 : 1;
    service->has_cluster_ip[FAMILY_IPV6] = field == 4;
    service->ports.v[0].port = field == 5 ? 81 : 80;
    service->ports.v[0].node_port = field == 6 ? 30080 : 0;
    service->external_local = field == 7;
    service->internal_local = field == 8;
    service->affinity_timeout = field == 9 ? 10800 : 0;
    add_external_ips(service, field == 10 ? "192.0.2.2" : "192.0.2.1");
    add_external_ips(service, field == 11 ? "fd00::1" : "");
    add_load_balancer_ips(service, field == 12 ? "192.0.2.2" : "192.0.2.1");
    add_load_balancer_ips(service, field == 13 ? "fd00::1" : "");
    add_source_ranges(service, field == 14 ? "192.0.2.0/24" : "192.0.2.0/25");
    add_source_ranges(service, field == 15 ? "fd00::/8" : "");
    service->ports.v[0].protocol = field == 16 ? 17 : 6;
    return service;
}

/* Every field that is kept: a change of it is told, and the new version is the one in the cache. */
START_TEST(each_field_counts)
{
    service_cache_put(cache, with_other(-1));
    expect_told("+a/web:1 ");
    for (int field = 0; field < FIELDS; field++) {
        struct service *service = with_other(field);
        service_cache_put(cache, service);
        expect_told("a/web:1>a/web:1 ");
        ck_assert_ptr_eq(service_cache_get(cache, "a/web"), service);
        service_cache_put(cache, with_other(-1));
        expect_told("a/web:1>a/web:1 ");
    }
}
END_TEST

/* ---- warnings ---- */

static char *logged;

static void on_log(void *ctx, enum log_level level, const char *line)
{
    ck_assert_ptr_null(ctx);
    ck_assert_int_eq(level, LOG_LEVEL_WARN);
    ck_assert_ptr_null(logged);
    logged = xstrdup(strstr(line, "services: "));
}

/* Puts a Service with @warnings and expects the rest of the line, or NULL for none. */
static void expect_warning(const char *ports, const char *warnings, const char *expected)
{
    struct service *service = make_service("a/web", "10.96.0.1", ports);
    service->warnings = xstrdup(warnings);
    service_cache_put(cache, service);
    if (!expected) {
        ck_assert_msg(!logged, "%s", logged);
        return;
    }
    ck_assert_ptr_nonnull(logged);
    expect_text(logged, expected);
    logged = NULL;
}

/* They are said with the first version that has them, whatever else changes; but they are no
 * change. */
START_TEST(warnings_are_said_once)
{
    log_set_sink(on_log, NULL);
    expect_warning("", "x: bad", "services: ignored fields: Service a/web: x: bad");
    expect_told("+a/web:0 ");
    expect_warning("", "x: bad", NULL);
    expect_warning("", "y: bad", "services: ignored fields: Service a/web: y: bad");
    expect_warning("", "y: bad", NULL);
    expect_warning("", NULL, NULL);
    expect_warning("", "y: bad", "services: ignored fields: Service a/web: y: bad");
    expect_told("");
    expect_warning("http/TCP:80", "y: bad", NULL);
    expect_told("a/web:0>a/web:1 ");
    expect_warning("http/TCP:81", NULL, NULL);
    expect_warning("http/TCP:80", "y: bad", "services: ignored fields: Service a/web: y: bad");
    log_set_sink(NULL, NULL);
}
END_TEST

static void retain(const char *ids)
{
    object_vec keep = make_ids(KIND_SERVICE, ids);
    service_cache_retain(cache, &keep);
    object_vec_clear(&keep);
}

START_TEST(retain_forgets_the_others)
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
END_TEST

/* The end of the cache is no news of its Services. */
START_TEST(free_says_nothing)
{
    struct service_cache *kept = cache;
    service_cache_put(cache, make_service("a/one", "10.96.0.1", "http/TCP:80"));
    service_cache_put(cache, make_service("a/two", "10.96.0.2", ""));
    told[0] = '\0';
    service_cache_free(kept);
    expect_told("");
    cache = service_cache_new(on_changed, told);
}
END_TEST

START_TEST(many)
{
    char id[32];
    for (int i = 0; i < 1000; i++) {
        snprintf(id, sizeof(id), "ns-%d/web-%d", i % 7, i);
        told[0] = '\0';
        service_cache_put(cache, make_service(id, "10.96.0.1", ""));
    }
    ck_assert_uint_eq(service_cache_count(cache), 1000);
    for (int i = 0; i < 1000; i++) {
        snprintf(id, sizeof(id), "ns-%d/web-%d", i % 7, i);
        told[0] = '\0';
        ck_assert_str_eq(service_cache_get(cache, id)->id, id);
        service_cache_remove(cache, id);
        ck_assert_uint_eq(service_cache_count(cache), (size_t)(999 - i));
    }
}
END_TEST

/* ---------------------------------------------------------- figures */

static void expect_changes(uint64_t seen, size_t pending)
{
    struct cache_changes changes = service_cache_changes(cache);
    ck_assert_uint_eq(changes.seen, seen);
    ck_assert_uint_eq(changes.pending, pending);
}

START_TEST(changes_are_counted)
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
END_TEST

/* What is changed and removed before it is in force is one Service. */
START_TEST(a_service_that_goes_is_counted_once)
{
    service_cache_put(cache, make_service("a/web", "10.96.0.1", "http/TCP:80"));
    service_cache_turn_over(cache, (const bool[FAMILY_COUNT]){true, true});
    service_cache_put(cache, make_service("a/web", "10.96.0.1", "http/TCP:81"));
    service_cache_remove(cache, "a/web");
    expect_changes(3, 1);
}
END_TEST

static void add_tests(TCase *tcase)
{
    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_add_test(tcase, comes_changes_goes);
    tcase_add_test(tcase, unknown_ids);
    tcase_add_test(tcase, replay_says_nothing);
    tcase_add_test(tcase, each_field_counts);
    tcase_add_test(tcase, warnings_are_said_once);
    tcase_add_test(tcase, retain_forgets_the_others);
    tcase_add_test(tcase, free_says_nothing);
    tcase_add_test(tcase, many);
    tcase_add_test(tcase, changes_are_counted);
    tcase_add_test(tcase, a_service_that_goes_is_counted_once);
}

UNIT_MAIN("service_cache", add_tests)
