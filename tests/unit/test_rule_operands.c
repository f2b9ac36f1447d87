/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Every operand of every rule of every template, changed by another program: each is found by the
 * audit, and by whoever takes the table over. Against a kernel in memory (fake_kernel.h).
 */
#include "unit.h"

#include "table_model.h"

/* One of all kinds of frontends; the first is asked for packets. */
static const char *const wishes[] = {
    "123",
    "12 timeout=60",
    "- here=1 local",
    "- here=1 local timeout=60",
    "12 external",
    "12 external timeout=60",
    "12 here=1 external local",
    "12 here=1 external local timeout=60",
    "-",
};

static const struct ruleset_config configs[] = {
    {.mark = 0x4000},
    {.mark = 0x4000, .detector = DETECT_CIDRS},
    {.mark = 0x4000, .detector = DETECT_INTERFACE, .interface = "cni0"},
    {.mark = 0x4000, .detector = DETECT_INTERFACE_PREFIX, .interface = "cali"},
    {.mark = 0x4000, .counting = COUNT_ENDPOINTS},
    {.mark = 0x4000, .masquerade_all = true, .no_fib = true, .no_reject = true},
};
#define CONFIGS COUNT(configs)

static void begin_all(int which)
{
    config = configs[which / FAMILY_COUNT];
    begin(which % FAMILY_COUNT);
    for (unsigned i = 0; i < COUNT(wishes); i++)
        set_desired(i, wishes[i]);
    if (which / FAMILY_COUNT == 0) /* they take a rule for each length of a prefix */
        want("7 12 here=1 external local timeout=60 from=10-19");
    commit();
}

static void put_right(void)
{
    restart();
    ck_assert(mend_previous());
    tell_desired();
    commit_sends(0, 0);
    ck_assert_uint_eq(ruleset_stats(ruleset)->replaced, 0);
}

/* ---- one at a time ---- */

static bool same_rules(void)
{
    struct error err = {0};
    bool same;
    ck_assert_int_eq(rules_check(ruleset, sock, &same, &err), 0);
    return same;
}

static size_t change_each_operand(size_t rule)
{
    unsigned nth = 0;
    char *what;
    for (; (what = fake_kernel_change_operand(family, rule, nth)); nth++) {
        ck_assert_msg(!same_rules(), "nobody sees: %s", what);
        fake_kernel_undo_change(family, rule);
        free(what);
    }
    return nth;
}

TESTS(each_operand_counts, 1 + unit_long(CONFIGS * FAMILY_COUNT - 1))
{
    begin_all(_i);
    size_t rules = fake_kernel_rules(family), changed = 0;
    ck_assert(same_rules());
    /* One rule in as many as there are tables: most rules are in all of them, and in another one is
     * the turn of others. */
    const size_t step = CONFIGS * FAMILY_COUNT;
    for (size_t rule = (size_t)_i; rule < rules; rule += step)
        changed += change_each_operand(rule);
    ck_assert(same_rules());
    ck_assert_uint_gt(rules, 40);
    ck_assert_uint_gt(changed, 8 * (rules / step));
}

/* ---- one of each rule ---- */

static size_t change_all(unsigned nth)
{
    size_t changed = 0;
    for (size_t rule = 0; rule < fake_kernel_rules(family); rule++) {
        char *what = fake_kernel_change_operand(family, rule, nth);
        changed += what != NULL;
        free(what);
    }
    return changed;
}

TESTS(what_counts_is_put_right, 1 + unit_long(CONFIGS * FAMILY_COUNT - 1))
{
    begin_all(_i);
    fake_kernel_tolerate();
    ck_assert(!audit_table());
    for (unsigned nth = 0; change_all(nth) > 0; nth++) {
        ck_assert(audit_table());
        put_right();
    }
    ck_assert(!audit_table());
}

UNIT_FIXTURE(set_up_desired, teardown)
