/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "kube-nftd/base.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

/* More digits behind a point say less than a nanosecond. */
#define FRACTION_LIMIT ((uint64_t)1000000000000000)

static const struct {
    const char *name;
    uint64_t nanoseconds;
} units[] = {
    {"ns", 1},
    {"us", 1000},
    {"\xc2\xb5s", 1000}, /* both letters that Unicode has for micro */
    {"\xce\xbcs", 1000},
    {"ms", 1000000},
    {"s", 1000000000},
    {"m", 60000000000},
    {"h", 3600000000000},
};

/* A number with a point in it, or none: whole + fraction / scale. */
struct number {
    uint64_t whole, fraction, scale;
};

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Takes the digits at *@at. */
static bool parse_whole(const char **at, uint64_t *whole)
{
    for (; is_digit(**at); ++*at) {
        if (*whole > INT64_MAX / 10)
            return false;
        *whole = *whole * 10 + (uint64_t)(**at - '0');
    }
    return true;
}

static void parse_fraction(const char **at, struct number *number)
{
    for (; is_digit(**at); ++*at) {
        if (number->scale >= FRACTION_LIMIT)
            continue;
        number->fraction = number->fraction * 10 + (uint64_t)(**at - '0');
        number->scale *= 10;
    }
}

static bool parse_number(const char **at, struct number *number)
{
    const char *start = *at;
    *number = (struct number){.scale = 1};
    if (!parse_whole(at, &number->whole))
        return false;
    size_t digits = (size_t)(*at - start);
    if (**at == '.') {
        start = ++*at;
        parse_fraction(at, number);
        digits += (size_t)(*at - start);
    }
    return digits > 0;
}

/* Takes the unit at *@at, all up to the next number; 0 if it is none. */
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

/* Adds what @number says in units of @unit. */
static bool add(uint64_t *total, const struct number *number, uint64_t unit)
{
    if (number->whole > INT64_MAX / unit)
        return false;
    *total += number->whole * unit;
    if (*total > INT64_MAX)
        return false;
    *total += (uint64_t)((double)number->fraction * ((double)unit / (double)number->scale));
    return *total <= INT64_MAX;
}

bool duration_parse(const char *text, int64_t *nanoseconds)
{
    bool negative = *text == '-';
    const char *at = text + (*text == '-' || *text == '+');
    uint64_t total = 0;
    if (strcmp(at, "0") == 0) {
        *nanoseconds = 0;
        return true;
    }
    do {
        struct number number;
        uint64_t unit;
        if (!parse_number(&at, &number) || (unit = parse_unit(&at)) == 0 ||
            !add(&total, &number, unit))
            return false;
    } while (*at);
    *nanoseconds = negative ? -(int64_t)total : (int64_t)total;
    return true;
}

/* @nanoseconds in @unit ("s", ...) of @size, without zeros behind the last digit. */
static char *format_part(uint64_t nanoseconds, uint64_t size, const char *unit)
{
    int digits = 0;
    uint64_t fraction = nanoseconds % size;
    for (uint64_t n = size; n > 1; n /= 10)
        digits++;
    while (digits > 0 && fraction % 10 == 0) {
        fraction /= 10;
        digits--;
    }
    if (digits == 0)
        return xasprintf("%" PRIu64 "%s", nanoseconds / size, unit);
    return xasprintf("%" PRIu64 ".%0*" PRIu64 "%s", nanoseconds / size, digits, fraction, unit);
}

static char *format_short(uint64_t nanoseconds)
{
    if (nanoseconds == 0)
        return xstrdup("0s");
    if (nanoseconds < 1000)
        return format_part(nanoseconds, 1, "ns");
    if (nanoseconds < 1000000)
        return format_part(nanoseconds, 1000, "\xc2\xb5s");
    return format_part(nanoseconds, 1000000, "ms");
}

static char *format_long(uint64_t nanoseconds)
{
    uint64_t minutes = nanoseconds / 60000000000;
    char *seconds = format_part(nanoseconds % 60000000000, 1000000000, "s"), *text;
    if (minutes >= 60)
        text = xasprintf("%" PRIu64 "h%" PRIu64 "m%s", minutes / 60, minutes % 60, seconds);
    else if (minutes > 0)
        text = xasprintf("%" PRIu64 "m%s", minutes, seconds);
    else
        return seconds;
    free(seconds);
    return text;
}

char *duration_format(int64_t nanoseconds)
{
    uint64_t size = nanoseconds < 0 ? -(uint64_t)nanoseconds : (uint64_t)nanoseconds;
    char *text = size < 1000000000 ? format_short(size) : format_long(size);
    if (nanoseconds >= 0)
        return text;
    char *negative = xasprintf("-%s", text);
    free(text);
    return negative;
}
