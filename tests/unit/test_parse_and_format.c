/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What is read from texts, each alone, and how it is written again: cases/parse_and_format. What is
 * none is refused with nothing changed. */
#include "model/decode.h"

#include "objects.h"
#include "script.h"

#include <inttypes.h>
#include <math.h>
#include <time.h>

/* ---- time ---- */

COMMAND(duration)
{
    int64_t nanoseconds = 4711;
    script_bytes(words);
    if (duration_parse(words, &nanoseconds)) {
        fprintf(out, "%" PRId64 "\n", nanoseconds);
    } else {
        ck_assert(nanoseconds == 4711);
        fputs("none\n", out);
    }
}

/* As Go has it, and it reads back as the same. */
COMMAND(duration_of)
{
    int64_t nanoseconds = strtoll(words, NULL, 10), again = 4711;
    char *text = duration_format(nanoseconds);
    fprintf(out, "%s\n", text);
    ck_assert(duration_parse(text, &again));
    ck_assert(again == nanoseconds);
    free(text);
}

/* "whole": it may be read without a fraction. */
COMMAND(time)
{
    double fraction = 0;
    int64_t seconds = -2, same = -2;
    bool good = clock_parse(words, &seconds, &fraction), whole = clock_parse(words, &same, NULL);
    ck_assert(good || seconds == -2);
    ck_assert(whole ? same == seconds : same == -2);
    if (good)
        fprintf(out, "%.6f%s\n", (double)seconds + fraction, whole ? " whole" : "");
    else
        fputs("none\n", out);
}

COMMAND(time_of)
{
    char text[CLOCK_RFC3339_SIZE];
    clock_format(strtod(words, NULL), 3, text);
    fprintf(out, "%s\n", text);
}

COMMAND(seconds_of)
{
    char text[CLOCK_RFC3339_SIZE];
    bool good = clock_format(strtod(words, NULL), 0, text);
    fprintf(out, "%s\n", good ? text : "none");
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
        ck_assert_msg(clock_parse(text, &seconds, NULL) && seconds == then, "%s", text);
    }
}

/* ---- UTF-8 ---- */

COMMAND(utf8)
{
    script_bytes(words);
    char *text = utf8_repair(words);
    ck_assert_int_eq(utf8_is_valid(words), strcmp(words, text) == 0);
    fprintf(out, "%s\n", text);
    free(text);
}

/* Those of the characters that do something to a terminal. */
COMMAND(controls)
{
    for (char *word; *(word = script_word(&words));)
        if (utf8_is_control((uint32_t)strtoul(word, NULL, 16)))
            fprintf(out, "%s,", word);
    fputs("\n", out);
}

/* ---- addresses ---- */

COMMAND(address)
{
    enum family family = FAMILY_COUNT;
    struct address address, untouched;
    memset(&address, 0xee, sizeof(address));
    untouched = address;
    script_bytes(words);
    if (!address_parse(words, &family, &address)) {
        ck_assert_int_eq(family, FAMILY_COUNT);
        ck_assert_mem_eq(&address, &untouched, sizeof(address));
        fputs("none\n", out);
        return;
    }
    fprintf(out, "%s ", family_name(family));
    write_address(out, family, &address);
    fputs("\n", out);
    for (size_t i = address_length(family); i < sizeof(address.bytes); i++)
        ck_assert_uint_eq(address.bytes[i], 0);
}

/* And the range that it is. */
COMMAND(cidr)
{
    enum family family = FAMILY_COUNT;
    struct cidr cidr, untouched;
    memset(&cidr, 0xee, sizeof(cidr));
    untouched = cidr;
    if (!cidr_parse(words, &family, &cidr)) {
        ck_assert_int_eq(family, FAMILY_COUNT);
        ck_assert_mem_eq(&cidr, &untouched, sizeof(cidr));
        fputs("none\n", out);
        return;
    }
    struct address_range range = cidr_range(family, &cidr);
    range_vec ranges = {.v = &range, .n = 1};
    write_cidr(out, family, &cidr);
    fputs(" ", out);
    write_ranges(out, family, &ranges);
    fputs("\n", out);
    for (size_t i = address_length(family); i < sizeof(cidr.address.bytes); i++)
        ck_assert_uint_eq(range.first.bytes[i] | range.last.bytes[i], 0);
}

