/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Over a folder that stands for the root of the host. */
#include "kube-nftd/host/conntrack_sysctls.h"

#include "kube-nftd/base/alloc.h"
#include "unit.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define SYSCTLS "proc/sys/net/netfilter/"
#define MAX SYSCTLS "nf_conntrack_max"
#define ESTABLISHED SYSCTLS "nf_conntrack_tcp_timeout_established"
#define CLOSE_WAIT SYSCTLS "nf_conntrack_tcp_timeout_close_wait"
#define LIBERAL SYSCTLS "nf_conntrack_tcp_be_liberal"
#define UDP SYSCTLS "nf_conntrack_udp_timeout"
#define UDP_STREAM SYSCTLS "nf_conntrack_udp_timeout_stream"
#define HASH_SIZE "sys/module/nf_conntrack/parameters/hashsize"
#define CPUS "sys/devices/system/cpu/online"

static const struct conntrack_settings nothing;
/* kube-proxy's defaults. */
static const struct conntrack_settings conntrack_defaults = {
    .max_per_core = 32768,
    .min = 131072,
    .tcp_established_timeout = 24 * 60 * 60,
    .tcp_close_wait_timeout = 60 * 60,
};

/* ---- the root ---- */

/* In place of the file, a folder: it can be neither read nor written, not even by root. */
static void spoil(const char *file)
{
    const char *path = in_folder(file);
    unlink(path);
    ck_assert_int_eq(mkdir(path, 0700), 0);
}

static void take_away(const char *file)
{
    const char *path = in_folder(file);
    ck_assert_int_eq(unlink(path), 0);
}

static void expect(const char *file, const char *text)
{
    const char *path = in_folder(file);
    char line[100] = "";
    FILE *in = fopen(path, "re");
    ck_assert_msg(in && fgets(line, sizeof(line), in), "%s", path);
    fclose(in);
    line[strcspn(line, "\n")] = '\0';
    ck_assert_msg(strcmp(line, text) == 0, "%s is %s, not %s", file, line, text);
}

static void setup(void)
{
    put_file(MAX, "65536\n");
    put_file(ESTABLISHED, "432000\n");
    put_file(CLOSE_WAIT, "60\n");
    put_file(LIBERAL, "0\n");
    put_file(UDP, "30\n");
    put_file(UDP_STREAM, "120\n");
    put_file(HASH_SIZE, "16384\n");
    put_file(CPUS, "0-7\n");
}

/* Of the warnings, @more are not about what failed. */
static void apply_warned(const struct conntrack_settings *settings, size_t failed, size_t more)
{
    ck_assert_uint_eq(conntrack_sysctls_apply(settings, test_folder()), failed);
    ck_assert_uint_eq(logged(LOG_LEVEL_WARN), failed + more);
}

static void apply(const struct conntrack_settings *settings, size_t failed)
{
    apply_warned(settings, failed, 0);
}

/* ---- what is set ---- */

TEST(default_settings)
{
    apply(&conntrack_defaults, 0);
    expect(MAX, "262144");
    expect(HASH_SIZE, "65536");
    expect(ESTABLISHED, "86400");
    expect(CLOSE_WAIT, "3600");
    expect(LIBERAL, "0");
    expect(UDP, "30");
    expect(UDP_STREAM, "120");
    ck_assert_int_eq(logged(LOG_LEVEL_INFO), 4);
}

TEST(all_settings)
{
    const struct conntrack_settings settings = {
        .max_per_core = 1000,
        .max_given = true,
        .tcp_established_timeout = 1,
        .tcp_close_wait_timeout = 2,
        .tcp_be_liberal = true,
        .udp_timeout = 3,
        .udp_stream_timeout = 2147483647,
    };
    apply_warned(&settings, 0, 1);
    expect(MAX, "8000");
    expect(HASH_SIZE, "16384");
    expect(ESTABLISHED, "1");
    expect(CLOSE_WAIT, "2");
    expect(LIBERAL, "1");
    expect(UDP, "3");
    expect(UDP_STREAM, "2147483647");
}

