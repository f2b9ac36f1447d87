/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "kube-nftd/cache/service_cidr_cache.h"

#include "objects.h"
#include "unit.h"

/* The cache under test, and what it has told: "IPv4 first-last ...; ". */
static struct service_cidr_cache *cache;
static FILE *told;
static char *text;
static size_t length;

static void on_changed(void *ctx, enum family family, const range_vec *ranges)
{
    ck_assert_ptr_eq(ctx, &told);
    fprintf(told, "%s ", family_name(family));
    write_ranges(told, family, ranges);
    fputs("; ", told);
}

static void expect_told(const char *expected)
{
    fclose(told);
    expect_text(text, expected);
    told = open_memstream(&text, &length);
}

static void set_up(void)
{
    told = open_memstream(&text, &length);
    cache = service_cidr_cache_new(on_changed, &told);
}

static void tear_down(void)
{
    service_cidr_cache_free(cache);
    fclose(told);
    free(text);
}

static void put(const char *id, const char *cidrs)
{
    service_cidr_cache_put(cache, make_service_cidr(id, cidrs));
}

START_TEST(comes_changes_goes)
{
    put("kubernetes", "10.96.0.0/16");
    expect_told("IPv4 10.96.0.0-10.96.255.255; ");
    /* A second family may be added. */
    put("kubernetes", "10.96.0.0/16 fd00::/112");
    expect_told("IPv6 fd00::-fd00::ffff; ");
    put("more", "10.98.0.0/16");
    expect_told("IPv4 10.96.0.0-10.96.255.255 10.98.0.0-10.98.255.255; ");
    put("more", "10.97.0.0/16");
    expect_told("IPv4 10.96.0.0-10.97.255.255; ");
    service_cidr_cache_remove(cache, "kubernetes");
    expect_told("IPv4 10.97.0.0-10.97.255.255; IPv6 ; ");
    service_cidr_cache_remove(cache, "more");
    expect_told("IPv4 ; ");
    put("kubernetes", "10.96.0.0/16");
    expect_told("IPv4 10.96.0.0-10.96.255.255; ");
}
END_TEST

START_TEST(nothing_new)
{
    service_cidr_cache_remove(cache, "kubernetes");
    expect_told("");
    put("kubernetes", "10.96.0.0/16 fd00::/112");
    expect_told("IPv4 10.96.0.0-10.96.255.255; IPv6 fd00::-fd00::ffff; ");
    put("kubernetes", "10.96.0.0/16 fd00::/112");
    service_cidr_cache_remove(cache, "kubernete");
    service_cidr_cache_remove(cache, "");
    expect_told("");
}
END_TEST

/* What several cover is covered until the last of them goes. */
START_TEST(overlaps)
{
    put("one", "10.96.0.0/12");
    put("two", "10.96.0.0/12");
    put("inside", "10.97.0.0/16");
    expect_told("IPv4 10.96.0.0-10.111.255.255; ");
    service_cidr_cache_remove(cache, "one");
    expect_told("");
    service_cidr_cache_remove(cache, "two");
    expect_told("IPv4 10.97.0.0-10.97.255.255; ");
}
END_TEST

/* The ids in @kept come without payload: they exist, but cannot be read. */
static void replace(const char *kept, const char *id, const char *cidrs)
{
    object_vec objects = make_ids(KIND_SERVICECIDR, kept);
    if (id) {
        struct object object = {.kind = KIND_SERVICECIDR, .id = xstrdup(id)};
        object.service_cidr = make_service_cidr(id, cidrs);
        vec_push(&objects, object);
    }
    service_cidr_cache_replace(cache, &objects);
    vec_each (&objects, object)
        ck_assert_ptr_null(object->payload);
    object_vec_clear(&objects);
}

START_TEST(replaced)
{
    replace("", NULL, NULL);
    expect_told("");
    replace("unknown", "one", "10.96.0.0/16");
    expect_told("IPv4 10.96.0.0-10.96.255.255; ");
    put("two", "10.97.0.0/16 fd00::/112");
    expect_told("IPv4 10.96.0.0-10.97.255.255; IPv6 fd00::-fd00::ffff; ");
    /* One is kept, one is new, one goes, and all that is told once. */
    replace("one", "three", "10.98.0.0/16 fd00::/112");
    expect_told("IPv4 10.96.0.0-10.96.255.255 10.98.0.0-10.98.255.255; ");
    replace("", "three", "10.99.0.0/16");
    expect_told("IPv4 10.99.0.0-10.99.255.255; IPv6 ; ");
    /* What was kept once is not kept for ever. */
    replace("three", NULL, NULL);
    expect_told("");
    replace("", NULL, NULL);
    expect_told("IPv4 ; ");
}
END_TEST

static void add_tests(TCase *tcase)
{
    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_add_test(tcase, comes_changes_goes);
    tcase_add_test(tcase, nothing_new);
    tcase_add_test(tcase, overlaps);
    tcase_add_test(tcase, replaced);
}

UNIT_MAIN("service_cidr_cache", add_tests)
