/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The table of one family and other programs: who owns it, what they changed and how it is put
 * right. Against a kernel in memory (fake_kernel.h).
 */
#include "unit.h"

#include "ruleset_fixture.h"

static const struct wish three = {.wanted = true, .all = "123"};

static void check_three(unsigned number)
{
    const struct world nothing = {0};
    check_wish(number, &three, &nothing);
}

static void begin_owned(int which)
{
    config.owned = true;
    begin(which);
    tell(1, &three);
    tell(2, &three);
    commit();
}

/* ---- owner ---- */

START_TEST(the_table_is_owned_if_it_shall_be)
{
    begin_owned(_i);
    ck_assert_uint_eq(fake_kernel_table_flags(family), NFT_TABLE_OWNED | NFT_TABLE_PERSISTENT);
    ck_assert(!ruleset_is_owned_elsewhere(ruleset));
    check_three(1);
}
END_TEST

START_TEST(the_table_is_everybodys_otherwise)
{
    begin(_i);
    tell(1, &three);
    commit();
    ck_assert_uint_eq(fake_kernel_table_flags(family), 0);
}
END_TEST

/* The earlier daemon died. */
START_TEST(a_table_without_an_owner_is_claimed)
{
    begin_owned(_i);
    fake_kernel_set_owner(family, FAKE_OWNER_NONE);
    restart();
    tell(1, &three);
    tell(2, &three);
    commit();
    ck_assert_uint_eq(fake_kernel_table_flags(family), NFT_TABLE_OWNED | NFT_TABLE_PERSISTENT);
    ck_assert_uint_eq(fake_kernel_counts()->transactions, 1); /* that claims it */
    ck_assert_uint_eq(fake_kernel_counts()->tables, 0);
    ck_assert_uint_eq(fake_kernel_counts()->added + fake_kernel_counts()->deleted, 0);
    check_three(2);
}
END_TEST

/* The earlier daemon is still running. */
START_TEST(an_owner_elsewhere_is_waited_for)
{
    begin_owned(_i);
    fake_kernel_set_owner(family, FAKE_OWNER_ELSEWHERE);
    restart();
    tell(1, &three);
    for (int i = 0; i < 3; i++) {
        struct error err = {0};
        ck_assert_int_eq(ruleset_commit(ruleset, sock, now, NULL, &err), -1);
        ck_assert_ptr_nonnull(strstr(err.text, "is owned by a program that is running"));
        ck_assert_ptr_nonnull(strstr(err.text, "4711"));
        error_clear(&err);
        ck_assert(ruleset_is_owned_elsewhere(ruleset));
    }
    ck_assert_uint_eq(fake_kernel_counts()->transactions, 0);
    fake_kernel_set_owner(family, FAKE_OWNER_NONE);
    commit();
    ck_assert(!ruleset_is_owned_elsewhere(ruleset));
    check_three(1);
}
END_TEST

/* Whoever does not want to own the table cannot write to it either while another one does. */
START_TEST(an_owner_elsewhere_is_waited_for_without_owning)
{
    begin_owned(_i);
    fake_kernel_set_owner(family, FAKE_OWNER_ELSEWHERE);
    config.owned = false;
    restart();
    tell(1, &three);
    commit_fails();
    ck_assert(ruleset_is_owned_elsewhere(ruleset));
    fake_kernel_set_owner(family, FAKE_OWNER_NONE);
    commit();
    ck_assert_uint_eq(fake_kernel_counts()->tables, 0); /* as good as any other */
    ck_assert_uint_eq(fake_kernel_table_flags(family), NFT_TABLE_PERSISTENT);
}
END_TEST

/* A table cannot be made into one that has an owner. */
START_TEST(a_table_that_cannot_be_owned_is_replaced)
{
    begin(_i);
    tell(1, &three);
    commit();
    config.owned = true;
    restart();
    tell(1, &three);
    commit_replaces_the_table();
    ck_assert_uint_eq(fake_kernel_table_flags(family), NFT_TABLE_OWNED | NFT_TABLE_PERSISTENT);
    check_three(1);
}
END_TEST

START_TEST(an_owned_table_is_not_cleaned_up)
{
    struct error err = {0};
    bool existed;
    begin_owned(_i);
    fake_kernel_set_owner(family, FAKE_OWNER_ELSEWHERE);
    ck_assert_int_eq(ruleset_cleanup(sock, family, &existed, &err), -1);
    ck_assert_ptr_nonnull(strstr(err.text, "is owned by a program that is running"));
    error_clear(&err);
    ck_assert_ptr_nonnull(fake_kernel_comment(family));
    fake_kernel_set_owner(family, FAKE_OWNER_NONE);
    ck_assert_int_eq(ruleset_cleanup(sock, family, &existed, &err), 0);
    ck_assert(existed);
    ck_assert_ptr_null(fake_kernel_comment(family));
}
END_TEST

static void add_tests(TCase *tcase)
{
    tcase_add_checked_fixture(tcase, setup, teardown);
#define EACH_FAMILY(test) tcase_add_loop_test(tcase, test, 0, FAMILY_COUNT)
    EACH_FAMILY(the_table_is_owned_if_it_shall_be);
    EACH_FAMILY(the_table_is_everybodys_otherwise);
    EACH_FAMILY(a_table_without_an_owner_is_claimed);
    EACH_FAMILY(an_owner_elsewhere_is_waited_for);
    EACH_FAMILY(an_owner_elsewhere_is_waited_for_without_owning);
    EACH_FAMILY(a_table_that_cannot_be_owned_is_replaced);
    EACH_FAMILY(an_owned_table_is_not_cleaned_up);
}

UNIT_MAIN("ruleset_foreign", add_tests)
