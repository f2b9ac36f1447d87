/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What every unit test file shares: a suite of one test case, run by main(). */
#ifndef KUBE_NFTD_TESTS_UNIT_H
#define KUBE_NFTD_TESTS_UNIT_H

#include <check.h>
#include <stdlib.h>

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

/* A suite of one case, filled by @add_tests, and a second one filled by @add_long_tests; either may
 * be NULL. The second one is tagged "long", so CK_EXCLUDE_TAGS=long leaves it out, as is done for
 * valgrind. Returns the exit status: whether any failed. */
static inline int unit_main(const char *name, void (*add_tests)(TCase *),
                            void (*add_long_tests)(TCase *))
{
    Suite *suite = suite_create(name);
    void (*const add[])(TCase *) = {add_tests, add_long_tests};
    for (int i = 0; i < 2; i++) {
        if (!add[i])
            continue;
        TCase *tcase = tcase_create(i ? "long" : name);
        tcase_set_timeout(tcase, 300);
        if (i)
            tcase_set_tags(tcase, "long");
        add[i](tcase);
        suite_add_tcase(suite, tcase);
    }
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}

#define UNIT_MAIN(name, add_tests)                                                                 \
    int main(void)                                                                                 \
    {                                                                                              \
        return unit_main(name, add_tests, NULL);                                                   \
    }

#define UNIT_MAIN_LONG(name, add_tests, add_long_tests)                                            \
    int main(void)                                                                                 \
    {                                                                                              \
        return unit_main(name, add_tests, add_long_tests);                                         \
    }

#endif
