/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What every Kubernetes component says of its process and its build (docs/behaviour.md 7). */
#include "figures.h"

#include "kube-nftd/base.h"
#include "kube-nftd/commit.h"
#include "kube-nftd/serve.h"

#include <dirent.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#if defined(__clang__)
#define COMPILER "clang"
#else
#define COMPILER "gcc"
#endif

static void write_one(struct metrics_page *page, const char *name, const char *type,
                      const char *help, double value)
{
    metrics_family(page, name, type, help);
    metrics_sample(page, NULL, NULL, value);
}

static double seconds_of(const struct timeval *time)
{
    return (double)time->tv_sec + (double)time->tv_usec / 1e6;
}

static double read_clock(clockid_t id)
{
    struct timespec time;
    clock_gettime(id, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

/* How many descriptors are open, but for the one that looks; -1 if that cannot be seen. */
static int count_descriptors(void)
{
    int count = 0;
    DIR *folder = opendir("/proc/self/fd");
    if (!folder)
        return -1;
    while (readdir(folder))
        count++;
    closedir(folder);
    return count - 3; /* "." and ".." as well */
}

static void write_descriptors(struct metrics_page *page)
{
    struct rlimit limit;
    int open = count_descriptors();
    if (open >= 0)
        write_one(page, "process_open_fds", "gauge", "Open file descriptors.", open);
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0)
        write_one(page, "process_max_fds", "gauge", "Limit of open file descriptors.",
                  limit.rlim_cur == RLIM_INFINITY ? INFINITY : (double)limit.rlim_cur);
}

/* The fields of /proc/self/stat from the one behind the name, which may hold anything, on. */
static bool read_stat(unsigned long long *start, unsigned long long *virtual_bytes,
                      long long *pages)
{
    char text[1024];
    FILE *file = fopen("/proc/self/stat", "re");
    if (!file)
        return false;
    size_t n = fread(text, 1, sizeof(text) - 1, file);
    fclose(file);
    text[n] = '\0';
    const char *behind = strrchr(text, ')');
    return behind && sscanf(behind,
                            ") %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d "
                            "%*d %*d %*d %*d %llu %llu %lld",
                            start, virtual_bytes, pages) == 3;
}

/* Asked once: as a difference of clocks it would be a little different each time. */
static double start_time(unsigned long long ticks)
{
    static double start;
    double since_boot = (double)ticks / (double)sysconf(_SC_CLK_TCK);
    if (start == 0)
        start = read_clock(CLOCK_REALTIME) - read_clock(CLOCK_BOOTTIME) + since_boot;
    return start;
}

double figures_resident_bytes(void)
{
    unsigned long long start, virtual_bytes;
    long long pages;
    return read_stat(&start, &virtual_bytes, &pages) ? (double)pages * (double)sysconf(_SC_PAGESIZE)
                                                     : 0;
}

static void write_memory(struct metrics_page *page)
{
    unsigned long long start, virtual_bytes;
    long long pages;
    if (!read_stat(&start, &virtual_bytes, &pages))
        return;
    write_one(page, "process_resident_memory_bytes", "gauge", "Resident memory.",
              (double)pages * (double)sysconf(_SC_PAGESIZE));
    write_one(page, "process_virtual_memory_bytes", "gauge", "Virtual memory.",
              (double)virtual_bytes);
    write_one(page, "process_start_time_seconds", "gauge", "Start time of the process.",
              start_time(start));
}

/* ---- the build ---- */

/* The number before the first or second dot of the version, as text of any length up to a dot. */
static const char *part_of_version(int which, char text[16])
{
    const char *at = KUBE_NFTD_VERSION;
    for (; which > 0; which--)
        at += strcspn(at, ".") + 1;
    snprintf(text, 16, "%.*s", (int)strcspn(at, "."), at);
    return text;
}

/* As Go calls them. */
static const char *architecture(const char *machine)
{
    static const char *const names[][2] = {
        {"x86_64", "amd64"}, {"aarch64", "arm64"}, {"armv7l", "arm"}, {"i686", "386"}};
    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
        if (strcmp(names[i][0], machine) == 0)
            return names[i][1];
    return machine;
}

static void write_build(struct metrics_page *page)
{
    char major[16], minor[16], platform[sizeof(((struct utsname *)NULL)->machine) + 8] = "linux";
    struct utsname host;
    if (uname(&host) == 0)
        snprintf(platform, sizeof(platform), "linux/%s", architecture(host.machine));
    const struct metrics_label labels[] = {
        {"build_date", ""},
        {"compiler", COMPILER},
        {"git_commit", KUBE_NFTD_COMMIT},
        {"git_tree_state", KUBE_NFTD_TREE_STATE},
        {"git_version", "v" KUBE_NFTD_VERSION},
        {"go_version", ""},
        {"major", part_of_version(0, major)},
        {"minor", part_of_version(1, minor)},
        {"platform", platform},
    };
    metrics_family(
        page, "kubernetes_build_info", "gauge",
        "1, labelled with the version of kube-nftd; labels that do not apply are empty.");
    metrics_labelled(page, labels, sizeof(labels) / sizeof(*labels), 1);
    metrics_family(page, "kube_nftd_build_info", "gauge", "1, labelled with version and compiler.");
    metrics_labelled(page,
                     (const struct metrics_label[]){{"compiler", COMPILER " " __VERSION__},
                                                    {"version", KUBE_NFTD_VERSION}},
                     2, 1);
}

void figures_write_process(struct metrics_page *page)
{
    struct rusage usage;
    if (getrusage(RUSAGE_SELF, &usage) == 0)
        write_one(page, "process_cpu_seconds_total", "counter", "User and system CPU time.",
                  seconds_of(&usage.ru_utime) + seconds_of(&usage.ru_stime));
    write_memory(page);
    write_descriptors(page);
    write_one(page, "kube_nftd_log_lines_dropped_total", "counter",
              "Log lines dropped because stderr would have blocked.", (double)log_lines_dropped());
    write_build(page);
}