/* What is only a default does not lower a limit of the host; what was given does, and says so. */
TEST(larger_limit)
{
    static const char lowered[] =
        "conntrack: file=%s/" MAX " value=262144: lowered from 1000000, as "
        "conntrack.maxPerCore and min demand";
    struct conntrack_settings settings = conntrack_defaults;
    put_file(MAX, "1000000\n");
    apply(&settings, 0);
    expect(MAX, "1000000");
    expect(HASH_SIZE, "65536"); /* as the default needs */
    settings.max_given = true;
    apply_warned(&settings, 0, 1);
    expect(MAX, "262144");
    char *expected = xasprintf(lowered, test_folder());
    ck_assert_msg(strstr(last_logged(LOG_LEVEL_WARN), expected) != NULL, "%s",
                  last_logged(LOG_LEVEL_WARN));
    free(expected);
}

/* What a second start finds is left alone. */
TEST(same_again)
{
    const struct timespec long_ago[2] = {{.tv_sec = 1}, {.tv_sec = 1}};
    struct stat status;
    const char *path = in_folder(MAX);
    apply(&conntrack_defaults, 0);
    ck_assert_int_eq(utimensat(AT_FDCWD, path, long_ago, 0), 0);
    forget_logged();
    apply(&conntrack_defaults, 0);
    ck_assert_int_eq(stat(path, &status), 0);
    ck_assert_int_eq(status.st_mtim.tv_sec, 1);
    ck_assert_int_eq(logged(LOG_LEVEL_INFO), 0);
}

/* Nothing is asked for: the files need not even be there. */
TEST(nothing_asked_for)
{
    const struct conntrack_settings settings = {.min = 1000000};
    apply(&settings, 0);
    expect(MAX, "65536");
    expect(HASH_SIZE, "16384");
    spoil(MAX);
    spoil(HASH_SIZE);
    take_away(UDP);
    apply(&nothing, 0);
    ck_assert_int_eq(logged(LOG_LEVEL_INFO), 0);
}

static const struct {
    const char *cpus;
    uint32_t per_core, min;
    const char *max, *hash_size;
} maxima[] = {
    {"0\n", 32768, 131072, "131072", "32768"},
    {"0-1\n", 100000, 131072, "200000", "50000"},
    {"0-3\n", 32768, 131072, "131072", "32768"},
    {"0-4\n", 32768, 131072, "163840", "40960"},
    {"0-31", 32768, 131072, "1048576", "262144"},
    {"0-32\n", 32768, 131072, "1048576", "262144"},
    {"0-32\n", 32768, 2000000, "1048576", "262144"}, /* too many CPUs: min does not count */
    {"0-31\n", 32768, 2000000, "2000000", "500000"},
    {"0-65535\n", 2147483647, 0, "1048576", "262144"},
    {"0-3\n", 1073741824, 0, "1048576", "262144"}, /* 2^32 in all */
    {"0,2,4-5,9-9\n", 30000, 0, "150000", "37500"},
    {"3\n", 1, 0, "1", "16384"},
    {"0-7\n", 8191, 0, "65528", "16384"},
    {"0-7\n", 8193, 0, "65544", "16386"},
};

TEST_ROWS(maximum, maxima)
{
    const struct conntrack_settings settings = {.max_per_core = row->per_core, .min = row->min};
    put_file(CPUS, row->cpus);
    put_file(MAX, "0\n");
    apply(&settings, 0);
    expect(MAX, row->max);
    expect(HASH_SIZE, row->hash_size);
}

/* Where the list of CPUs says nothing, the number of those that run counts. */
static const char *const no_cpus[] = {
    "",       "\n",    "x\n",    "-1\n",    "0-\n",         "3-1\n",
    "0-1x\n", "0 1\n", "0,,1\n", "0-1,x\n", "0-99999999\n", "0-18446744073709551615\n",
};

TEST_ROWS(cpus_unknown, no_cpus)
{
    const struct conntrack_settings settings = {.max_per_core = 1000, .max_given = true};
    char *expected = xasprintf("%ld", 1000 * sysconf(_SC_NPROCESSORS_ONLN));
    put_file(CPUS, *row);
    put_file(MAX, "0\n");
    apply(&settings, 0);
    expect(MAX, expected);
    free(expected);
}

/* What is not a number is replaced. */
TEST(odd_contents)
{
    const struct conntrack_settings settings = {.udp_timeout = 30};
    static const char *const odd[] = {"",      "30s\n", "30 40\n",
                                      "-30\n", " 30\n", "999999999999999999999999\n"};
    for (size_t i = 0; i < COUNT(odd); i++) {
        put_file(UDP, odd[i]);
        apply(&settings, 0);
        expect(UDP, "30");
    }
    ck_assert_int_eq(logged(LOG_LEVEL_INFO), COUNT(odd));
}

