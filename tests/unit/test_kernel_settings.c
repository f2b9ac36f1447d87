/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Over a folder that stands for the root of the host: tests/unit/cases/kernel_settings. */
#include "script.h"

#include "kube-nftd/host.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#define SYSCTLS "proc/sys/net/netfilter/nf_conntrack_"

/* Their names in cases, and their contents before each. */
static const struct {
    const char *name, *path, *text;
} files[] = {
    {"max", SYSCTLS "max", "65536\n"},
    {"hash-size", "sys/module/nf_conntrack/parameters/hashsize", "16384\n"},
    {"established", SYSCTLS "tcp_timeout_established", "432000\n"},
    {"close-wait", SYSCTLS "tcp_timeout_close_wait", "60\n"},
    {"liberal", SYSCTLS "tcp_be_liberal", "0\n"},
    {"udp", SYSCTLS "udp_timeout", "30\n"},
    {"udp-stream", SYSCTLS "udp_timeout_stream", "120\n"},
    {"oom", "proc/self/oom_score_adj", "0\n"},
};

static long cpus;

static void setup(void)
{
    cpus = 8;
    for (int i = 0; i < COUNT(files); i++)
        put_file(files[i].path, files[i].text);
}

static const char *path_of(const char *name)
{
    int i = 0;
    while (i < COUNT(files) && strcmp(files[i].name, name) != 0)
        i++;
    ck_assert_msg(i < COUNT(files), "%s", name);
    return files[i].path;
}

/* ---- commands ---- */

/* How many there are: 8 at first; -1: nobody knows. */
COMMAND(cpus)
{
    cpus = atol(words);
}

/* put NAME TEXT, and a newline, if it does not end with a backslash. */
COMMAND(put)
{
    const char *path = path_of(script_word(&words));
    size_t length = strlen(words);
    bool bare = length > 0 && words[length - 1] == '\\';
    char *text = xasprintf("%.*s%s", (int)(length - bare), words, bare ? "" : "\n");
    put_file(path, text);
    free(text);
}

COMMAND(gone)
{
    ck_assert_int_eq(unlink(in_folder(path_of(words))), 0);
}

/* In place of the file, a folder: it can be neither read nor written, not even by root. */
COMMAND(folder)
{
    run_gone(words, out);
    ck_assert_int_eq(mkdir(in_folder(path_of(words)), 0700), 0);
}

/* In place of the file, a read-only one of the kernel with 65536. */
COMMAND(fixed)
{
    run_gone(words, out);
    ck_assert_int_eq(symlink("/proc/sys/kernel/ngroups_max", in_folder(path_of(words))), 0);
}

static struct conntrack_settings settings_of(char *words)
{
    struct conntrack_settings settings = {.max_per_core = 0};
    for (char *word, *value; *(word = script_word(&words));) {
        const struct {
            const char *name;
            uint32_t *number;
        } numbers[] = {{"per-core", &settings.max_per_core},
                       {"min", &settings.min},
                       {"established", &settings.tcp_established_timeout},
                       {"close-wait", &settings.tcp_close_wait_timeout},
                       {"udp", &settings.udp_timeout},
                       {"udp-stream", &settings.udp_stream_timeout}};
        for (int i = 0; i < COUNT(numbers); i++)
            if (script_option(word, numbers[i].name, &value))
                *numbers[i].number = (uint32_t)strtoul(value, NULL, 10);
        if (strcmp(word, "defaults") == 0) /* kube-proxy's */
            settings = (struct conntrack_settings){.max_per_core = 32768,
                                                   .min = 131072,
                                                   .tcp_established_timeout = 24 * 60 * 60,
                                                   .tcp_close_wait_timeout = 60 * 60};
        settings.max_given |= strcmp(word, "given") == 0;
        settings.tcp_be_liberal |= strcmp(word, "liberal") == 0;
    }
    return settings;
}

/* apply SETTING...: how many failed, and what is logged. */
COMMAND(apply)
{
    const struct conntrack_settings settings = settings_of(words);
    size_t failed = conntrack_sysctls_apply(&settings, cpus, test_folder());
    if (failed)
        fprintf(out, "%zu failed\n", failed);
    write_logged(out, LOG_LEVEL_INFO);
}

/* oom SCORE [full] [VERBOSITY]: the score is set, where files have no room; what is logged. */
COMMAND(oom)
{
    struct rlimit before, room;
    int score = atoi(script_word(&words)), verbosity = atoi(words + strcspn(words, "0123456789"));
    ck_assert_int_eq(getrlimit(RLIMIT_FSIZE, &before), 0);
    room = before;
    if (strstr(words, "full"))
        room.rlim_cur = 0;
    signal(SIGXFSZ, SIG_IGN);
    log_set_verbosity(verbosity);
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &room), 0);
    oom_score_adjust(score, test_folder());
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &before), 0);
    log_set_verbosity(0);
    write_logged(out, LOG_LEVEL_DEBUG);
}

/* show NAME...: their first lines. */
COMMAND(show)
{
    for (const char *name, *between = ""; *(name = script_word(&words)); between = " ") {
        char line[100] = "";
        FILE *in = fopen(in_folder(path_of(name)), "re");
        ck_assert(in && fgets(line, sizeof(line), in));
        fclose(in);
        fprintf(out, "%s%.*s", between, (int)strcspn(line, "\n"), line);
    }
    fprintf(out, "\n");
}

CASES("kernel_settings")

/* A second start writes nothing. */
TEST(same_again)
{
    const struct timespec long_ago[2] = {{.tv_sec = 1}, {.tv_sec = 1}};
    struct conntrack_settings defaults = settings_of((char[]){"defaults"});
    struct stat status;
    const char *path = in_folder(path_of("max"));
    ck_assert_uint_eq(conntrack_sysctls_apply(&defaults, cpus, test_folder()), 0);
    ck_assert_int_eq(utimensat(AT_FDCWD, path, long_ago, 0), 0);
    forget_logged();
    ck_assert_uint_eq(conntrack_sysctls_apply(&defaults, cpus, test_folder()), 0);
    ck_assert_int_eq(stat(path, &status), 0);
    ck_assert_int_eq(status.st_mtim.tv_sec, 1);
    ck_assert_int_eq(logged_with(""), 0);
}

UNIT_FIXTURE(setup, NULL)
