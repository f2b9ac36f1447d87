/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Over a folder that stands for the root of the host. */
#include "kube-nftd/host.h"

#include "kube-nftd/base.h"
#include "unit.h"

#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *file;

static void set_up(void)
{
    file = in_folder("proc/self/oom_score_adj");
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

TEST(is_set)
{
    put_file("proc/self/oom_score_adj", "0\n");
    oom_score_adjust(-999, test_folder());
    expect("-999\n");
    ck_assert_int_eq(logged_with(""), 0);
}

/* Nothing is written: this shows by the blanks. */
TEST(is_there_already)
{
    put_file("proc/self/oom_score_adj", "  -999\n");
    oom_score_adjust(-999, test_folder());
    expect("  -999\n");
    ck_assert_int_eq(logged_with(""), 0);
}

/* Which root cannot write to either. */
TEST(cannot_be_read)
{
    ck_assert_int_eq(mkdir(file, 0700), 0);
    oom_score_adjust(-999, test_folder());
    ck_assert_int_eq(logged(LOG_LEVEL_INFO), 1);
    ck_assert_int_eq(logged_with("cannot set -999: Is a directory"), 1);
}

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

TEST_ROWS(cannot_be_written, refused_cases)
{
    struct rlimit before;
    ck_assert_int_eq(getrlimit(RLIMIT_FSIZE, &before), 0);
    const struct rlimit none = {0, before.rlim_max};
    signal(SIGXFSZ, SIG_IGN);
    put_file("proc/self/oom_score_adj", row->present);
    log_set_verbosity(row->verbosity);
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &none), 0);
    oom_score_adjust(-999, test_folder());
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &before), 0);
    log_set_verbosity(0);
    expect(row->present);
    ck_assert_int_eq(logged(row->level), row->logged);
    ck_assert_int_eq(logged_with("cannot set -999: File too large"), row->logged);
}

UNIT_FIXTURE(set_up, NULL)
