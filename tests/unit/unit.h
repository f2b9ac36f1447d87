/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What every unit test file shares: a suite of one test case, run by main(). */
#ifndef KUBE_NFTD_TESTS_UNIT_H
#define KUBE_NFTD_TESTS_UNIT_H

#include <check.h>
#include <stdlib.h>

/* How many steps of a long random history to take: @n, or a tenth of it where UNIT_SHORT is set,
 * as it is for valgrind. */
static inline int unit_steps(int n)
{
    return getenv("UNIT_SHORT") ? n / 10 : n;
}

/* Defines main(): runs the tests that @add_tests adds to the case. Exit status: any failed. */
#define UNIT_MAIN(name, add_tests)                                                                 \
    int main(void)                                                                                 \
    {                                                                                              \
        Suite *suite = suite_create(name);                                                         \
        TCase *tcase = tcase_create(name);                                                         \
        tcase_set_timeout(tcase, 300);                                                             \
        add_tests(tcase);                                                                          \
        suite_add_tcase(suite, tcase);                                                             \
        SRunner *runner = srunner_create(suite);                                                   \
        srunner_run_all(runner, CK_ENV);                                                           \
        int failed = srunner_ntests_failed(runner);                                                \
        srunner_free(runner);                                                                      \
        return failed ? EXIT_FAILURE : EXIT_SUCCESS;                                               \
    }

#endif
