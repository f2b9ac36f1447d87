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

UNIT_FIXTURE(set_up, tear_down)
