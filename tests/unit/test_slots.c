/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Which backend goes into which slot: worked examples, and what must hold for any input. */
#include "unit.h"

#include "kube-nftd/ruleset/slots.h"

#include <string.h>

#define MOST 12 /* backends and slots in random inputs */

static unsigned seed;

static unsigned below(unsigned n)
{
    return (unsigned)rand_r(&seed) % n;
}

/* Backend 1, 2, 3...; 0 is an empty slot. */
static struct backend backend(unsigned number)
{
    struct backend b = {.port = number ? 8080 : 0};
    if (number)
        memcpy(b.address.bytes, (uint8_t[]){10, 244, 0, (uint8_t)number}, 4);
    return b;
}

static unsigned number_of(const struct backend *b)
{
    return b->address.bytes[3];
}

/* Arranges the backends named by the digits of @wanted over the slots @old ('.' is an empty one)
 * and compares with @expected. */
static void check_example(const char *old, const char *wanted, const char *expected)
{
    struct backend slots[16], sorted[16], out[16];
    char got[17] = "";
    for (size_t i = 0; old[i]; i++)
        slots[i] = backend(old[i] == '.' ? 0 : (unsigned)(old[i] - '0'));
    for (size_t i = 0; wanted[i]; i++)
        sorted[i] = backend((unsigned)(wanted[i] - '0'));
    slots_arrange(slots, strlen(old), sorted, strlen(wanted), out);
    for (size_t i = 0; wanted[i]; i++)
        got[i] = (char)('0' + number_of(&out[i]));
    ck_assert_str_eq(got, expected);
}

START_TEST(examples)
{
    check_example("", "123", "123");
    check_example("123", "123", "123");
    check_example("321", "123", "321");
    check_example("12345", "1345", "1534"); /* the last one moves into the gap */
    check_example("12345", "1234", "1234");
    check_example("123", "1234", "1234");
    check_example("123", "134", "143");
    check_example("1234", "12", "12");
    check_example("1234", "34", "34"); /* nothing has a place below 2: in order */
    check_example("1.3", "123", "123");
    check_example("...", "12", "12");
    check_example("1.3", "134", "143");
    check_example("113", "123", "123"); /* a backend left over in a second slot */
    check_example("123", "456", "456");
    check_example("12", "", "");
}
END_TEST

START_TEST(nothing_wanted_writes_nothing)
{
    struct backend old = backend(1), out = backend(7);
    slots_arrange(&old, 1, NULL, 0, &out);
    ck_assert_uint_eq(number_of(&out), 7);
    slots_arrange(NULL, 0, NULL, 0, NULL);
}
END_TEST

START_TEST(port_zero_is_empty)
{
    struct backend b = backend(1);
    ck_assert(!slot_is_empty(&b));
    b.port = 0;
    ck_assert(slot_is_empty(&b));
    b = (struct backend){.port = 1};
    ck_assert(!slot_is_empty(&b));
}
END_TEST

/* ---- any input ---- */

/* A random sorted choice of backends. */
static size_t choose(struct backend *out, size_t most)
{
    size_t n = 0;
    unsigned odds = 1 + below(3);
    for (unsigned number = 1; number <= MOST && n < most; number++)
        if (below(3) < odds)
            out[n++] = backend(number);
    return n;
}

static void shuffle(struct backend *v, size_t n)
{
    for (size_t i = n; i > 1; i--) {
        size_t j = below((unsigned)i);
        struct backend swap = v[i - 1];
        v[i - 1] = v[j];
        v[j] = swap;
    }
}

static bool is_wanted(const struct backend *b, const struct backend *wanted, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (backend_compare(b, &wanted[i]) == 0)
            return true;
    return false;
}

static size_t count_changed(const struct backend *old, size_t n_old, const struct backend *new,
                            size_t n)
{
    size_t changed = 0;
    for (size_t i = 0; i < n; i++)
        changed += i >= n_old || backend_compare(&old[i], &new[i]) != 0;
    return changed;
}

