/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Points in time, durations and histograms of durations. */
#include "kube-nftd/base.h"

#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

/* RFC 3339 years have four digits. */
#define YEAR_ONE (-62135596800.0)
#define YEAR_10000 253402300800.0

double clock_earlier(double a, double b)
{
    return a == 0 || (b != 0 && b < a) ? b : a;
}

/* ---- points in time ---- */

bool clock_format(double realtime, int digits, char out[CLOCK_RFC3339_SIZE])
{
    out[0] = '\0';
    if (!(realtime >= YEAR_ONE && realtime < YEAR_10000))
        return false;
    time_t seconds = (time_t)floor(realtime);
    unsigned unit = digits == 6 ? 1000000 : 1000; /* units per second */
    unsigned fraction = (unsigned)((realtime - (double)seconds) * unit) % unit;
    struct tm tm;
    gmtime_r(&seconds, &tm);
    int n = snprintf(out, 5, "%04d", tm.tm_year + 1900);
    n += (int)strftime(out + n, CLOCK_RFC3339_SIZE - (size_t)n, "-%m-%dT%H:%M:%S", &tm);
    if (digits > 0)
        n += snprintf(out + n, CLOCK_RFC3339_SIZE - (size_t)n, ".%0*u", digits, fraction);
    snprintf(out + n, CLOCK_RFC3339_SIZE - (size_t)n, "Z");
    return true;
}

/* Reads numbers in the places of the zeros of @form, whose other characters must match. Returns
 * what follows; NULL if @text has another form. */
static const char *read_numbers(const char *text, const char *form, int *numbers)
{
    for (*numbers = 0; *form; form++, text++) {
        if (*form == '0' && isdigit((unsigned char)*text))
            *numbers = *numbers * 10 + (*text - '0');
        else if (*form != '0' && *form == *text)
            *++numbers = 0;
        else
            return NULL;
    }
    return text;
}

/* Days from 1970-01-01. In years that begin with March, a leap day is the last one. */
static int64_t days_before(int year, int month, int day)
{
    const int64_t y = year - (month <= 2), m = (month + 9) % 12;
    return y * 365 + y / 4 - y / 100 + y / 400 + (m * 153 + 2) / 5 + day - 1 - 719468;
}

/* Seconds that local time is ahead of UTC: "Z", or "+hh:mm" or "-hh:mm", up to the end of the text.
 * False if @text has another form. */
static bool read_zone(const char *text, int64_t *ahead)
{
    int n[2];
    *ahead = 0;
    if (strcmp(text, "Z") == 0)
        return true;
    if (*text != '+' && *text != '-')
        return false;
    const char *rest = read_numbers(text + 1, "00:00", n);
    if (!rest || *rest || n[0] > 23 || n[1] > 59)
        return false;
    *ahead = (n[0] * 60 + n[1]) * (*text == '-' ? INT64_C(-60) : INT64_C(60));
    return true;
}

/* Not by strptime() and timegm(), which take as long as the rest of a small change. */
bool clock_parse(const char *text, int64_t *seconds, double *fraction)
{
    int n[6];
    double part = 0;
    int64_t ahead;
    const char *rest = read_numbers(text, "0000-00-00T00:00:00", n);
    if (!rest || n[1] < 1 || n[1] > 12 || n[2] < 1 || n[2] > 31 || n[3] > 23 || n[4] > 59 ||
        n[5] > 60)
        return false;
    if (*rest == '.') {
        double unit = 0.1;
        if (!fraction || !isdigit((unsigned char)*++rest))
            return false;
        for (; isdigit((unsigned char)*rest); rest++, unit /= 10)
            part += (*rest - '0') * unit;
    }
    if (!read_zone(rest, &ahead))
        return false;
    *seconds = ((days_before(n[0], n[1], n[2]) * 24 + n[3]) * 60 + n[4]) * 60 + n[5] - ahead;
    if (fraction)
        *fraction = part;
    return true;
}

/* ---- durations ---- */

/* Further decimals are below a nanosecond. */
#define FRACTION_LIMIT ((uint64_t)1000000000000000)

static const struct {
    const char *name;
    uint64_t nanoseconds;
} units[] = {
    {"ns", 1},
    {"us", 1000},
    {"\xc2\xb5s", 1000}, /* MICRO SIGN; the next is GREEK SMALL LETTER MU */
    {"\xce\xbcs", 1000},
    {"ms", 1000000},
    {"s", 1000000000},
    {"m", 60000000000},
    {"h", 3600000000000},
};

