/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What a program of tests says of tests and cases that it does not have. */
#include "unit.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

/* The exit status of this program with a variable set. */
static int run_with(const char *variable, const char *value)
{
    pid_t pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        const int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
        dup2(nowhere, STDOUT_FILENO);
        dup2(nowhere, STDERR_FILENO);
        setenv("UNIT_ONLY", "a_test", 1);
        setenv(variable, value, 1);
        execl("/proc/self/exe", "test_unit", (char *)NULL);
        _exit(99);
    }
    int status;
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert(WIFEXITED(status));
    return WEXITSTATUS(status);
}

TEST(a_test)
{
}

TEST(what_is_not_there_cannot_be_chosen)
{
    ck_assert_int_eq(run_with("UNIT_ONLY", "a_test"), EXIT_SUCCESS);
    ck_assert_int_eq(run_with("UNIT_ONLY", ""), EXIT_FAILURE);
    ck_assert_int_eq(run_with("UNIT_ONLY", "another"), EXIT_FAILURE);
    ck_assert_int_eq(run_with("UNIT_CASE", "a case"), EXIT_FAILURE);
}
