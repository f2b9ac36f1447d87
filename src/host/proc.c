/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What is set in /proc and /sys (conntrack limits and timeouts, oom_score_adj), and what /proc says
 * of this process. */
#include "kube-nftd/host.h"

#include "kube-nftd/base.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#define SYSCTLS "/proc/sys/net/netfilter/"

/* Upper bound of maxPerCore times CPUs. */
#define SCALED_LIMIT 1048576

/* Reads @path into @text, which is longer than the file. Returns 0 or an errno. */
static int read_text(const char *path, char *text, size_t size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t length = fd < 0 ? -1 : read(fd, text, size - 1);
    int why = length < 0 ? errno : 0;
    if (fd >= 0)
        close(fd);
    text[length < 0 ? 0 : length] = '\0';
    return why;
}

/* Returns 0, or an errno with *@number -1. */
static int read_setting(const char *path, long long *number)
{
    char text[64], *end;
    int why = read_text(path, text, sizeof(text));
    *number = -1;
    if (why)
        return why;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    if (end == text || errno || (*end && *end != '\n'))
        return EINVAL;
    *number = value;
    return 0;
}

/* Returns 0 or an errno. */
static int write_number(const char *path, long long value)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        return errno;
    int why = dprintf(fd, "%lld\n", value) < 0 ? errno : 0;
    close(fd);
    return why;
}

long long host_net_setting(const char *path)
{
    long long number;
    char *whole = xasprintf("/proc/sys/net/%s", path);
    read_setting(whole, &number);
    free(whole);
    return number;
}

bool host_has_ipv6(void)
{
    return host_net_setting("ipv6/conf/all/disable_ipv6") == 0;
}

/* ---- conntrack ---- */

/* One value for one file. */
struct setting {
    const char *file;
    enum { EXACTLY, AT_LEAST, LIMIT } kind; /* LIMIT: exactly; lowering it logs a warning */
    uint32_t value;                         /* 0: leave the file unchanged */
    const char *without;                    /* the consequence if it is not set */
    const char *with_more;                  /* likewise if the file has more; NULL: the same */
};

/* Returns whether the file now has the desired value. */
static bool apply(const struct setting *setting, const char *root)
{
    if (setting->value == 0)
        return true;
    char *path = xasprintf("%s%s", root, setting->file);
    const uint32_t value = setting->value;
    long long present;
    int why = read_setting(path, &present);
    bool known = why == 0, more = present > value;
    bool fits = setting->kind == AT_LEAST ? present >= value : present == value;
    if (!fits && (known || setting->kind != AT_LEAST))
        why = write_number(path, value);
    char *was = known ? xasprintf(", it %s %lld", why ? "stays" : "was", present) : xstrdup("");
    if (why)
        log_warn("host", "file=%s desired=%u: cannot set it%s: %s; %s", path, value, was,
                 strerror(why), more && setting->with_more ? setting->with_more : setting->without);
    else if (!fits && more && setting->kind == LIMIT)
        log_warn("host",
                 "file=%s value=%u: lowered from %lld, as conntrack.maxPerCore and min demand; if "
                 "neither is given, a larger limit stays",
                 path, value, present);
    else if (!fits)
        log_info("host", "file=%s value=%u: set%s", path, value, was);
    free(was);
    free(path);
    return why == 0;
}

/* 0: leave it unchanged. */
static uint32_t desired_max(const struct conntrack_settings *settings, long cpus)
{
    uint64_t scaled = (uint64_t)settings->max_per_core * (cpus > 0 ? (uint64_t)cpus : 1);
    if (scaled > SCALED_LIMIT)
        return SCALED_LIMIT;
    return scaled > 0 && scaled < settings->min ? settings->min : (uint32_t)scaled;
}

size_t conntrack_sysctls_apply(const struct conntrack_settings *settings, long cpus,
                               const char *root)
{
    const uint32_t most = desired_max(settings, cpus);
    const struct setting max = {
        SYSCTLS "nf_conntrack_max", settings->max_given ? LIMIT : AT_LEAST, most,
        "new connections are dropped when the table is full (--conntrack-max-per-core 0 leaves it "
        "unchanged)",
        "more connections are tracked than desired (--conntrack-max-per-core 0 leaves it "
        "unchanged)"};
    /* A hash table too small for the maximum slows each packet's lookup. */
    const struct setting hash_size = {"/sys/module/nf_conntrack/parameters/hashsize", AT_LEAST,
                                      most / 4, "with very many connections, packets take longer",
                                      NULL};
    const struct setting others[] = {
        {SYSCTLS "nf_conntrack_tcp_timeout_established", EXACTLY, settings->tcp_established_timeout,
         "idle TCP connections expire sooner or later than desired "
         "(--conntrack-tcp-timeout-established 0s leaves it unchanged)",
         NULL},
        {SYSCTLS "nf_conntrack_tcp_timeout_close_wait", EXACTLY, settings->tcp_close_wait_timeout,
         "half-closed TCP connections expire sooner or later than desired "
         "(--conntrack-tcp-timeout-close-wait 0s leaves it unchanged)",
         NULL},
        {SYSCTLS "nf_conntrack_tcp_be_liberal", EXACTLY, settings->tcp_be_liberal,
         "TCP packets outside of their connection's window are not translated, which resets "
         "connections (--conntrack-tcp-be-liberal)",
         NULL},
        {SYSCTLS "nf_conntrack_udp_timeout", EXACTLY, settings->udp_timeout,
         "UDP flows without a reply expire sooner or later than desired "
         "(--conntrack-udp-timeout)",
         NULL},
        {SYSCTLS "nf_conntrack_udp_timeout_stream", EXACTLY, settings->udp_stream_timeout,
         "UDP flows expire sooner or later than desired (--conntrack-udp-timeout-stream)", NULL},
    };
    size_t failed = !(apply(&max, root) && apply(&hash_size, root));
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        failed += !apply(&others[i], root);
    return failed;
}

/* ---- this process ---- */

void oom_score_adjust(int desired, const char *root)
{
    char *path = xasprintf("%s/proc/self/oom_score_adj", root);
    long long present;
    bool known = read_setting(path, &present) == 0;
    int why = known && present == desired ? 0 : write_number(path, desired);
    if (why && known && present < 0) /* lowered by the container runtime or a unit */
        log_debug(2, "host", "%s stays at %lld, cannot set %d: %s", path, present, desired,
                  strerror(why));
    else if (why)
        log_info("host", "%s is unchanged, cannot set %d: %s", path, desired, strerror(why));
    free(path);
}

/* Parses the fields after the program name, which may contain any character, even ')'. */
static void read_stat(struct process_usage *usage)
{
    static double started; /* kept, since the difference of two clocks jitters */
    char text[4096];
    const char *behind;
    struct timespec uptime;
    unsigned long long start, virtual;
    long long pages;
    if (read_text("/proc/self/stat", text, sizeof(text)) || !(behind = strrchr(text, ')')) ||
        sscanf(behind,
               ") %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d "
               "%*d %*d %*d %*d %llu %llu %lld",
               &start, &virtual, &pages) != 3)
        return;
    clock_gettime(CLOCK_BOOTTIME, &uptime);
    if (started == 0)
        started = clock_realtime() - ((double)uptime.tv_sec + (double)uptime.tv_nsec / 1e9) +
                  (double)start / (double)sysconf(_SC_CLK_TCK);
    usage->started = started;
    usage->virtual = (double)virtual;
    usage->resident = (double)pages * (double)sysconf(_SC_PAGESIZE);
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