/* Parses the unit at *@at, which extends to the next number, and advances *@at. 0 if unknown. */
static uint64_t parse_unit(const char **at)
{
    size_t length = strcspn(*at, ".0123456789");
    for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
        if (strlen(units[i].name) == length && memcmp(units[i].name, *at, length) == 0) {
            *at += length;
            return units[i].nanoseconds;
        }
    }
    return 0;
}

/* Parses a number with unit at *@at, adds it to @total and advances *@at. */
static bool add_part(const char **at, uint64_t *total)
{
    uint64_t whole = 0, fraction = 0, scale = 1, unit;
    size_t digits = 0;
    for (; isdigit((unsigned char)**at); ++*at, digits++) {
        if (whole > INT64_MAX / 10)
            return false;
        whole = whole * 10 + (uint64_t)(**at - '0');
    }
    if (**at == '.') {
        for (++*at; isdigit((unsigned char)**at); ++*at, digits++) {
            if (scale >= FRACTION_LIMIT)
                continue;
            fraction = fraction * 10 + (uint64_t)(**at - '0');
            scale *= 10;
        }
    }
    if (digits == 0 || (unit = parse_unit(at)) == 0 || whole > INT64_MAX / unit)
        return false;
    *total += whole * unit;
    if (*total > INT64_MAX)
        return false;
    *total += (uint64_t)((double)fraction * ((double)unit / (double)scale));
    return *total <= INT64_MAX;
}

bool duration_parse(const char *text, int64_t *nanoseconds)
{
    const char *at = text + (*text == '-' || *text == '+');
    uint64_t total = 0;
    bool good = strcmp(at, "0") == 0;
    if (!good) {
        do
            good = add_part(&at, &total);
        while (good && *at);
    }
    if (good)
        *nanoseconds = *text == '-' ? -(int64_t)total : (int64_t)total;
    return good;
}

/* Durations below a second use a smaller unit. */
char *duration_format(int64_t nanoseconds)
{
    static const struct {
        uint64_t unit;
        const char *name;
    } parts[] = {{1000000000, "s"}, {1000000, "ms"}, {1000, "\xc2\xb5s"}, {1, "ns"}};
    uint64_t all = nanoseconds < 0 ? -(uint64_t)nanoseconds : (uint64_t)nanoseconds;
    uint64_t minutes = all / 60000000000, rest = all % 60000000000;
    size_t i = 0;
    while (all > 0 && all < parts[i].unit)
        i++;
    uint64_t whole = rest / parts[i].unit, fraction = rest % parts[i].unit;
    int digits = 9 - 3 * (int)i;
    for (; digits > 0 && fraction % 10 == 0; digits--)
        fraction /= 10;
    char *large = minutes >= 60 ? xasprintf("%" PRIu64 "h%" PRIu64 "m", minutes / 60, minutes % 60)
                  : minutes > 0 ? xasprintf("%" PRIu64 "m", minutes)
                                : xstrdup("");
    const char *sign = nanoseconds < 0 ? "-" : "", *name = parts[i].name;
    char *text = digits > 0 ? xasprintf("%s%s%" PRIu64 ".%0*" PRIu64 "%s", sign, large, whole,
                                        digits, fraction, name)
                            : xasprintf("%s%s%" PRIu64 "%s", sign, large, whole, name);
    free(large);
    return text;
}

/* ---- histograms ---- */

const struct histogram_buckets histogram_exponential = {
    .n = 15,
    .bounds = {0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.064, 0.128, 0.256, 0.512, 1.024, 2.048,
               4.096, 8.192, 16.384}};

const struct histogram_buckets histogram_programming = {
    .n = 80,
    .bounds = {0.25, 0.5, 1,  2,  3,  4,   5,   6,   7,   8,   9,   10,  11,  12,  13,  14,
               15,   16,  17, 18, 19, 20,  21,  22,  23,  24,  25,  26,  27,  28,  29,  30,
               31,   32,  33, 34, 35, 36,  37,  38,  39,  40,  41,  42,  43,  44,  45,  46,
               47,   48,  49, 50, 51, 52,  53,  54,  55,  56,  57,  58,  59,  60,  65,  70,
               75,   80,  85, 90, 95, 100, 105, 110, 115, 120, 150, 180, 210, 240, 270, 300}};

/* Most durations are short: they are below the first bounds. */
void histogram_add(struct histogram *histogram, double value)
{
    const struct histogram_buckets *buckets = histogram->buckets;
    size_t i = 0;
    while (i < buckets->n && buckets->bounds[i] < value)
        i++;
    histogram->counts[i]++;
    histogram->sum += value;
}

uint64_t histogram_count(const struct histogram *histogram)
{
    uint64_t count = 0;
    for (size_t i = 0; i <= histogram->buckets->n; i++)
        count += histogram->counts[i];
    return count;
}
