/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Elements wanted and in the kernel: what must go and come, by every way there. */
#include "unit.h"

#include "kube-nftd/ruleset/template.h"
#include "ruleset/contents.h"

#include <stdio.h>
#include <string.h>

static struct contents contents;

static void setup(void)
{
    memset(&contents, 0, sizeof(contents));
}

static void teardown(void)
{
    contents_free(&contents);
}

static struct key key(uint32_t number)
{
    struct key k = {.length = 0};
    key_put_number(&k, number);
    return k;
}

/* A value; 0 is none. */
static void want(enum table_set set, uint32_t number, uint32_t with)
{
    struct key k = key(number), value = key(with);
    contents_want(&contents, set, &k, with ? &value : NULL);
}

static void drop(enum table_set set, uint32_t number)
{
    struct key k = key(number);
    contents_drop(&contents, set, &k);
}

static bool adopt(enum table_set set, uint32_t number, uint32_t with)
{
    struct key k = key(number), value = key(with);
    return contents_adopt(&contents, set, &k, with ? &value : NULL);
}

static struct content *find(enum table_set set, uint32_t number)
{
    struct key k = key(number);
    return contents_find(&contents, set, &k);
}

/* What is to be sent: "+1" comes, "-1" goes, "~1" gets another value; in the order of numbers. */
static void check_pending(const char *expected)
{
    char text[64] = "";
    for (uint32_t number = 0; number < 10; number++)
        vec_each (&contents.pending, it) {
            const struct content *content = *it;
            struct key k = key(number);
            bool goes = content_goes(content), comes = content_comes(content);
            if (memcmp(content_key(content), k.bytes, k.length) != 0 || (!goes && !comes))
                continue;
            char mark = '~';
            if (!goes || !comes)
                mark = goes ? '-' : '+';
            snprintf(text + strlen(text), sizeof(text) - strlen(text), "%c%u ", mark, number);
        }
    ck_assert_str_eq(text, expected);
}

static void apply(const char *expected)
{
    check_pending(expected);
    contents_apply(&contents);
    ck_assert_uint_eq(contents.pending.n, 0);
}

static void check_value(struct content *content, uint32_t wanted, uint32_t in_kernel)
{
    struct key a = key(wanted), b = key(in_kernel);
    ck_assert_uint_eq(content->value_length, a.length);
    ck_assert_mem_eq(content_value(content), a.bytes, a.length);
    ck_assert_mem_eq(content_kernel_value(content), b.bytes, b.length);
}

TEST(wanted_and_dropped)
{
    want(SET_HAIRPIN, 1, 0);
    want(SET_HAIRPIN, 2, 0);
    ck_assert_int_eq(content_set_of(find(SET_HAIRPIN, 1)), SET_HAIRPIN);
    apply("+1 +2 ");
    drop(SET_HAIRPIN, 1);
    apply("-1 ");
    ck_assert_ptr_null(find(SET_HAIRPIN, 1)); /* no memory of what is gone */
    ck_assert_ptr_nonnull(find(SET_HAIRPIN, 2));
    apply("");
}

TEST(found_in_the_kernel)
{
    want(SET_AFFINITY_NUMBERS, 1, 7); /* there */
    want(SET_AFFINITY_NUMBERS, 2, 7); /* there with another value */
    want(SET_AFFINITY_NUMBERS, 3, 7); /* not there */
    ck_assert(adopt(SET_AFFINITY_NUMBERS, 1, 7));
    ck_assert(adopt(SET_AFFINITY_NUMBERS, 2, 8));
    ck_assert(adopt(SET_AFFINITY_NUMBERS, 4, 7)); /* nobody's */
    ck_assert(!adopt(SET_AFFINITY_NUMBERS, 4, 7));
    ck_assert(!adopt(SET_AFFINITY_NUMBERS, 1, 7));
    apply("~2 +3 -4 ");
    ck_assert_ptr_null(find(SET_AFFINITY_NUMBERS, 4));
    apply("");
}

/* What was found may be wanted later. */
TEST(wanted_after_it_was_found)
{
    ck_assert(adopt(SET_AFFINITY_NUMBERS, 1, 7));
    ck_assert(adopt(SET_AFFINITY_NUMBERS, 2, 7));
    ck_assert(adopt(SET_HAIRPIN, 3, 0));
    check_pending("-1 -2 -3 ");
    want(SET_AFFINITY_NUMBERS, 1, 7);
    want(SET_AFFINITY_NUMBERS, 2, 9);
    want(SET_HAIRPIN, 3, 0);
    check_value(find(SET_AFFINITY_NUMBERS, 2), 9, 7);
    apply("~2 ");
}

UNIT_FIXTURE(setup, teardown)
