/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "kube-nftd/policy/selection.h"

#include "objects.h"
#include "unit.h"

#include <string.h>

#define R ENDPOINT_READY
#define S ENDPOINT_SERVING
#define T ENDPOINT_TERMINATING
#define MOST 12

enum class { READY, FALLBACK, NEITHER };

/* Every combination of conditions (spec 3.1). */
static const struct {
    uint8_t flags;
    enum class class;
} truth[] = {
    {0, NEITHER}, {S, NEITHER},   {T, NEITHER},   {S | T, FALLBACK},
    {R, READY},   {R | S, READY}, {R | T, READY}, {R | S | T, READY},
};

START_TEST(classes)
{
    struct endpoint endpoint = {.flags = truth[_i].flags};
    enum class class = truth[_i].class;
    ck_assert_int_eq(endpoint_is_ready(&endpoint), class == READY);
    ck_assert_int_eq(endpoint_is_fallback(&endpoint), class == FALLBACK);
    uint8_t set = 0xee;
    struct selection selection = select_endpoints(&endpoint, 1, &set);
    ck_assert_uint_eq(set, class == NEITHER ? 0 : SET_CLUSTER);
    ck_assert_int_eq(selection.has_any, class != NEITHER);
    ck_assert_uint_eq(selection.cluster_size, class == NEITHER ? 0 : 1);
}
END_TEST

/* Each pair of combinations: one ready endpoint keeps all others out. */
START_TEST(pairs)
{
    for (size_t i = 0; i < 8; i++) {
        struct endpoint both[] = {{.flags = truth[_i].flags}, {.flags = truth[i].flags}};
        enum class a = truth[_i].class, b = truth[i].class, best = a < b ? a : b;
        uint8_t sets[2];
        struct selection selection = select_endpoints(both, 2, sets);
        ck_assert_uint_eq(sets[0], best != NEITHER && a == best ? SET_CLUSTER : 0);
        ck_assert_uint_eq(sets[1], best != NEITHER && b == best ? SET_CLUSTER : 0);
        ck_assert_int_eq(selection.has_any, best != NEITHER);
        ck_assert_uint_eq(selection.cluster_size,
                          best == NEITHER ? 0 : (size_t)(a == best) + (b == best));
    }
}
END_TEST

static void expect_sets(const char *words, const char *expected, size_t size)
{
    struct endpoint endpoints[MOST];
    uint8_t sets[MOST];
    char text[MOST + 1] = "";
    size_t n = 0;
    each_word(words, word) endpoints[n++] = (struct endpoint){.flags = make_flags(word)};
    struct selection selection = select_endpoints(endpoints, n, sets);
    for (size_t i = 0; i < n; i++)
        text[i] = sets[i] & SET_CLUSTER ? '+' : '.';
    ck_assert_str_eq(text, expected);
    ck_assert_uint_eq(selection.cluster_size, size);
    ck_assert_int_eq(selection.has_any, size > 0);
}

START_TEST(examples)
{
    expect_sets("", "", 0);
    expect_sets("rs rs rs", "+++", 3);
    /* A rolling update: the old pods still serve, but new connections go to the new ones. */
    expect_sets("st st rs", "..+", 1);
    /* The last pods terminate. */
    expect_sets("st s t st -", "+..+.", 2);
    /* A terminating pod that fails its readiness probe gets nothing, not even as the last. */
    expect_sets("t t", "..", 0);
    expect_sets("s s -", "...", 0);
    /* publishNotReadyAddresses. */
    expect_sets("rst rt st", "++.", 2);
}
END_TEST

START_TEST(none_at_all)
{
    struct selection selection = select_endpoints(NULL, 0, NULL);
    ck_assert(!selection.has_any);
    ck_assert_uint_eq(selection.cluster_size, 0);
}
END_TEST

/* The rule once more, said the other way round: who is out, and why. */
static bool is_out(const struct endpoint *endpoints, size_t n, size_t i)
{
    uint8_t flags = endpoints[i].flags;
    if (flags & R)
        return false;
    if (!(flags & S) || !(flags & T))
        return true;
    for (size_t j = 0; j < n; j++)
        if (endpoints[j].flags & R)
            return true;
    return false;
}

START_TEST(by_chance)
{
    uint64_t chance = 20261121;
    for (int round = 0; round < 5000; round++) {
        struct endpoint endpoints[MOST], before[MOST];
        uint8_t sets[MOST + 1];
        size_t n = dice(&chance, MOST + 1), size = 0;
        /* Mostly without ready ones: else the fallback would hardly ever come up. */
        unsigned most = dice(&chance, 3) ? 4 : 8;
        memset(endpoints, 0, sizeof(endpoints));
        for (size_t i = 0; i < n; i++)
            endpoints[i].flags = truth[dice(&chance, most)].flags;
        memcpy(before, endpoints, sizeof(before));
        memset(sets, 0xee, sizeof(sets));
        struct selection selection = select_endpoints(endpoints, n, sets);
        for (size_t i = 0; i < n; i++) {
            ck_assert_uint_eq(sets[i], is_out(endpoints, n, i) ? 0 : SET_CLUSTER);
            size += sets[i] != 0;
        }
        ck_assert_uint_eq(sets[n], 0xee);
        ck_assert_uint_eq(selection.cluster_size, size);
        ck_assert_int_eq(selection.has_any, size > 0);
        ck_assert_mem_eq(endpoints, before, sizeof(before));
    }
}
END_TEST

static void add_tests(TCase *tcase)
{
    tcase_add_loop_test(tcase, classes, 0, 8);
    tcase_add_loop_test(tcase, pairs, 0, 8);
    tcase_add_test(tcase, examples);
    tcase_add_test(tcase, none_at_all);
    tcase_add_test(tcase, by_chance);
}

UNIT_MAIN("selection", add_tests)
