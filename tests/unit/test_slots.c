/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Which backend goes into which slot: worked examples, and what must hold for any input. */
#include "unit.h"

#include "ruleset/slots.h"

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

/* The slots as they are by a plan. */
static void carry_out(struct slot_plan *plan, const struct backend *old, size_t n_old, size_t n,
                      struct backend *out)
{
    for (size_t i = 0; i < n; i++)
        out[i] = i < n_old ? old[i] : plan->added[i - n_old];
    for (size_t i = 0; i < plan->moves.n; i++) {
        const struct slot_move *move = &plan->moves.v[i];
        ck_assert_uint_lt(move->slot, n < n_old ? n : n_old);
        ck_assert(i == 0 || plan->moves.v[i - 1].slot < move->slot);
        ck_assert_int_ne(backend_compare(&out[move->slot], &move->backend), 0);
        out[move->slot] = move->backend;
    }
    ck_assert_int_eq(plan->added != NULL, n > n_old);
    slot_plan_clear(plan);
}

static void arrange(const struct backend *old, size_t n_old, const struct backend *wanted, size_t n,
                    struct backend *out)
{
    struct slot_plan plan = {0};
    slots_arrange(&(struct backends){old, n_old}, &(struct backends){wanted, n}, &plan);
    carry_out(&plan, old, n_old, n, out);
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
    arrange(slots, strlen(old), sorted, strlen(wanted), out);
    for (size_t i = 0; wanted[i]; i++)
        got[i] = (char)('0' + number_of(&out[i]));
    ck_assert_str_eq(got, expected);
}

TEST(examples)
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

TESTS(any_input, 4)
{
    seed = (unsigned)_i;
    for (int round = 0; round < 2000; round++) {
        struct backend old[MOST], wanted[MOST], out[MOST];
        size_t n_old = below(MOST + 1), n = choose(wanted, below(MOST + 1));
        for (size_t i = 0; i < n_old; i++)
            old[i] = backend(below(4) ? 1 + below(MOST) : 0);
        arrange(old, n_old, wanted, n, out);
        check_permutation(out, wanted, n);
        check_least(old, n_old, wanted, n, out);
    }
}

/* ---- differences ---- */

/* With so many slots that they are looked through in another way. */
TESTS(difference_of_many, 4)
{
    enum { MANY = 3000, SOME = 20 };
    static struct backend old[MANY], sorted[MANY], out[MANY];
    struct backend went[SOME], came[SOME], again[MANY];
    seed = 300 + (unsigned)_i;
    for (unsigned i = 0; i < MANY; i++) {
        old[i] = (struct backend){.port = (uint16_t)(8080 + i % 2)};
        memcpy(old[i].address.bytes + (_i % 2 ? 12 : 0),
               (uint8_t[]){10, 244, (uint8_t)(i >> 8), (uint8_t)i}, 4);
    }
    shuffle(old, MANY);
    for (unsigned i = 0; i < SOME; i++) {
        went[i] = old[i * (MANY / SOME) + below(MANY / SOME)];
        came[i] = went[i];
        came[i].port = 9000;
    }
    qsort(went, SOME, sizeof(*went), backend_compare);
    qsort(came, SOME, sizeof(*came), backend_compare);
    struct slot_plan plan = {0};
    const struct backends slots = {old, MANY}, gone = {went, SOME}, new = {came, SOME};
    ck_assert(slots_rearrange(&slots, MANY, &gone, &new, &plan));
    carry_out(&plan, old, MANY, MANY, out);
    ck_assert_uint_eq(count_changed(old, MANY, out, MANY), SOME);
    memcpy(sorted, out, sizeof(sorted));
    qsort(sorted, MANY, sizeof(*sorted), backend_compare);
    for (unsigned i = 0; i < SOME; i++) {
        ck_assert_ptr_null(bsearch(&went[i], sorted, MANY, sizeof(*sorted), backend_compare));
        ck_assert_ptr_nonnull(bsearch(&came[i], sorted, MANY, sizeof(*sorted), backend_compare));
    }
    ck_assert(slots_rearrange(&slots, MANY, &gone, &(struct backends){NULL, 0}, &plan));
    carry_out(&plan, old, MANY, MANY - SOME, again);
    ck_assert_uint_le(count_changed(old, MANY, again, MANY - SOME), SOME);
}

TEST(what_is_not_there_cannot_go)
{
    struct backend old[] = {backend(1), backend(2)}, other = backend(3);
    struct slot_plan plan = {0};
    const struct backends slots = {old, 2}, went = {&other, 1}, none = {NULL, 0};
    ck_assert(!slots_rearrange(&slots, 2, &went, &none, &plan));
    ck_assert(!slots_rearrange(&slots, 1, &(struct backends){&old[1], 1}, &none, &plan));
    ck_assert_uint_eq(plan.moves.n, 0);
    ck_assert_ptr_null(plan.added);
}
