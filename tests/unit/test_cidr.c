/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "kube-nftd/model/cidr.h"

#include "objects.h"
#include "unit.h"

/* A CIDR as it is written, and what it is. */
static const struct {
    const char *text, *cidr, *range;
} cidrs[] = {
    {"10.96.0.0/12", "10.96.0.0/12", "10.96.0.0-10.111.255.255"},
    {"10.97.3.4/12", "10.96.0.0/12", "10.96.0.0-10.111.255.255"},
    {"010.96.000.0/012", "10.96.0.0/12", "10.96.0.0-10.111.255.255"},
    {"192.0.2.255/24", "192.0.2.0/24", "192.0.2.0-192.0.2.255"},
    {"192.0.2.7/32", "192.0.2.7/32", "192.0.2.7-192.0.2.7"},
    {"192.0.2.7/31", "192.0.2.6/31", "192.0.2.6-192.0.2.7"},
    {"255.255.255.255/1", "128.0.0.0/1", "128.0.0.0-255.255.255.255"},
    {"10.0.0.1/0", "0.0.0.0/0", "0.0.0.0-255.255.255.255"},
    {"::ffff:10.96.1.1/108", "10.96.0.0/12", "10.96.0.0-10.111.255.255"},
    {"::ffff:0a60:0/128", "10.96.0.0/32", "10.96.0.0-10.96.0.0"},
    {"::ffff:10.96.1.1/96", "0.0.0.0/0", "0.0.0.0-255.255.255.255"},
    {"fd00:10:96::/112", "fd00:10:96::/112", "fd00:10:96::-fd00:10:96::ffff"},
    {"fd00:10:96::1:2/111", "fd00:10:96::/111", "fd00:10:96::-fd00:10:96::1:ffff"},
    {"2001:db8::1/128", "2001:db8::1/128", "2001:db8::1-2001:db8::1"},
    {"2001:db8::1/33", "2001:db8::/33", "2001:db8::-2001:db8:7fff:ffff:ffff:ffff:ffff:ffff"},
    {"::1/0", "::/0", "::-ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"},
    {"64:ff9b::192.0.2.1/120", "64:ff9b::c000:200/120", "64:ff9b::c000:200-64:ff9b::c000:2ff"},
};

static char *cidr_text(enum family family, const struct cidr *cidr)
{
    char *text;
    size_t length;
    FILE *out = open_memstream(&text, &length);
    write_cidr(out, family, cidr);
    fclose(out);
    return text;
}

static char *ranges_text(enum family family, const range_vec *ranges)
{
    char *text;
    size_t length;
    FILE *out = open_memstream(&text, &length);
    write_ranges(out, family, ranges);
    fclose(out);
    return text;
}

TEST_ROWS(accepted, cidrs)
{
    enum family family = FAMILY_COUNT;
    struct cidr cidr;
    memset(&cidr, 0xee, sizeof(cidr));
    ck_assert_msg(cidr_parse(row->text, &family, &cidr), "%s", row->text);
    expect_text(cidr_text(family, &cidr), row->cidr);
    range_vec ranges = {0};
    vec_push(&ranges, cidr_range(family, &cidr));
    expect_text(ranges_text(family, &ranges), row->range);
    for (size_t i = address_length(family); i < sizeof(cidr.address.bytes); i++) {
        ck_assert_uint_eq(ranges.v[0].first.bytes[i], 0);
        ck_assert_uint_eq(ranges.v[0].last.bytes[i], 0);
    }
    vec_free(&ranges);
}

static const char *const junk[] = {
    "",
    "/",
    "10.96.0.0",
    "fd00::",
    "10.96.0.0/",
    "/12",
    "10.96.0.0/33",
    "10.96.0.0/129",
    "10.96.0.0/4294967308",
    "10.96.0.0/-1",
    "10.96.0.0/+12",
    "10.96.0.0/ 12",
    "10.96.0.0/12 ",
    "10.96.0.0/12/12",
    "10.96.0.0/0xc",
    "10.96.0.0/255.240.0.0",
    " 10.96.0.0/12",
    "10.96/12",
    "10.96.0.256/12",
    "fd00::/129",
    "fd00::g/64",
    "fd00::/6a",
    "[fd00::]/64",
    "::ffff:10.96.0.0/95",
    "::ffff:10.96.0.0/12",
    "::ffff:10.96.0.0/129",
};

