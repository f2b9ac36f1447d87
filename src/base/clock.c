/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "kube-nftd/base/clock.h"

#include <math.h>
#include <stdio.h>
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

double clock_realtime(void)
{
    return read_clock(CLOCK_REALTIME);
}

void clock_rfc3339(double realtime, char out[CLOCK_RFC3339_SIZE])
{
    time_t seconds = (time_t)floor(realtime);
    unsigned milliseconds = (unsigned)((realtime - (double)seconds) * 1000) % 1000;
    struct tm tm;
    gmtime_r(&seconds, &tm);
    size_t n = strftime(out, CLOCK_RFC3339_SIZE, "%Y-%m-%dT%H:%M:%S", &tm);
    snprintf(out + n, CLOCK_RFC3339_SIZE - n, ".%03uZ", milliseconds);
}