/* ---- what cannot be set ---- */

static void expect_warning(const char *file, const char *rest)
{
    char *expected = xasprintf("conntrack: file=%s/%s desired=%s", test_folder(), file, rest);
    ck_assert_msg(strstr(last_logged(LOG_LEVEL_WARN), expected) != NULL, "%s\n%s",
                  last_logged(LOG_LEVEL_WARN), expected);
    free(expected);
}

/* One that cannot be set costs a warning, and the others are set all the same. */
TESTS(each_on_its_own, 6)
{
    static const struct {
        const char *file, *warning;
    } failures[] = {
        {MAX, "8000: cannot set it: Is a directory; new connections are dropped when the table is "
              "full (--conntrack-max-per-core 0 leaves it unchanged)"},
        {ESTABLISHED, "1: cannot set it: Is a directory; idle TCP connections expire"},
        {CLOSE_WAIT, "2: cannot set it: Is a directory; half-closed TCP connections expire"},
        {LIBERAL, "1: cannot set it: Is a directory; TCP packets outside of their connection's"},
        {UDP, "3: cannot set it: Is a directory; UDP flows without a reply expire"},
        {UDP_STREAM, "4: cannot set it: Is a directory; UDP flows expire"},
    };
    static const char *const values[] = {"8000", "1", "2", "1", "3", "4"};
    const struct conntrack_settings settings = {1000, 0, 1, 2, true, 3, 4, _i > 0};
    spoil(failures[_i].file);
    apply_warned(&settings, 1, _i > 0);
    expect_warning(failures[_i].file, failures[_i].warning);
    for (int i = 0; i < (int)COUNT(failures); i++)
        if (i != _i)
            expect(failures[i].file, values[i]);
}

TEST(hash_size_not_there)
{
    take_away(HASH_SIZE);
    apply(&conntrack_defaults, 1);
    expect_warning(HASH_SIZE, "65536: cannot set it: No such file or directory; with very many "
                              "connections, packets take longer");
    expect(MAX, "262144");
    expect(CLOSE_WAIT, "3600");
}

TEST(hash_size_unreadable)
{
    put_file(HASH_SIZE, "many\n");
    apply(&conntrack_defaults, 1);
    expect_warning(HASH_SIZE, "65536: cannot set it: Invalid argument; ");
    expect(HASH_SIZE, "many");
}

/* A kernel without conntrack: a warning for each. */
TEST(nothing_there)
{
    static const char *const files[] = {MAX, ESTABLISHED, CLOSE_WAIT, LIBERAL, UDP, UDP_STREAM};
    for (int i = 0; i < COUNT(files); i++)
        take_away(files[i]);
    take_away(HASH_SIZE);
    apply(&conntrack_defaults, 3);
    expect_warning(CLOSE_WAIT, "3600: cannot set it: No such file or directory; ");
}

/* In place of the file, one of the kernel's that nobody may write: it says 65536. */
static void fix(const char *file)
{
    const char *path = in_folder(file);
    take_away(file);
    ck_assert_int_eq(symlink("/proc/sys/kernel/ngroups_max", path), 0);
}

/* What follows is another thing where there is more than desired. */
TEST(limit_that_stays)
{
    static const char less[] = "; new connections are dropped when the table is full";
    static const char more[] = "; more connections are tracked than desired";
    struct conntrack_settings settings = {.max_per_core = 1000, .min = 70000};
    fix(MAX);
    apply(&settings, 1);
    ck_assert_ptr_nonnull(
        strstr(last_logged(LOG_LEVEL_WARN), "desired=70000: cannot set it, it stays 65536: "));
    ck_assert_ptr_nonnull(strstr(last_logged(LOG_LEVEL_WARN), less));
    settings = (struct conntrack_settings){.max_per_core = 1000};
    forget_logged();
    apply(&settings, 0);
    settings.max_given = true;
    apply(&settings, 1);
    ck_assert_ptr_nonnull(
        strstr(last_logged(LOG_LEVEL_WARN), "desired=8000: cannot set it, it stays 65536: "));
    ck_assert_ptr_nonnull(strstr(last_logged(LOG_LEVEL_WARN), more));
}

UNIT_FIXTURE(setup, NULL)
