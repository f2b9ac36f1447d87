/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The clocks. Alone in this file, so that tests can put their own in its place. */
#include "kube-nftd/base.h"

#include <time.h>

static double read_clock(clockid_t id)
{
    struct timespec t;
    clock_gettime(id, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

double clock_monotonic(void)
{
    return read_clock(CLOCK_MONOTONIC);
}

double clock_cpu(void)
{
    return read_clock(CLOCK_THREAD_CPUTIME_ID);
}

double clock_realtime(void)
{
    return read_clock(CLOCK_REALTIME);
}

uint64_t clock_nanoseconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}