TEST_ROWS(refused, junk)
{
    enum family family = FAMILY_COUNT;
    struct cidr cidr, untouched;
    memset(&cidr, 0xee, sizeof(cidr));
    untouched = cidr;
    ck_assert_msg(!cidr_parse(*row, &family, &cidr), "%s", *row);
    ck_assert_int_eq(family, FAMILY_COUNT);
    ck_assert_mem_eq(&cidr, &untouched, sizeof(cidr));
}

/* ---- ranges ---- */

static range_vec ranges_of(const char *words, enum family *family)
{
    range_vec ranges = {0};
    each_word(words, word)
    {
        struct cidr cidr = make_cidr(word, family);
        vec_push(&ranges, cidr_range(*family, &cidr));
    }
    return ranges;
}

TEST(normalized)
{
    static const struct {
        const char *cidrs, *expected;
    } cases[] = {
        {"", ""},
        {"10.0.0.0/24", "10.0.0.0-10.0.0.255"},
        {"10.0.2.0/24 10.0.0.0/24", "10.0.0.0-10.0.0.255 10.0.2.0-10.0.2.255"},
        /* Equal, one inside of another, one behind what is inside. */
        {"10.0.0.0/24 10.0.0.0/24", "10.0.0.0-10.0.0.255"},
        {"10.0.0.0/8 10.1.0.0/16 10.2.3.4/32 10.255.255.255/32", "10.0.0.0-10.255.255.255"},
        {"10.1.0.0/16 10.0.0.0/8 11.0.0.1/32", "10.0.0.0-10.255.255.255 11.0.0.1-11.0.0.1"},
        {"10.0.0.0/32 10.0.0.0/24", "10.0.0.0-10.0.0.255"},
        /* Next to each other, also across bytes and at both ends of what there is. */
        {"10.0.1.0/24 10.0.0.0/24", "10.0.0.0-10.0.1.255"},
        {"10.0.0.1/32 10.0.0.3/32 10.0.0.2/32", "10.0.0.1-10.0.0.3"},
        {"9.255.255.255/32 10.0.0.0/32", "9.255.255.255-10.0.0.0"},
        {"10.0.0.0/32 10.0.0.2/32", "10.0.0.0-10.0.0.0 10.0.0.2-10.0.0.2"},
        {"255.255.255.255/32 0.0.0.0/32", "0.0.0.0-0.0.0.0 255.255.255.255-255.255.255.255"},
        {"128.0.0.0/1 0.0.0.0/1", "0.0.0.0-255.255.255.255"},
        {"::/1 8000::/1 ffff::/16", "::-ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"},
        {"fd00::1:0/112 fd00::/112", "fd00::-fd00::1:ffff"},
        {"fd00::2:0/112 fd00::/112", "fd00::-fd00::ffff fd00::2:0-fd00::2:ffff"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        enum family family = FAMILY_IPV4;
        range_vec ranges = ranges_of(cases[i].cidrs, &family);
        ranges_normalize(family, &ranges);
        expect_text(ranges_text(family, &ranges), cases[i].expected);
        vec_free(&ranges);
    }
}

/* Any CIDRs of a small world: the ranges hold the same addresses as the CIDRs do, and between two
 * of them there is always a gap. */
TEST(any_ranges)
{
    uint64_t state = 7;
    for (int round = 0; round < unit_steps(2000); round++) {
        bool inside[256] = {false};
        range_vec ranges = {0};
        for (unsigned n = dice(&state, 6); n > 0; n--) {
            struct cidr cidr = {.address = {{10, 0, 0, (uint8_t)dice(&state, 256)}},
                                .length = (uint8_t)(25 + dice(&state, 8))};
            cidr.address.bytes[3] &= (uint8_t)(0xff << (32 - cidr.length));
            for (unsigned i = 0; i < 1u << (32 - cidr.length); i++)
                inside[cidr.address.bytes[3] + i] = true;
            vec_push(&ranges, cidr_range(FAMILY_IPV4, &cidr));
        }
        ranges_normalize(FAMILY_IPV4, &ranges);
        for (unsigned i = 0; i < 256; i++) {
            struct address address = {{10, 0, 0, (uint8_t)i}};
            ck_assert(ranges_contain(&ranges, &address) == inside[i]);
        }
        for (size_t i = 1; i < ranges.n; i++)
            ck_assert_int_lt(ranges.v[i - 1].last.bytes[3] + 1, ranges.v[i].first.bytes[3]);
        vec_free(&ranges);
    }
}

TEST(ranges_as_text)
{
    static const struct {
        const char *first, *last, *text;
    } cases[] = {
        {"10.0.0.0", "10.255.255.255", "10.0.0.0/8"},
        {"0.0.0.0", "255.255.255.255", "0.0.0.0/0"},
        {"10.0.0.1", "10.0.0.1", "10.0.0.1/32"},
        {"10.0.0.1", "10.0.0.2", "10.0.0.1-10.0.0.2"},
        {"10.0.1.0", "10.0.2.255", "10.0.1.0-10.0.2.255"},
        {"fd00::", "fd00::ffff", "fd00::/112"},
        {"fd00::1", "fd00::ffff", "fd00::1-fd00::ffff"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct address_range range;
        enum family family;
        char text[RANGE_TEXT_SIZE];
        ck_assert(address_parse(cases[i].first, &family, &range.first));
        ck_assert(address_parse(cases[i].last, &family, &range.last));
        ck_assert_str_eq(range_format(family, &range, text), cases[i].text);
    }
}

TEST(ranges_as_prefixes)
{
    static const struct {
        const char *first, *last, *prefixes;
    } cases[] = {
        {"10.0.0.0", "10.255.255.255", "10.0.0.0/8"},
        {"10.0.0.7", "10.0.0.7", "10.0.0.7/32"},
        {"10.0.0.6", "10.0.0.7", "10.0.0.6/31"},
        {"10.0.0.7", "10.0.0.8", "10.0.0.7/32 10.0.0.8/32"},
        {"10.0.1.0", "10.0.3.255", "10.0.1.0/24 10.0.2.0/23"},
        {"10.0.0.0", "10.0.2.0", "10.0.0.0/23 10.0.2.0/32"},
        {"0.0.0.0", "255.255.255.255", "0.0.0.0/1 128.0.0.0/1"},
        {"0.0.0.0", "127.255.255.255", "0.0.0.0/1"},
        {"0.0.0.0", "0.0.0.0", "0.0.0.0/32"},
        {"127.255.255.255", "128.0.0.0", "127.255.255.255/32 128.0.0.0/32"},
        {"255.255.255.253", "255.255.255.255", "255.255.255.253/32 255.255.255.254/31"},
        {"::", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "::/1 8000::/1"},
        {"fd00:0:0:1::", "fd00::2:ffff:ffff:ffff:ffff", "fd00:0:0:1::/64 fd00:0:0:2::/64"},
        {"fd00::ff", "fd00::100", "fd00::ff/128 fd00::100/128"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct address_range range;
        enum family family;
        cidr_vec prefixes = {0};
        char *text = xstrdup("");
        ck_assert(address_parse(cases[i].first, &family, &range.first));
        ck_assert(address_parse(cases[i].last, &family, &range.last));
        range_prefixes(family, &range, &prefixes);
        vec_each (&prefixes, prefix) {
            char *one = cidr_text(family, prefix);
            char *longer = xasprintf("%s%s%s", text, *text ? " " : "", one);
            free(text);
            free(one);
            text = longer;
        }
        ck_assert_str_eq(text, cases[i].prefixes);
        free(text);
        vec_free(&prefixes);
    }
}
