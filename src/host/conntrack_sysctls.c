/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "kube-nftd/host.h"

#include "kube-nftd/base.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SYSCTLS "/proc/sys/net/netfilter/"
#define MAX_FILE SYSCTLS "nf_conntrack_max"
#define HASH_SIZE_FILE "/sys/module/nf_conntrack/parameters/hashsize"
#define CPU_FILE "/sys/devices/system/cpu/online"

/* The most that the number of CPUs may lead to. */
#define SCALED_LIMIT 1048576

/* More CPUs than any kernel has. */
#define CPU_LIMIT (1 << 16)

/* ---- files ---- */

/* The first line of a file, which the caller frees; NULL with errno if there is none. */
static char *read_line(const char *path)
{
    FILE *file = fopen(path, "re");
    if (!file)
        return NULL;
    char *line = NULL;
    size_t size = 0;
    errno = 0;
    if (getline(&line, &size, file) < 0) {
        free(line);
        line = NULL;
        errno = errno ? errno : ENODATA;
    }
    int why = errno;
    fclose(file);
    errno = why;
    return line;
}

/* The number that is all that a file holds, or -1 with errno. */
static long read_number(const char *path)
{
    char *line = read_line(path);
    if (!line)
        return -1;
    char *end;
    errno = 0;
    long number = strtol(line, &end, 10);
    bool good = isdigit((unsigned char)*line) && (*end == '\n' || *end == '\0') && errno == 0;
    free(line);
    if (good)
        return number;
    errno = EINVAL;
    return -1;
}

/* Returns 0 or an errno. */
static int write_number(const char *path, uint32_t value)
{
    int fd = open(path, O_WRONLY | O_TRUNC | O_CLOEXEC);
    if (fd < 0)
        return errno;
    char *text = xasprintf("%u\n", value);
    ssize_t written = write(fd, text, strlen(text));
    int why = written == (ssize_t)strlen(text) ? 0 : written < 0 ? errno : EIO;
    free(text);
    close(fd);
    return why;
}

/* ---- CPUs ---- */

/* Reads "3" or "0-7" at *@at, then a comma or the end. */
static bool parse_cpu_range(const char **at, unsigned long *n)
{
    char *end;
    if (!isdigit((unsigned char)**at))
        return false;
    unsigned long first = strtoul(*at, &end, 10), last = first;
    if (*end == '-' && isdigit((unsigned char)end[1]))
        last = strtoul(end + 1, &end, 10);
    if (last < first || last >= CPU_LIMIT || (*end && !strchr(",\n", *end)))
        return false;
    *n += last - first + 1;
    *at = end + (*end == ',');
    return true;
}

/* How many CPUs a list like "0-3,6" names; 0 if it is none. */
static unsigned long count_cpus(const char *list)
{
    unsigned long n = 0;
    for (const char *at = list; *at && *at != '\n';)
        if (!parse_cpu_range(&at, &n))
            return 0;
    return n;
}

static uint64_t number_of_cpus(const char *root)
{
    char *path = xasprintf("%s" CPU_FILE, root);
    char *list = read_line(path);
    unsigned long n = list ? count_cpus(list) : 0;
    free(list);
    free(path);
    if (n > 0)
        return n;
    long running = sysconf(_SC_NPROCESSORS_ONLN);
    return running > 0 ? (uint64_t)running : 1;
}

/* ---- settings ---- */

/* One value for one file. */
struct desired {
    const char *file;
    enum { EXACTLY, AT_LEAST, LIMIT } kind; /* LIMIT: exactly, with a warning if that is less */
    uint32_t value;                         /* 0: none */
    const char *without;                    /* what follows if it is not set */
    const char *with_more; /* and if it is not since there is more; NULL: the same */
};

/* @words and the value that a file has, if it is known. */
static char *with_number(const char *words, long number)
{
    return number < 0 ? xstrdup("") : xasprintf("%s %ld", words, number);
}

static void warn_not_set(const struct desired *desired, const char *path, long present, int why)
{
    bool more = present > desired->value && desired->with_more;
    char *stays = with_number(", it stays", present);
    log_warn("conntrack", "file=%s desired=%u: cannot set it%s: %s; %s", path, desired->value,
             stays, strerror(why), more ? desired->with_more : desired->without);
    free(stays);
}

static void log_set(const struct desired *desired, const char *path, long before)
{
    char *was = with_number(", it was", before);
    if (desired->kind == LIMIT && before > desired->value)
        log_warn("conntrack",
                 "file=%s value=%u: lowered from %ld, as conntrack.maxPerCore and min demand; if "
                 "neither is given, a larger limit stays",
                 path, desired->value, before);
    else
        log_info("conntrack", "file=%s value=%u: set%s", path, desired->value, was);
    free(was);
}

/* Returns whether the file has what is desired now. */
static bool set(const struct desired *desired, const char *root)
{
    if (desired->value == 0)
        return true;
    char *path = xasprintf("%s%s", root, desired->file);
    long present = read_number(path);
    int why = present < 0 ? errno : 0;
    bool fits = desired->kind == AT_LEAST ? present >= desired->value : present == desired->value;
    if (!fits && !(desired->kind == AT_LEAST && why))
        why = write_number(path, desired->value);
    if (why)
        warn_not_set(desired, path, present, why);
    else if (!fits)
        log_set(desired, path, present);
    free(path);
    return why == 0;
}

/* 0: leave it alone. */
static uint32_t desired_max(const struct conntrack_settings *settings, const char *root)
{
    uint64_t scaled = settings->max_per_core;
    if (scaled == 0)
        return 0;
    scaled *= number_of_cpus(root);
    if (scaled > SCALED_LIMIT)
        return SCALED_LIMIT;
    return scaled > settings->min ? (uint32_t)scaled : settings->min;
}

/* A hash table that is too small for the maximum makes each packet's lookup slow. */
static bool set_max(const struct conntrack_settings *settings, const char *root)
{
    const struct desired max = {
        MAX_FILE, settings->max_given ? LIMIT : AT_LEAST, desired_max(settings, root),
        "new connections are dropped when the table is full (--conntrack-max-per-core 0 leaves it "
        "unchanged)",
        "more connections are tracked than desired (--conntrack-max-per-core 0 leaves it "
        "unchanged)"};
    const struct desired hash_size = {HASH_SIZE_FILE, AT_LEAST, max.value / 4,
                                      "with very many connections, packets take longer", NULL};
    return set(&max, root) && set(&hash_size, root);
}

size_t conntrack_sysctls_apply(const struct conntrack_settings *settings, const char *root)
{
    const struct desired others[] = {
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
    size_t failed = !set_max(settings, root);
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        failed += !set(&others[i], root);
    return failed;
}
