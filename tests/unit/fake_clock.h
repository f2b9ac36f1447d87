/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Time that the test makes, for modules with one timer: clock_monotonic() and the two functions of
 * libev that start and stop it are defined here.
 */
#ifndef KUBE_NFTD_TESTS_FAKE_CLOCK_H
#define KUBE_NFTD_TESTS_FAKE_CLOCK_H

#include <check.h>
#include <ev.h>

static double now = 1000;      /* moved by the tests that care */
static struct ev_timer *timer; /* the one that runs */

/* In place of clock_monotonic(), by the linker (tests/CMakeLists.txt). */
double __wrap_clock_monotonic(void);
double __wrap_clock_monotonic(void)
{
    return now;
}

void ev_timer_start(struct ev_loop *loop, struct ev_timer *w)
{
    ck_assert_ptr_null(timer);
    timer = w;
}

void ev_timer_stop(struct ev_loop *loop, struct ev_timer *w)
{
    if (timer == w)
        timer = NULL;
}

#endif
