/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Texts and arrays in memory, and errors. */
#include "unit.h"

/* ---- intern ---- */

/* A copy lives as long as somebody holds a count of it. */
TEST(intern_counts)
{
    const char *a = intern("node-a");
    ck_assert_ptr_eq(intern(a), a);
    ck_assert_ptr_eq(intern("node-a"), a);
    intern_release(a);
    intern_release(a);
    ck_assert_str_eq(a, "node-a");
    const char *again = intern("node-a");
    ck_assert_ptr_eq(again, a);
    intern_release(a);
    intern_release(again);
}

/* ---- vec ---- */

TEST(vec_reserves)
{
    VEC(int) numbers = {0};
    vec_reserve(&numbers, 0);
    ck_assert_ptr_null(numbers.v);
    vec_reserve(&numbers, 100);
    ck_assert_uint_eq(numbers.cap, 100);
    ck_assert_uint_eq(numbers.n, 0);
    int *before = numbers.v;
    for (int i = 0; i < 100; i++)
        vec_push(&numbers, i);
    ck_assert_ptr_eq(numbers.v, before);
    /* An element of the array itself may be pushed while it moves. */
    vec_push(&numbers, numbers.v[99]);
    ck_assert_int_eq(numbers.v[100], 99);
    vec_free(&numbers);
}

/* ---- error ---- */

TEST(errors)
{
    struct error err = {0};
    ck_assert_int_eq(error_set(&err, "line %d", 3), -1);
    ck_assert_str_eq(err.text, "line 3");
    ck_assert_int_eq(error_prefix(&err, "file %s", "x"), -1);
    ck_assert_str_eq(err.text, "file x: line 3");
    ck_assert_int_eq(error_set(&err, "again: %s", err.text), -1);
    ck_assert_str_eq(err.text, "again: file x: line 3");
    error_clear(&err);
    ck_assert_ptr_null(err.text);
    error_clear(&err);
    error_prefix(&err, "file");
    ck_assert_str_eq(err.text, "file: failed");
    error_clear(&err);
}
