/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "kube-nftd/base/alloc.h"
#include "kube-nftd/base/clock.h"
#include "kube-nftd/base/error.h"
#include "kube-nftd/base/intern.h"
#include "kube-nftd/base/vec.h"
#include "source/retry.h"

#include "unit.h"

#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* ---------------------------------------------------------- intern */

/* A copy lives as long as somebody holds a count of it. */
TEST(intern_counts)
{
    const char *a = intern("node-a");
    ck_assert_ptr_eq(intern(a), a);
    ck_assert_ptr_eq(intern("node-a"), a);
    intern_release(a);
    intern_release(a);
    ck_assert_str_eq(a, "node-a");
    const char *again = intern("node-a");
    ck_assert_ptr_eq(again, a);
    intern_release(a);
    intern_release(again);
}

/* ---------------------------------------------------------- vec */

TEST(vec_reserves)
{
    VEC(int) numbers = {0};
    vec_reserve(&numbers, 0);
    ck_assert_ptr_null(numbers.v);
    vec_reserve(&numbers, 100);
    ck_assert_uint_eq(numbers.cap, 100);
    ck_assert_uint_eq(numbers.n, 0);
    int *before = numbers.v;
    for (int i = 0; i < 100; i++)
        vec_push(&numbers, i);
    ck_assert_ptr_eq(numbers.v, before);
    /* An element of the array itself may be pushed while it moves. */
    vec_push(&numbers, numbers.v[99]);
    ck_assert_int_eq(numbers.v[100], 99);
    vec_free(&numbers);
}

/* ---------------------------------------------------------- clock */

static void expect_time(double realtime, const char *expected)
{
    char text[CLOCK_RFC3339_SIZE];
    clock_rfc3339(realtime, text);
    ck_assert_str_eq(text, expected);
}

TEST(clock_whole_seconds)
{
    static const struct {
        double realtime;
        const char *text;
    } times[] = {
        {0, "1970-01-01T00:00:00Z"},
        {1795280617, "2026-11-21T17:03:37Z"},
        {-1, "1969-12-31T23:59:59Z"},
        {-62135596800, "0001-01-01T00:00:00Z"},
        {253402300799, "9999-12-31T23:59:59Z"},
    };
    char text[CLOCK_RFC3339_SIZE];
    for (size_t i = 0; i < sizeof(times) / sizeof(*times); i++) {
        ck_assert(clock_rfc3339_seconds(times[i].realtime, text));
        ck_assert_str_eq(text, times[i].text);
    }
    ck_assert(!clock_rfc3339_seconds(-62135596801, text));
    ck_assert(!clock_rfc3339_seconds(253402300800, text));
    ck_assert(!clock_rfc3339_seconds(9.3e18, text));
    ck_assert(!clock_rfc3339_seconds(-9.3e18, text));
}

/* ---------------------------------------------------------- token bucket */

TEST(tokens_come_with_time)
{
    struct token_bucket bucket;
    token_bucket_init(&bucket, 2, 3, 100);
    for (int i = 0; i < 3; i++)
        ck_assert(token_bucket_take(&bucket, 100));
    ck_assert(!token_bucket_take(&bucket, 100));
    ck_assert_double_eq_tol(token_bucket_wait(&bucket, 100), 0.5, 1e-9);
    ck_assert(token_bucket_take(&bucket, 100.5));
    ck_assert(!token_bucket_take(&bucket, 100.9));
    ck_assert(token_bucket_take(&bucket, 1000));
    ck_assert(token_bucket_take(&bucket, 1000));
    ck_assert(token_bucket_take(&bucket, 1000));
    ck_assert(!token_bucket_take(&bucket, 1000));
}

TEST(a_bucket_without_a_limit_and_one_without_room)
{
    struct token_bucket bucket;
    token_bucket_init(&bucket, -1, 1, 0);
    for (int i = 0; i < 1000; i++)
        ck_assert(token_bucket_take(&bucket, 0));
    token_bucket_init(&bucket, 1, 0, 0);
    ck_assert(token_bucket_take(&bucket, 0));
    ck_assert(!token_bucket_take(&bucket, 0));
}

