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

/* All but the maps of verdicts and what packets write. */
TEST(the_list_of_sets_is_that_of_the_template)
{
    const struct layout_vars vars = {.family = FAMILY_IPV4,
                                     .mark = "0x4000",
                                     .from_pod = "",
                                     .not_from_pod = "",
                                     .from_host = "",
                                     .reject = "drop"};
    struct layout base;
    struct error err = {0};
    size_t listed = 0;
    ck_assert_int_eq(layout_parse(&templates[TEMPLATE_BASE], &vars, &base, &err), 0);
    vec_each (&base.sets, declared) {
        enum table_set set = set_of_name(declared->name);
        bool verdicts = strstr(declared->declaration, ": verdict") != NULL;
        bool packets = declared->flags && strstr(declared->flags, "dynamic");
        ck_assert_int_eq(set == TABLE_SETS, verdicts || packets);
        if (set == TABLE_SETS)
            continue;
        ck_assert_int_eq(declared->is_map, *set_value_fields(set) != 0);
        ck_assert_int_eq(set_is_ranged(set), declared->flags != NULL);
        ck_assert_int_eq(set_owner(set) == OWNER_FRONTEND || set_owner(set) == OWNER_PORT,
                         set < NUMBER_SETS);
        listed++;
    }
    ck_assert_uint_eq(listed, TABLE_SETS);
    layout_free(&base);
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

TEST(changes_before_a_commit_cancel_out)
{
    want(SET_HAIRPIN, 1, 0);
    drop(SET_HAIRPIN, 1);
    apply("");
    ck_assert_uint_eq(contents.all.n, 0);
    want(SET_HAIRPIN, 1, 0);
    apply("+1 ");
    drop(SET_HAIRPIN, 1);
    want(SET_HAIRPIN, 1, 0);
    apply("");
    drop(SET_HAIRPIN, 1);
    apply("-1 ");
}

TEST(wanted_by_several)
{
    want(SET_AFFINITY_BACKENDS, 1, 7);
    want(SET_AFFINITY_BACKENDS, 1, 7);
    apply("+1 ");
    want(SET_AFFINITY_BACKENDS, 1, 7);
    apply("");
    drop(SET_AFFINITY_BACKENDS, 1);
    drop(SET_AFFINITY_BACKENDS, 1);
    apply("");
    check_value(find(SET_AFFINITY_BACKENDS, 1), 7, 7);
    drop(SET_AFFINITY_BACKENDS, 1);
    apply("-1 ");
}

TEST(another_value)
{
    want(SET_AFFINITY_NUMBERS, 1, 7);
    apply("+1 ");
    want(SET_AFFINITY_NUMBERS, 1, 8);
    drop(SET_AFFINITY_NUMBERS, 1);
    check_value(find(SET_AFFINITY_NUMBERS, 1), 8, 7);
    check_pending("~1 ");
    want(SET_AFFINITY_NUMBERS, 1, 7);
    drop(SET_AFFINITY_NUMBERS, 1);
    apply("");
    want(SET_AFFINITY_NUMBERS, 1, 8);
    drop(SET_AFFINITY_NUMBERS, 1);
    apply("~1 ");
    check_value(find(SET_AFFINITY_NUMBERS, 1), 8, 8);
    drop(SET_AFFINITY_NUMBERS, 1);
    apply("-1 ");
}

TEST(sets_do_not_mix)
{
    want(SET_AFFINITY_BACKENDS, 1, 7);
    want(SET_LOCAL_AFFINITY_BACKENDS, 1, 8);
    ck_assert_ptr_null(find(SET_AFFINITY_NUMBERS, 1));
    check_value(find(SET_AFFINITY_BACKENDS, 1), 7, 0);
    check_value(find(SET_LOCAL_AFFINITY_BACKENDS, 1), 8, 0);
    contents_apply(&contents);
    drop(SET_AFFINITY_BACKENDS, 1);
    apply("-1 ");
    ck_assert_ptr_nonnull(find(SET_LOCAL_AFFINITY_BACKENDS, 1));
}

/* A key that begins another one is another one. */
TEST(keys_of_other_lengths)
{
    struct key longer = key(1);
    key_put_number(&longer, 0);
    want(SET_HAIRPIN, 1, 0);
    ck_assert_ptr_null(contents_find(&contents, SET_HAIRPIN, &longer));
    contents_want(&contents, SET_HAIRPIN, &longer, NULL);
    ck_assert_uint_eq(contents.all.n, 2);
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

TEST(the_kernel_forgotten)
{
    want(SET_HAIRPIN, 1, 0);
    want(SET_HAIRPIN, 2, 0);
    want(SET_HAIRPIN, 3, 0);
    apply("+1 +2 +3 ");
    drop(SET_HAIRPIN, 1);
    want(SET_HAIRPIN, 4, 0);
    contents_forget_kernel(&contents);
    check_pending("+2 +3 +4 ");
    ck_assert_ptr_null(find(SET_HAIRPIN, 1));
    contents_forget_kernel(&contents); /* again changes nothing */
    check_pending("+2 +3 +4 ");
    ck_assert(adopt(SET_HAIRPIN, 1, 0));
    ck_assert(adopt(SET_HAIRPIN, 2, 0));
    apply("-1 +3 +4 ");
}

UNIT_FIXTURE(setup, teardown)
