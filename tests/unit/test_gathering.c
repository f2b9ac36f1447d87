/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "source/gathering.h"

#include "unit.h"

#define SMALL 1200
#define LARGE 65536
/* Seconds between two events, as a real server wrote them. */
#define STREAM 0.00028

/* So many wake-ups, each so much later than the one before; returns how many ended with a wait. It
 * takes its time, and lets the @bytes of each moment add up. */
static unsigned run(struct gathering *g, double *now, unsigned wakes, double apart, size_t bytes)
{
    unsigned waits = 0;
    double wait = 0;
    for (unsigned i = 0; i < wakes; i++) {
        double passed = wait > apart ? wait : apart;
        *now += passed;
        g->bytes += (size_t)(passed / apart + 0.5) * bytes;
        wait = gathering_woken(g, *now);
        waits += wait > 0;
    }
    return waits;
}

TEST(what_comes_alone_is_not_waited_for)
{
    struct gathering g = {0};
    double now = 1000;
    ck_assert_uint_eq(run(&g, &now, 8, 0.0001, SMALL), 0);
    ck_assert_uint_eq(run(&g, &now, 100, 0.1, SMALL), 0);
    ck_assert_uint_eq(run(&g, &now, 1000, 0.001, SMALL), 0);
}

TEST(a_stream_of_small_events_is_gathered)
{
    struct gathering g = {0};
    double now = 1000;
    ck_assert_uint_eq(run(&g, &now, 8, STREAM, SMALL), 0);
    ck_assert_uint_eq(run(&g, &now, 500, STREAM, SMALL), 500);
}

TEST(nothing_waits_behind_the_end_of_a_stream)
{
    struct gathering g = {0};
    double now = 1000;
    run(&g, &now, 20, STREAM, SMALL);
    now += 0.01;
    g.bytes = SMALL;
    ck_assert_double_eq(gathering_woken(&g, now), 0);
    ck_assert_uint_eq(run(&g, &now, 8, 0.001, SMALL), 0);
}

/* The server must not stand still with its window full, and a small rest is no end. */
TEST(much_at_once_is_read_on_at_once)
{
    struct gathering g = {0};
    double now = 1000;
    run(&g, &now, 20, STREAM, SMALL);
    ck_assert_uint_eq(run(&g, &now, 100, 0.0001, LARGE), 0);
    ck_assert_uint_eq(run(&g, &now, 2, STREAM, SMALL), 2);
}

TEST(a_clock_may_go_back)
{
    struct gathering g = {0};
    double now = 1000;
    run(&g, &now, 8, 0.0001, SMALL);
    now = 900;
    ck_assert_uint_eq(run(&g, &now, 8, 0.0001, SMALL), 0);
}
