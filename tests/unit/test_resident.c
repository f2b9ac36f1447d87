/* SPDX-License-Identifier: GPL-2.0-or-later */
/* On the test's own memory. */
#include "kube-nftd/host/resident.h"

#include "kube-nftd/base/alloc.h"
#include "unit.h"

#include <stdio.h>
#include <string.h>

static const char constant[] = "a constant";
static char variable[] = "a variable";
static const char *const pointers[] = {constant, variable}; /* relocated, then protected */

/* Kilobytes of files that are part of this process. */
static long from_files(void)
{
    char line[256];
    long found = -1;
    FILE *status = fopen("/proc/self/status", "re");
    ck_assert_ptr_nonnull(status);
    while (fgets(line, sizeof(line), status))
        if (sscanf(line, "RssFile: %ld kB", &found) == 1) // NOLINT(cert-err34-c)
            break;
    fclose(status);
    ck_assert_int_gt(found, 0);
    return found;
}

START_TEST(everything_is_there_afterwards)
{
    char *allocated = xstrdup("allocated");
    variable[0] = 'A';
    resident_let_go();
    resident_let_go();
    ck_assert_str_eq(pointers[0], "a constant");
    ck_assert_str_eq(pointers[1], "A variable");
    ck_assert_str_eq(allocated, "allocated");
    free(allocated);
}
END_TEST

START_TEST(less_is_in_memory)
{
    long before = from_files();
    resident_let_go();
    ck_assert_int_lt(from_files(), before);
}
END_TEST

static void add_tests(TCase *tcase)
{
    tcase_add_test(tcase, everything_is_there_afterwards);
    tcase_add_test(tcase, less_is_in_memory);
}

UNIT_MAIN("resident", add_tests)
