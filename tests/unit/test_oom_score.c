/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Over a folder that stands for the root of the host. */
#include "kube-nftd/host/process.h"

#include "kube-nftd/base/alloc.h"
#include "kube-nftd/base/log.h"
#include "unit.h"

#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#define ROOT "/tmp/test-oom-score-XXXXXX"

static char root[sizeof(ROOT)];
static char *file;
static char *said;
static enum log_level said_level;

static void take_line(void *ctx, enum log_level level, const char *line)
{
    (void)ctx;
    ck_assert_ptr_null(said);
    said_level = level;
    said = xstrdup(line);
}

static void make_folder(const char *name)
{
    char *path = xasprintf("%s/%s", root, name);
    ck_assert_int_eq(mkdir(path, 0700), 0);
    free(path);
}

static void set_up(void)
{
    strcpy(root, ROOT);
    ck_assert_ptr_nonnull(mkdtemp(root));
    make_folder("proc");
    make_folder("proc/self");
    file = xasprintf("%s/proc/self/oom_score_adj", root);
    log_set_sink(take_line, NULL);
}

static void remove_folder(const char *name)
{
    char *path = xasprintf("%s/%s", root, name);
    rmdir(path);
    free(path);
}

static void tear_down(void)
{
    log_set_sink(NULL, NULL);
    unlink(file);
    rmdir(file);
    remove_folder("proc/self");
    remove_folder("proc");
    rmdir(root);
    free(file);
    free(said);
    said = NULL;
}

static void put(const char *text, mode_t mode)
{
    int fd = open(file, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, mode);
    ck_assert_int_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    close(fd);
}

static void expect(const char *text)
{
    char found[32] = "";
    FILE *in = fopen(file, "re");
    ck_assert_ptr_nonnull(in);
    ck_assert_uint_eq(fread(found, 1, sizeof(found) - 1, in), strlen(text));
    fclose(in);
    ck_assert_str_eq(found, text);
}

START_TEST(is_set)
{
    put("0\n", 0600);
    oom_score_adjust(-999, root);
    expect("-999\n");
    ck_assert_ptr_null(said);
}
END_TEST

/* Nothing is written: this shows by the blanks. */
START_TEST(is_there_already)
{
    put("  -999\n", 0600);
    oom_score_adjust(-999, root);
    expect("  -999\n");
    ck_assert_ptr_null(said);
}
END_TEST

/* Which root cannot write to either. */
START_TEST(cannot_be_read)
{
    ck_assert_int_eq(mkdir(file, 0700), 0);
    oom_score_adjust(-999, root);
    ck_assert_ptr_nonnull(said);
    ck_assert_ptr_nonnull(strstr(said, "cannot set -999: Is a directory"));
    ck_assert_int_eq(said_level, LOG_LEVEL_INFO);
}
END_TEST

static const struct {
    const char *present;
    int verbosity;
    bool logged;
    enum log_level level;
} refused_cases[] = {
    {"0", 0, true, LOG_LEVEL_INFO},
    {"1000", 0, true, LOG_LEVEL_INFO},
    {"-997", 0, false, LOG_LEVEL_INFO},
    {"-997", 2, true, LOG_LEVEL_DEBUG},
};

START_TEST(cannot_be_written)
{
    struct rlimit before;
    ck_assert_int_eq(getrlimit(RLIMIT_FSIZE, &before), 0);
    const struct rlimit none = {0, before.rlim_max};
    signal(SIGXFSZ, SIG_IGN);
    put(refused_cases[_i].present, 0600);
    log_set_verbosity(refused_cases[_i].verbosity);
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &none), 0);
    oom_score_adjust(-999, root);
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &before), 0);
    log_set_verbosity(0);
    expect(refused_cases[_i].present);
    ck_assert_int_eq(said != NULL, refused_cases[_i].logged);
    if (said) {
        ck_assert_ptr_nonnull(strstr(said, "cannot set -999: File too large"));
        ck_assert_int_eq(said_level, refused_cases[_i].level);
    }
}
END_TEST

static void add_tests(TCase *tcase)
{
    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_add_test(tcase, is_set);
    tcase_add_test(tcase, is_there_already);
    tcase_add_test(tcase, cannot_be_read);
    tcase_add_loop_test(tcase, cannot_be_written, 0,
                        sizeof(refused_cases) / sizeof(refused_cases[0]));
}

UNIT_MAIN("oom_score", add_tests)
