/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "unit.h"

#include "table/state.h"

#include <math.h>

TEST(the_first_repair_waits_for_nothing)
{
    struct repair_pace pace = {0};
    ck_assert_double_le(repair_pace_due(&pace), 0);
}

/* Somebody undoes each repair at once. */
TEST(a_fight_gets_slower_up_to_a_limit)
{
    struct repair_pace pace = {0};
    double now = 1000, before = 0;
    for (int i = 0; i < 12; i++) {
        repair_pace_done(&pace, now, 0.001);
        double wait = repair_pace_due(&pace) - now;
        ck_assert_double_eq_tol(wait, fmin(REPAIR_FIRST_WAIT * pow(2, i), REPAIR_LONGEST_WAIT),
                                1e-9);
        ck_assert_double_ge(wait, before);
        before = wait;
        now = repair_pace_due(&pace);
    }
    ck_assert_double_eq_tol(before, REPAIR_LONGEST_WAIT, 1e-9);
}

TEST(a_dear_repair_waits_longer)
{
    struct repair_pace pace = {0};
    repair_pace_done(&pace, 1000, 2);
    ck_assert_double_eq_tol(repair_pace_due(&pace), 1020, 1e-9);
}

TEST(a_calm_ends_it)
{
    struct repair_pace pace = {0};
    double now = 1000;
    for (int i = 0; i < 6; i++, now = repair_pace_due(&pace))
        repair_pace_done(&pace, now, 0);
    now += 10 * pace.wait;
    repair_pace_done(&pace, now, 0);
    ck_assert_double_eq_tol(repair_pace_due(&pace) - now, REPAIR_FIRST_WAIT, 1e-9);
}
