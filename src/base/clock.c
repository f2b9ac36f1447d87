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

uint64_t clock_nanoseconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

/* Writes @realtime with @digits behind the dot, of which there are @unit in a second. */
static void format(double realtime, int digits, unsigned unit, char out[CLOCK_RFC3339_SIZE])
{
    time_t seconds = (time_t)floor(realtime);
    unsigned fraction = (unsigned)((realtime - (double)seconds) * unit) % unit;
    struct tm tm;
    gmtime_r(&seconds, &tm);
    size_t n = strftime(out, CLOCK_RFC3339_SIZE, "%Y-%m-%dT%H:%M:%S", &tm);
    snprintf(out + n, CLOCK_RFC3339_SIZE - n, ".%0*uZ", digits, fraction);
}

void clock_rfc3339(double realtime, char out[CLOCK_RFC3339_SIZE])
{
    format(realtime, 3, 1000, out);
}

void clock_micro_time(double realtime, char out[CLOCK_RFC3339_SIZE])
{
    format(realtime, 6, 1000000, out);
}

/* Reads ".digits", if there are any, and returns what follows; NULL for a dot without digits. */
static const char *read_fraction(const char *text, double *fraction)
{
    double unit = 0.1;
    *fraction = 0;
    if (*text != '.')
        return text;
    const char *digit = text + 1;
    for (; *digit >= '0' && *digit <= '9'; digit++, unit /= 10)
        *fraction += (*digit - '0') * unit;
    return digit > text + 1 ? digit : NULL;
}

bool clock_parse_rfc3339(const char *text, double *realtime)
{
    struct tm tm = {0};
    double fraction;
    const char *rest = strptime(text, "%Y-%m-%dT%H:%M:%S", &tm);
    rest = rest ? read_fraction(rest, &fraction) : NULL;
    rest = rest ? strptime(rest, "%z", &tm) : NULL;
    if (!rest || *rest)
        return false;
    long offset = tm.tm_gmtoff; /* timegm() clears it */
    *realtime = (double)(timegm(&tm) - offset) + fraction;
    return true;
}
