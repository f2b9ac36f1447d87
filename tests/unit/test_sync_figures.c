/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "kube-nftd/ruleset/sync_figures.h"

#include "kube-nftd/base/intern.h"
#include "unit.h"

#include <math.h>

#define START 1795280617.0

static struct sync_figures figures;
static const char *web, *big; /* Services, interned */

static void set_up(void)
{
    web = intern("shop/web");
    big = intern("shop/big");
    sync_figures_init(&figures, START);
}

static void tear_down(void)
{
    sync_figures_clear(&figures);
    intern_release(web);
    intern_release(big);
}

TEST(nothing_yet)
{
    ck_assert(figures.last_queued == START);
    ck_assert(figures.last_success == 0);
    ck_assert_uint_eq(histogram_count(&figures.all) + histogram_count(&figures.full) +
                          histogram_count(&figures.partial) + histogram_count(&figures.programming),
                      0);
    ck_assert_ptr_eq(figures.all.buckets, &histogram_exponential);
    ck_assert_ptr_eq(figures.full.buckets, &histogram_exponential);
    ck_assert_ptr_eq(figures.partial.buckets, &histogram_exponential);
    ck_assert_ptr_eq(figures.programming.buckets, &histogram_programming);
}

TEST(what_syncs_sent)
{
    const struct ruleset_stats first = {5, 2, 1000, 0.25}, nothing = {0}, second = {1, 3, 64, 0.5};
    sync_figures_count(&figures, true, 3, &first);
    sync_figures_count(&figures, false, 1, NULL);
    sync_figures_count(&figures, true, 2, &nothing);
    ck_assert_uint_eq(figures.transactions, 1);
    ck_assert_uint_eq(figures.last_bytes, 1000);
    sync_figures_count(&figures, false, 1, &second);
    ck_assert_uint_eq(figures.failures, 1);
    ck_assert_uint_eq(figures.transactions, 2);
    ck_assert_uint_eq(figures.elements_added, 6);
    ck_assert_uint_eq(figures.elements_deleted, 5);
    ck_assert_uint_eq(figures.bytes, 1064);
    ck_assert(figures.seconds == 0.75);
    ck_assert_uint_eq(figures.last_bytes, 64);
    ck_assert(figures.last_seconds == 0.5);
    ck_assert_uint_eq(histogram_count(&figures.all), 4);
    ck_assert_uint_eq(histogram_count(&figures.full), 2);
    ck_assert_uint_eq(histogram_count(&figures.partial), 2);
    ck_assert(figures.all.sum == 7 && figures.full.sum == 5 && figures.partial.sum == 2);
}

TEST(triggers)
{
    sync_figures_triggered(&figures, web, 0);
    sync_figures_triggered(&figures, web, START - 1);
    sync_figures_triggered(&figures, web, START);
    sync_figures_triggered(&figures, web, START + 1);
    sync_figures_triggered(&figures, web, START + 2.5);
    sync_figures_triggered(&figures, web, START + 100);
    ck_assert_uint_eq(histogram_count(&figures.programming), 0);
    sync_figures_succeeded(&figures, START + 3);
    ck_assert(figures.last_success == START + 3);
    sync_figures_in_force(&figures, START + 3, NULL, NULL, FAMILY_IPV4);
    ck_assert_uint_eq(histogram_count(&figures.programming), 3);
    ck_assert(figures.programming.sum == 2.5);
    sync_figures_in_force(&figures, START + 4, NULL, NULL, FAMILY_IPV4); /* each counts once */
    ck_assert_uint_eq(histogram_count(&figures.programming), 3);
    sync_figures_triggered(&figures, web, START + 4);
    sync_figures_in_force(&figures, START + 5, NULL, NULL, FAMILY_IPV4);
    ck_assert_uint_eq(histogram_count(&figures.programming), 4);
    ck_assert(figures.programming.sum == 3.5);
}

static unsigned asked;

static bool big_waits(const void *ctx, const char *service_id, enum family family)
{
    ck_assert_ptr_eq(ctx, &figures);
    ck_assert_int_eq(family, FAMILY_IPV6);
    ck_assert_ptr_nonnull(service_id);
    asked++;
    return service_id == big;
}

/* Those of others are sampled, and each Service is asked for once. */
TEST(triggers_of_a_service_that_waits)
{
    for (int i = 0; i < 3; i++) {
        sync_figures_triggered(&figures, big, START + 1);
        sync_figures_triggered(&figures, web, START + 1);
    }
    sync_figures_triggered(&figures, NULL, START + 1); /* it lost its Service */
    sync_figures_in_force(&figures, START + 2, big_waits, &figures, FAMILY_IPV6);
    ck_assert_uint_eq(asked, 2);
    ck_assert_uint_eq(histogram_count(&figures.programming), 4);
    ck_assert(figures.programming.sum == 4);
    sync_figures_in_force(&figures, START + 3, NULL, NULL, FAMILY_IPV6);
    ck_assert_uint_eq(histogram_count(&figures.programming), 7);
    ck_assert(figures.programming.sum == 10);
}

/* While no sync succeeds, memory does not grow for ever. */
TEST(waiting_triggers_are_bounded)
{
    for (int i = 0; i < SYNC_TRIGGERS_MOST + 1000; i++)
        sync_figures_triggered(&figures, web, START + 1);
    ck_assert_uint_eq(figures.triggers.n, SYNC_TRIGGERS_MOST);
    sync_figures_in_force(&figures, START + 2, NULL, NULL, FAMILY_IPV4);
    ck_assert_uint_eq(histogram_count(&figures.programming), SYNC_TRIGGERS_MOST);
    sync_figures_triggered(&figures, web, START + 3);
    ck_assert_uint_eq(figures.triggers.n, 1);
}

TEST(requests)
{
    sync_figures_queued(&figures, START + 7);
    ck_assert(figures.last_queued == START + 7);
}

UNIT_FIXTURE(set_up, tear_down)
