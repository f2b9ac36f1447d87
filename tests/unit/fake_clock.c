/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "fake_clock.h"

#include "kube-nftd/base.h"

#include <time.h>

double now = 1000, clock_step;

double clock_monotonic(void)
{
    static double spent;
    return now + (spent += clock_step);
}

double clock_realtime(void)
{
    return clock_monotonic();
}

/* These two are the real ones: what work costs, and what makes names unique. */

double clock_cpu(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

uint64_t clock_nanoseconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}
