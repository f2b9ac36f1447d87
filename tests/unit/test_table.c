/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The table of one family against a kernel in memory, which checks after each transaction what
 * packets rely on (fake_kernel.h): cases in text, each for both families.
 */
#include "table_commands.h"
#include "unit.h"

/* ---- cases ---- */

static void set_up(void)
{
    set_up_desired();
    forget_noted();
    forget_daemons();
}

static void tear_down(void)
{
    forget_noted();
    forget_daemons();
    teardown();
}

/* A case runs for each family; what comes of it is written once. */
static void run_case(const char *file, int number, int which)
{
    if (which > 0 && getenv("UNIT_WRITE"))
        return;
    begin(which);
    script_run(file, number);
}

TESTS(contents, script_cases("table") * FAMILY_COUNT)
{
    run_case("table", _i / FAMILY_COUNT, _i % FAMILY_COUNT);
}

TESTS(traffic, script_cases("table_traffic") * FAMILY_COUNT)
{
    run_case("table_traffic", _i / FAMILY_COUNT, _i % FAMILY_COUNT);
}

TESTS(foreign, script_cases("table_foreign") * FAMILY_COUNT)
{
    run_case("table_foreign", _i / FAMILY_COUNT, _i % FAMILY_COUNT);
}

TESTS(rejected, script_cases("table_rejected") * FAMILY_COUNT)
{
    run_case("table_rejected", _i / FAMILY_COUNT, _i % FAMILY_COUNT);
}

TESTS(flowtable, script_cases("table_flowtable") * FAMILY_COUNT)
{
    run_case("table_flowtable", _i / FAMILY_COUNT, _i % FAMILY_COUNT);
}

TESTS(limits, script_cases("table_limits") * FAMILY_COUNT)
{
    run_case("table_limits", _i / FAMILY_COUNT, _i % FAMILY_COUNT);
}

/* ---- what was applied stays ---- */

static struct desired applied;

/* Whether the elements of frontend 2, not of its service port, change. */
static bool frontend_changes(const struct wish *was)
{
    const struct wish shall = desired_wish(2);
    return was->external != shall.external || was->local != shall.local ||
           (was->timeout > 0) != (shall.timeout > 0) ||
           applied.frontends[2].port != desired.frontends[2].port ||
           (was->sources != NULL) != (shall.sources != NULL);
}

/* Whether it had the count of its service port, which it still has: they are one then. */
static bool is_one_with_port(const struct wish *was)
{
    return !was->external && !was->local && was->timeout == 0 &&
           applied.frontends[2].port == desired.frontends[2].port;
}

static void check_stays(const struct wish *was)
{
    const struct wish other = wish_in(&applied, 1), third = desired_wish(3);
    const size_t rejected = frontend_changes(was) && !is_one_with_port(was) ? 2 : 1;
    ck_assert(goes(2, was) && goes(1, &other) && goes(3, &third));
    ck_assert_uint_eq(ruleset_stats(ruleset)->rejected, rejected);
}

static void check_all_goes(void)
{
    for (unsigned i = 1; i <= 3; i++) {
        const struct wish wish = desired_wish(i);
        ck_assert(goes(i, &wish));
    }
    ck_assert_uint_eq(ruleset_stats(ruleset)->rejected, 0);
}

static const char *const before[] = {"123",
                                     "123 external",
                                     "123 here=2 external local",
                                     "123 external local",
                                     "123 here=12 local",
                                     "123 timeout=100 port=20",
                                     "12 external from=0-40,60-top",
                                     "-",
                                     "123 timeout=100"};
static const char *const after[] = {"1245", "45 here=4 external local",
                                    "4 external timeout=100 port=30 from=10-19", "12 here=1 local",
                                    "3..3 timeout=200 port=20"};
#define CHANGES (COUNT(before) * COUNT(after))

/* Frontend 2 and its service port change, which the kernel rejects; 1 is of service port 20. */
TESTS(what_was_applied_stays, CHANGES *FAMILY_COUNT)
{
    begin(_i % FAMILY_COUNT);
    script_line("set 1 12 timeout=100 port=20");
    script_line("set 2 %s", before[_i / FAMILY_COUNT % COUNT(before)]);
    script_line("set 3 12");
    script_line("sync");
    applied = desired;
    const struct wish was = wish_in(&applied, 2);
    const struct sizes sizes = sizes_now(family);

    script_line("set 2 %s", after[_i / FAMILY_COUNT / COUNT(before)]);
    script_line("set 3 13");
    script_line("reject all 2 ENOSPC");
    script_line("commit within=4");
    check_stays(&was);
    const struct sizes same = sizes_now(family);
    const unsigned port = applied.frontends[2].port;
    if (was.timeout == 0 || port == desired.frontends[2].port || port == 20)
        check_same_sizes(&same, &sizes); /* else nobody has the affine service port any more */

    script_line("set 3 23"); /* a read-back does not change that */
    fake_kernel_fail(1, FAKE_LOSES_ANSWER);
    commit_fails();
    commit();
    check_stays(&was);

    script_line("accept");
    script_line("retry");
    check_all_goes();
    script_line("drop 1..3");
    sync_table();
    ck_assert_uint_eq(ruleset->frontends.n + ruleset->ports.n, 0);
}

/* ---- what is explained ---- */

static const char *const explained[] = {"gone",
                                        "123",
                                        "-",
                                        "1234 here=23 local",
                                        "1234 local",
                                        "1234 external",
                                        "1234 here=2 external local",
                                        "1234 external local",
                                        "1234 external from=0-10,20-30",
                                        "12 timeout=100",
                                        "12 here=1 local timeout=100"};

/* What one wish made of the kernel is as that one desires, also for a daemon that did not program
 * it, and as no other one does. */
TESTS(what_is_not_desired_differs, COUNT(explained) * FAMILY_COUNT)
{
    const int which = _i / FAMILY_COUNT;
    config.detector = DETECT_CIDRS;
    begin(_i % FAMILY_COUNT);
    script_line("set 1 %s", explained[which]);
    script_line("sync");
    ck_assert(!script_line("explain 1"));
    for (int other = 0; other < COUNT(explained); other++) {
        restart();
        script_line("set 1 %s", explained[other]);
        ck_assert_int_eq(script_line("explain 1"), other != which);
    }
}

/* ---- lines with addresses ---- */

/* Lines of the log, and what is explained, have addresses. */
TESTS(names, script_cases("table_names"))
{
    run_case("table_names", _i, FAMILY_IPV4);
}

UNIT_FIXTURE(set_up, tear_down)