COMMAND(ranges)
{
    enum family family = FAMILY_IPV4;
    range_vec ranges = {0};
    each_word(words, word)
    {
        struct cidr cidr = make_cidr(word, &family);
        vec_push(&ranges, cidr_range(family, &cidr));
    }
    ranges_normalize(family, &ranges);
    write_ranges(out, family, &ranges);
    fputs("\n", out);
    vec_free(&ranges);
}

/* A range as text, then the prefixes that it is made of. */
COMMAND(range)
{
    enum family family;
    char text[RANGE_TEXT_SIZE];
    struct address_range range;
    cidr_vec prefixes = {0};
    range.first = make_address(script_word(&words), &family);
    range.last = make_address(words, &family);
    fprintf(out, "%s:", range_format(family, &range, text));
    range_prefixes(family, &range, &prefixes);
    vec_each (&prefixes, prefix) {
        fputs(" ", out);
        write_cidr(out, family, prefix);
    }
    fputs("\n", out);
    vec_free(&prefixes);
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

TEST(network_order)
{
    enum family family;
    struct address address = make_address("10.1.2.3", &family);
    ck_assert_mem_eq(address.bytes, "\x0a\x01\x02\x03\0\0\0\0\0\0\0\0\0\0\0\0", 16);
    address = make_address("2001:db8::102", &family);
    ck_assert_mem_eq(address.bytes, "\x20\x01\x0d\xb8\0\0\0\0\0\0\0\0\0\0\x01\x02", 16);
    ck_assert_uint_eq(address_length(FAMILY_IPV4), 4);
    ck_assert_uint_eq(address_length(FAMILY_IPV6), 16);
}

COMMAND(protocol)
{
    fprintf(out, "%u\n", protocol_parse(words));
}

COMMAND(protocol_of)
{
    const char *name = protocol_name((uint8_t)atoi(words));
    fprintf(out, "%s\n", name ? name : "none");
}

/* ---- of objects ---- */

static const char *or_any(const char *text)
{
    return text ? text : "*";
}

COMMAND(taint)
{
    struct taint pattern;
    struct error err = {0};
    script_bytes(words);
    if (taint_parse(words, &pattern, &err) == 0) {
        fprintf(out, "key=%s value=%s effect=%s\n", pattern.key, or_any(pattern.value),
                or_any(pattern.effect));
        taint_clear(&pattern);
        return;
    }
    ck_assert_ptr_null(pattern.key);
    write_bytes(out, err.text, strlen(err.text));
    fputs("\n", out);
    error_clear(&err);
}

/* What is none is unknown, and that is written as "". */
COMMAND(uid)
{
    char text[UID_TEXT_SIZE];
    struct uid uid = {.bytes = {1}};
    const char *given = strcmp(words, "NULL") == 0 ? NULL : words;
    if (uid_parse(given, &uid))
        fprintf(out, "%02x..%02x %s\n", uid.bytes[0], uid.bytes[15], uid_format(&uid, text));
    else
        fprintf(out, "none%s\n", uid_format(&uid, text));
}

static void assert_version(const struct object_version *version, const char *text)
{
    char number[OBJECT_VERSION_SIZE];
    ck_assert_pstr_eq(object_version_text(version, number), text);
}

/* It is kept exactly, as a number it takes no memory of its own. */
COMMAND(version)
{
    struct object_version version = {0}, copy = {0};
    script_bytes(words);
    ck_assert(!object_version_is_set(&version));
    assert_version(&version, NULL);
    object_version_set(&version, *words ? words : NULL);
    assert_version(&version, words);
    ck_assert(object_version_is_set(&version));
    fputs(version.bits & 1 ? "number\n" : "text\n", out);
    object_version_copy(&copy, &version);
    object_version_clear(&version);
    ck_assert(!object_version_is_set(&version));
    assert_version(&version, NULL);
    assert_version(&copy, words);
    object_version_move(&version, &copy);
    assert_version(&version, words);
    assert_version(&copy, NULL);
    object_version_set(&version, "other"); /* frees what was there */
    assert_version(&version, "other");
    object_version_set(&version, "");
    assert_version(&version, "");
    object_version_clear(&version);
}

CASES("parse_and_format")