TEST(clock_text)
{
    expect_time(0, "1970-01-01T00:00:00.000Z");
    expect_time(1795280617.5, "2026-11-21T17:03:37.500Z");
    expect_time(1795280617.125, "2026-11-21T17:03:37.125Z");
    expect_time(1795280617.9995, "2026-11-21T17:03:37.999Z");
    expect_time(951782399.25, "2000-02-28T23:59:59.250Z");
    expect_time(951782400, "2000-02-29T00:00:00.000Z");
    expect_time(4102444800, "2100-01-01T00:00:00.000Z");
    expect_time(-0.25, "1969-12-31T23:59:59.750Z");
}

static const struct {
    const char *text;
    double realtime; /* negative: it is no time */
} times[] = {
    {"1970-01-01T00:00:00Z", 0},
    {"2026-11-21T17:03:37Z", 1795280617},
    {"2026-11-21T17:03:37.5Z", 1795280617.5},
    {"2026-11-21T17:03:37.125000000Z", 1795280617.125},
    {"2026-11-21T18:03:37.25+01:00", 1795280617.25},
    {"2026-11-21T09:33:37-07:30", 1795280617},
    {"2000-02-29T00:00:00Z", 951782400},
    {"2000-03-01T00:00:00Z", 951868800},
    {"1999-12-31T23:59:59Z", 946684799},
    {"2100-02-28T23:59:59Z", 4107542399},
    {"2100-03-01T00:00:00Z", 4107542400},
    {"2024-2-9T1:2:3Z", 1707440523},
    {"", -1},
    {"now", -1},
    {"2026-11-21", -1},
    {"2026-11-21T17:03:37", -1},
    {"2026-11-21 17:03:37Z", -1},
    {"2026-11-21T17:03:37.Z", -1},
    {"2026-11-21T17:03:37.5", -1},
    {"2026-11-21T17:03:37,5Z", -1},
    {"2026-11-21T17:03:37Zoo", -1},
    {"2026-13-21T17:03:37Z", -1},
    {"2026-11-21T25:03:37Z", -1},
};

TEST(clock_from_text)
{
    for (size_t i = 0; i < sizeof(times) / sizeof(times[0]); i++) {
        double realtime = -2;
        bool good = clock_parse_rfc3339(times[i].text, &realtime);
        ck_assert_msg(good == (times[i].realtime >= 0), "\"%s\"", times[i].text);
        ck_assert_msg(good ? fabs(realtime - times[i].realtime) < 1e-6 : realtime == -2,
                      "\"%s\": %f", times[i].text, realtime);
        int64_t seconds = -2;
        good = good && !strchr(times[i].text, '.');
        ck_assert_int_eq(clock_parse_seconds(times[i].text, &seconds), good);
        ck_assert_int_eq(seconds, good ? (int64_t)times[i].realtime : -2);
    }
}

/* Each day of four centuries, and of the leap years there. */
TEST(clock_days)
{
    for (int64_t day = 0; day < 146097; day++) {
        time_t then = day * 86400 + 86399;
        char text[32];
        struct tm tm;
        int64_t seconds = -1;
        strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&then, &tm));
        ck_assert_msg(clock_parse_seconds(text, &seconds) && seconds == then, "%s: %" PRId64, text,
                      seconds);
    }
}

/* ---------------------------------------------------------- alloc and error */

TEST(errors)
{
    struct error err = {0};
    ck_assert_int_eq(error_set(&err, "line %d", 3), -1);
    ck_assert_str_eq(err.text, "line 3");
    ck_assert_int_eq(error_prefix(&err, "file %s", "x"), -1);
    ck_assert_str_eq(err.text, "file x: line 3");
    ck_assert_int_eq(error_set(&err, "again: %s", err.text), -1);
    ck_assert_str_eq(err.text, "again: file x: line 3");
    error_clear(&err);
    ck_assert_ptr_null(err.text);
    error_clear(&err);
    error_prefix(&err, "file");
    ck_assert_str_eq(err.text, "file: failed");
    error_clear(&err);
}
