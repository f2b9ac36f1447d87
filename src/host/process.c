/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "kube-nftd/host.h"

#include "kube-nftd/base.h"

#include <dirent.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

/* Larger than /proc/self/stat ever gets. */
#define STAT_SIZE 4096

static double read_clock(clockid_t id)
{
    struct timespec time;
    clock_gettime(id, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

/* Computed once: the difference of the two clocks jitters. */
static double start_time(unsigned long long ticks)
{
    static double start;
    double since_boot = (double)ticks / (double)sysconf(_SC_CLK_TCK);
    if (start == 0)
        start = read_clock(CLOCK_REALTIME) - read_clock(CLOCK_BOOTTIME) + since_boot;
    return start;
}

/* Parses the fields after the program name, which may contain any character, even ')'. */
static void read_stat(struct process_usage *usage)
{
    struct error err = {0};
    char *text = file_read("/proc/self/stat", STAT_SIZE, &err);
    const char *behind = text ? strrchr(text, ')') : NULL;
    unsigned long long start, virtual;
    long long pages;
    if (behind && sscanf(behind,
                         ") %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d "
                         "%*d %*d %*d %*d %llu %llu %lld",
                         &start, &virtual, &pages) == 3) {
        usage->started = start_time(start);
        usage->virtual = (double)virtual;
        usage->resident = (double)pages * (double)sysconf(_SC_PAGESIZE);
    }
    error_clear(&err);
    free(text);
}

static double count_descriptors(void)
{
    int count = -3; /* without ".", ".." and the directory's own */
    DIR *folder = opendir("/proc/self/fd");
    if (!folder)
        return NAN;
    while (readdir(folder))
        count++;
    closedir(folder);
    return count;
}

void process_usage_read(struct process_usage *usage)
{
    struct rusage times;
    struct rlimit limit;
    *usage = (struct process_usage){NAN, NAN, NAN, NAN, count_descriptors(), NAN};
    read_stat(usage);
    if (getrusage(RUSAGE_SELF, &times) == 0)
        usage->cpu_seconds = (double)(times.ru_utime.tv_sec + times.ru_stime.tv_sec) +
                             (double)(times.ru_utime.tv_usec + times.ru_stime.tv_usec) / 1e6;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0)
        usage->descriptor_limit =
            limit.rlim_cur == RLIM_INFINITY ? INFINITY : (double)limit.rlim_cur;
}
