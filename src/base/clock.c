/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "kube-nftd/base.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

/* RFC 3339 has four digits for a year. */
#define YEAR_ONE (-62135596800.0)
#define YEAR_10000 253402300800.0

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

double clock_earlier(double a, double b)
{
    return a == 0 || (b != 0 && b < a) ? b : a;
}

void clock_rfc3339(double realtime, char out[CLOCK_RFC3339_SIZE])
{
    format(realtime, 3, 1000, out);
}

void clock_micro_time(double realtime, char out[CLOCK_RFC3339_SIZE])
{
    format(realtime, 6, 1000000, out);
}

/* Two digits and what is behind them. */
static char *put_part(char *out, int value, char behind)
{
    out[0] = (char)('0' + value / 10);
    out[1] = (char)('0' + value % 10);
    out[2] = behind;
    return out + 3;
}

/* There is one in each object of the API; printf() would take most of the time of some. */
bool clock_rfc3339_seconds(double realtime, char out[CLOCK_RFC3339_SIZE])
{
    struct tm tm;
    if (!(realtime >= YEAR_ONE && realtime < YEAR_10000))
        return false;
    time_t seconds = (time_t)realtime;
    gmtime_r(&seconds, &tm);
    put_part(out, (tm.tm_year + 1900) / 100, '\0');
    out = put_part(out + 2, (tm.tm_year + 1900) % 100, '-');
    out = put_part(out, tm.tm_mon + 1, '-');
    out = put_part(out, tm.tm_mday, 'T');
    out = put_part(out, tm.tm_hour, ':');
    out = put_part(out, tm.tm_min, ':');
    *put_part(out, tm.tm_sec, 'Z') = '\0';
    return true;
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

/* The number of @n digits at *@text, which is moved behind them and @end, if it is not above
 * @most; -1 if it is something else. */
static int read_part(const char **text, int n, char end, int most)
{
    int value = 0;
    for (; n > 0; n--, (*text)++) {
        if (**text < '0' || **text > '9')
            return -1;
        value = value * 10 + (**text - '0');
    }
    if (end && *(*text)++ != end)
        return -1;
    return value <= most ? value : -1;
}

/* Days from 1970-01-01; in years that begin with March, a leap day is the last one. */
static int64_t days_before(int year, int month, int day)
{
    int64_t y = year - (month <= 2), m = (month + 9) % 12;
    return y * 365 + y / 4 - y / 100 + y / 400 + (m * 153 + 2) / 5 + day - 1 - 719468;
}

/* "2026-11-21T17:03:37", as every API server writes it. Returns what follows; NULL for what is not
 * plainly that. */
static const char *read_seconds(const char *text, int64_t *seconds)
{
    int year = read_part(&text, 4, '-', 9999);
    int month = year < 1 ? -1 : read_part(&text, 2, '-', 12);
    int day = month < 1 ? -1 : read_part(&text, 2, 'T', 31);
    int hour = day < 1 ? -1 : read_part(&text, 2, ':', 23);
    int minute = hour < 0 ? -1 : read_part(&text, 2, ':', 59);
    int second = minute < 0 ? -1 : read_part(&text, 2, '\0', 59);
    if (second < 0)
        return NULL;
    *seconds = ((days_before(year, month, day) * 24 + hour) * 60 + minute) * 60 + second;
    return text;
}

/* Any time that there may be, some 1,500 instructions long. */
static bool read_any(const char *text, int64_t *seconds, double *fraction)
{
    struct tm tm = {0};
    const char *rest = strptime(text, "%Y-%m-%dT%H:%M:%S", &tm);
    rest = rest ? read_fraction(rest, fraction) : NULL;
    rest = rest ? strptime(rest, "%z", &tm) : NULL;
    if (!rest || *rest)
        return false;
    long offset = tm.tm_gmtoff; /* timegm() clears it */
    *seconds = timegm(&tm) - offset;
    return true;
}

static bool parse(const char *text, int64_t *seconds, double *fraction)
{
    const char *rest = read_seconds(text, seconds);
    rest = rest ? read_fraction(rest, fraction) : NULL;
    return (rest && strcmp(rest, "Z") == 0) || read_any(text, seconds, fraction);
}

bool clock_parse_rfc3339(const char *text, double *realtime)
{
    int64_t seconds;
    double fraction;
    if (!parse(text, &seconds, &fraction))
        return false;
    *realtime = (double)seconds + fraction;
    return true;
}

bool clock_parse_seconds(const char *text, int64_t *realtime)
{
    int64_t seconds;
    double fraction;
    if (strchr(text, '.') || !parse(text, &seconds, &fraction))
        return false;
    *realtime = seconds;
    return true;
}
