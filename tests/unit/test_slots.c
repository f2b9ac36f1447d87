/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Which backend goes into which slot: what must hold for any input; examples: cases/table. */
#include "unit.h"

#include "table/slots.h"

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

/* The slots as they are by a plan. */
static void carry_out(const struct slot_plan *plan, const struct backend *old, size_t n_old,
                      size_t n, struct backend *out)
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
}

static void arrange(const struct backend *old, size_t n_old, const struct backend *wanted, size_t n,
                    struct backend *out)
{
    struct slot_table table = {.slots = NULL};
    for (size_t i = 0; i < n_old; i++)
        slots_put(&table, (uint32_t)i, &old[i]);
    slots_set(&table, wanted, n);
    slots_make_plan(&table);
    carry_out(&table.change->plan, old, n_old, n, out);
    table.n_added = (uint32_t)slots_missing(&table);
    slots_apply(&table, (struct slot_range){0, 0});
    for (size_t i = 0; i < n; i++)
        ck_assert_int_eq(backend_compare(&table.slots[i], &out[i]), 0);
    slots_clear(&table);
}

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
