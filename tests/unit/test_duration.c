/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "kube-nftd/base/duration.h"

#include "unit.h"

static const struct {
    const char *text;
    int64_t nanoseconds;
} good[] = {
    {"0", 0},
    {"-0", 0},
    {"+0", 0},
    {"0s", 0},
    {"300ms", 300000000},
    {"30s", 30000000000},
    {"1h30m", 5400000000000},
    {"24h0m0s", 86400000000000},
    {"1.5h", 5400000000000},
    {".5s", 500000000},
    {"1.s", 1000000000},
    {"1.000000000000000000000000000001s", 1000000000},
    {"0.333333333h", 1199999998800},
    {"1us", 1000},
    {"1\xc2\xb5s", 1000},
    {"1\xce\xbcs", 1000},
    {"2ns3us4ms5s6m7h", 7 * 3600000000000 + 365000000000 + 4003002},
    {"1s1s", 2000000000},
    {"-1m", -60000000000},
    {"+1m", 60000000000},
    {"007s", 7000000000},
    {"9223372036854775807ns", INT64_MAX},
    {"-9223372036854775807ns", -INT64_MAX},
    {"2562047h47m16.854775807s", INT64_MAX},
};

TEST_ROWS(read, good)
{
    int64_t nanoseconds = 4711;
    ck_assert_msg(duration_parse(row->text, &nanoseconds), "%s", row->text);
    ck_assert_msg(nanoseconds == row->nanoseconds, "%s is %lld", row->text, (long long)nanoseconds);
}

static const char *const bad[] = {
    "",
    "-",
    "+",
    ".",
    "s",
    ".s",
    "1",
    "1.5",
    "1d",
    "1S",
    "1 s",
    " 1s",
    "1s ",
    "--1s",
    "-+1s",
    "1s-1s",
    "1,5s",
    "1e3s",
    "0x1s",
    "1ss",
    "1s1",
    "1h30",
    "1.2.3s",
    "00",
    "one",
    "\xc2s",
    "1ms1",
    "9223372036854775808ns",
    "2562048h",
    "99999999999999999999s",
    "9223372036854775807ns1ns",
    "2562047h47m16.854775808s",
    "18446744073709551616ns",
};

TEST_ROWS(refused, bad)
{
    int64_t nanoseconds = 4711;
    ck_assert_msg(!duration_parse(*row, &nanoseconds), "%s", *row);
    ck_assert_int_eq(nanoseconds, 4711);
}

static const struct {
    int64_t nanoseconds;
    const char *text;
} written[] = {
    {0, "0s"},
    {1, "1ns"},
    {999, "999ns"},
    {1000, "1\xc2\xb5s"},
    {1100, "1.1\xc2\xb5s"},
    {2200000, "2.2ms"},
    {300000000, "300ms"},
    {999999999, "999.999999ms"},
    {1000000000, "1s"},
    {1500000000, "1.5s"},
    {30000000000, "30s"},
    {60000000000, "1m0s"},
    {90000000001, "1m30.000000001s"},
    {3600000000000, "1h0m0s"},
    {86400000000000, "24h0m0s"},
    {5400000000000, "1h30m0s"},
    {-1, "-1ns"},
    {-90000000000, "-1m30s"},
    {INT64_MAX, "2562047h47m16.854775807s"},
    {-INT64_MAX, "-2562047h47m16.854775807s"},
};

/* As Go has it, and it reads back as the same. */
TEST_ROWS(formatted, written)
{
    int64_t again = 4711;
    char *text = duration_format(row->nanoseconds);
    ck_assert_str_eq(text, row->text);
    ck_assert(duration_parse(text, &again));
    ck_assert(again == row->nanoseconds);
    free(text);
}
