/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "source/retry.h"

#include "unit.h"

TEST(doubles_up_to_the_cap)
{
    static const double expected[] = {0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 30, 30};
    struct backoff backoff;
    backoff_init(&backoff, 100);
    for (size_t i = 0; i < sizeof(expected) / sizeof(*expected); i++)
        ck_assert_double_eq_tol(backoff_next(&backoff, 100, 0), expected[i], 1e-9);
}

TEST(spreads_up_to_twice)
{
    struct backoff backoff;
    backoff_init(&backoff, 0);
    ck_assert_double_eq_tol(backoff_next(&backoff, 0, 1), 1.6, 1e-9);
    /* The spread of one wait does not carry over to the next. */
    ck_assert_double_eq_tol(backoff_next(&backoff, 0, 0.5), 2.4, 1e-9);
    for (int i = 0; i < 9; i++)
        backoff_next(&backoff, 0, 1);
    ck_assert_double_eq_tol(backoff_next(&backoff, 0, 1), 60, 1e-9);
}

TEST(starts_over_after_two_minutes)
{
    struct backoff backoff;
    backoff_init(&backoff, 1000);
    backoff_next(&backoff, 1000, 0);
    backoff_next(&backoff, 1060, 0);
    ck_assert_double_eq_tol(backoff_next(&backoff, 1120, 0), 3.2, 1e-9);
    ck_assert_double_eq_tol(backoff_next(&backoff, 1121, 0), 0.8, 1e-9);
    /* Two minutes from then, not from the first start. */
    ck_assert_double_eq_tol(backoff_next(&backoff, 1240, 0), 1.6, 1e-9);
    ck_assert_double_eq_tol(backoff_next(&backoff, 1242, 0), 0.8, 1e-9);
}