static void check_permutation(const struct backend *out, const struct backend *wanted, size_t n)
{
    struct backend sorted[MOST];
    memcpy(sorted, out, n * sizeof(*out));
    qsort(sorted, n, sizeof(*sorted), backend_compare);
    for (size_t i = 0; i < n; i++)
        ck_assert_int_eq(backend_compare(&sorted[i], &wanted[i]), 0);
}

/* What stays keeps its place. Each different wanted backend that is in a slot below @n can save
 * one change and no more, so this many changes are the least. */
static void check_least(const struct backend *old, size_t n_old, const struct backend *wanted,
                        size_t n, const struct backend *out)
{
    size_t kept = 0;
    for (size_t i = 0; i < n_old && i < n; i++) {
        bool first = !is_wanted(&old[i], old, i);
        if (slot_is_empty(&old[i]) || !first || !is_wanted(&old[i], wanted, n))
            continue;
        kept++;
        ck_assert_int_eq(backend_compare(&out[i], &old[i]), 0);
    }
    ck_assert_uint_eq(count_changed(old, n_old, out, n), n - kept);
}

START_TEST(any_input)
{
    seed = (unsigned)_i;
    for (int round = 0; round < 2000; round++) {
        struct backend old[MOST], wanted[MOST], out[MOST];
        size_t n_old = below(MOST + 1), n = choose(wanted, below(MOST + 1));
        for (size_t i = 0; i < n_old; i++)
            old[i] = backend(below(4) ? 1 + below(MOST) : 0);
        slots_arrange(old, n_old, wanted, n, out);
        check_permutation(out, wanted, n);
        check_least(old, n_old, wanted, n, out);
    }
}
END_TEST

/* ---- one change at a time ---- */

static size_t without(const struct backend *from, size_t n, size_t gone, struct backend *out)
{
    size_t kept = 0;
    for (size_t i = 0; i < n; i++)
        if (i != gone)
            out[kept++] = from[i];
    return kept;
}

static size_t slots_changed(const struct backend *old, size_t n_old, struct backend *wanted,
                            size_t n)
{
    struct backend out[MOST];
    qsort(wanted, n, sizeof(*wanted), backend_compare);
    slots_arrange(old, n_old, wanted, n, out);
    check_permutation(out, wanted, n);
    return count_changed(old, n_old, out, n);
}

START_TEST(one_change)
{
    seed = 100 + (unsigned)_i;
    for (int round = 0; round < 1000; round++) {
        struct backend old[MOST], wanted[MOST], stranger = backend(below(2) ? 1 : 200);
        size_t n = choose(old, MOST - 1);
        if (n == 0)
            continue;
        stranger.port = (uint16_t)(9000 + below(2)); /* none of the others has it */
        shuffle(old, n);
        size_t gone = below((unsigned)n);

        size_t fewer = without(old, n, gone, wanted);
        ck_assert_uint_eq(slots_changed(old, n, wanted, fewer), gone == n - 1 ? 0 : 1);

        memcpy(wanted, old, n * sizeof(*old));
        wanted[n] = stranger;
        ck_assert_uint_eq(slots_changed(old, n, wanted, n + 1), 1);

        memcpy(wanted, old, n * sizeof(*old));
        wanted[gone] = stranger;
        ck_assert_uint_eq(slots_changed(old, n, wanted, n), 1);
    }
}
END_TEST

static void add_tests(TCase *tcase)
{
    tcase_add_test(tcase, examples);
    tcase_add_test(tcase, nothing_wanted_writes_nothing);
    tcase_add_test(tcase, port_zero_is_empty);
    tcase_add_loop_test(tcase, any_input, 0, 4);
    tcase_add_loop_test(tcase, one_change, 0, 4);
}

UNIT_MAIN("slots", add_tests)
