/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What every unit test file shares: TEST(name) { } is a test, and all of a program run. Run one
 * with UNIT_ONLY=name, in a debugger with CK_FORK=no as well. */
#ifndef KUBE_NFTD_TESTS_UNIT_H
#define KUBE_NFTD_TESTS_UNIT_H

#include "kube-nftd/base.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COUNT(array) ((int)(sizeof(array) / sizeof((array)[0])))

/* Adds a test that runs @n times. */
void unit_add(const TTest *test, int n);

/* Whether UNIT_CASE has this name, or is not set. A program without a case or test that is chosen
 * fails. */
bool unit_chooses_case(const char *name);

/* What is called before and after each test; of several fixtures each runs all tests. */
void unit_add_fixture(void (*set_up)(void), void (*tear_down)(void));

#define UNIT_ADD(name, n)                                                                          \
    static void name##_fn(int _i);                                                                 \
    static const TTest name##_test = {#name, name##_fn, __FILE__, __LINE__};                       \
    __attribute__((constructor)) static void name##_add(void)                                      \
    {                                                                                              \
        unit_add(&name##_test, (int)(n));                                                          \
    }

/* A test that runs @n times, with _i from 0. */
#define TESTS(name, n)                                                                             \
    UNIT_ADD(name, n)                                                                              \
    static void name##_fn(int _i CK_ATTRIBUTE_UNUSED)

#define TEST(name) TESTS(name, 1)
#define LONG_TEST(name) TESTS(name, unit_long(1))
#define EACH_FAMILY(name) TESTS(name, FAMILY_COUNT)

/* A test of each row of @table, which is *row. */
#define TEST_ROWS(name, table)                                                                     \
    static void name##_row(const __typeof__((table)[0]) *row);                                     \
    UNIT_ADD(name, COUNT(table))                                                                   \
    static void name##_fn(int _i)                                                                  \
    {                                                                                              \
        name##_row(&(table)[_i]);                                                                  \
    }                                                                                              \
    static void name##_row(const __typeof__((table)[0]) *row)

#define UNIT_FIXTURE(set_up, tear_down)                                                            \
    __attribute__((constructor)) static void add_fixture_##set_up(void)                            \
    {                                                                                              \
        unit_add_fixture(set_up, tear_down);                                                       \
    }

/* What the present test has logged: how many lines of @level, how many with @words in them, and the
 * last one of @level or worse, "" if there is none. UNIT_LOG=1 shows all of it. */
unsigned logged(enum log_level level);
unsigned logged_with(const char *words);
const char *last_logged(enum log_level level);

/* Writes what was logged of @level or worse, without times and the test's folder, and forgets it.
 */
void write_logged(FILE *out, enum log_level level);
void forget_logged(void); /* and the budgets of what logs are whole again */

/* A folder of the present test, which goes with all that is in it. Names may have slashes: folders
 * come as they are needed. Paths are kept until the test ends. */
const char *test_folder(void);
char *in_folder(const char *name);
void put_file_bytes(const char *name, const char *bytes, size_t length);
void put_file(const char *name, const char *text);

/* A number that may be given by hand. */
static inline int unit_number(const char *name, int otherwise)
{
    const char *text = getenv(name);
    return text ? (int)strtol(text, NULL, 10) : otherwise;
}

/* How many steps of a long random history to take: @n, or a tenth of it where UNIT_SHORT is set,
 * as it is for valgrind; by hand, UNIT_STEPS. */
static inline int unit_steps(int n)
{
    return unit_number("UNIT_STEPS", getenv("UNIT_SHORT") ? n / 10 : n);
}

/* How often to run what takes long: @n times, not at all where UNIT_SHORT is set. */
static inline int unit_long(int n)
{
    return getenv("UNIT_SHORT") ? 0 : n;
}

/* How many random histories there are: @n; by hand, UNIT_HISTORIES. */
static inline int unit_histories(int n)
{
    return unit_number("UNIT_HISTORIES", n);
}

/* The number of the random history that is test @i: by hand, UNIT_SEED=1000 gives others. */
static inline int unit_seed(int i)
{
    return i + unit_number("UNIT_SEED", 0);
}

#endif
