/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "kube-nftd/base.h"

#include "log_text.h"

#include <cjson/cJSON.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* What a statement may log in a window, and how many seconds that lasts. */
#define LINES 10
#define WINDOW_FIRST 1.0
#define WINDOW_MOST 60.0

static const char *const level_names[] = {"error", "warn ", "info ", "debug"};
/* LOG_ERR, LOG_WARNING, LOG_INFO and LOG_DEBUG of syslog(3). */
static const char *const journal_priorities[] = {"<3>", "<4>", "<6>", "<7>"};

static int verbosity_limit;
static int as_json;
static void (*line_sink)(void *ctx, enum log_level level, const char *line);
static void *line_sink_ctx;
static struct log_site *sites; /* that have logged */
static struct {
    uint64_t total, untold;
} dropped;

void log_set_verbosity(int verbosity)
{
    verbosity_limit = verbosity;
}

void log_set_json(int json)
{
    as_json = json;
}

int log_enabled(int verbosity)
{
    return verbosity <= verbosity_limit;
}

uint64_t log_lines_dropped(void)
{
    return dropped.total;
}

/* ---- standard error ---- */

/*
 * O_NONBLOCK belongs to the open file description, which stderr shares with other processes, so it
 * is not set there. A pipe or a terminal is opened a second time, which makes a description of our
 * own. What cannot be opened (a socket, as the journal's; somebody else's pipe) is polled before
 * each write of at most PIPE_BUF bytes, for which there is room then. Files never make anybody wait
 * for a reader.
 */

static int output = STDERR_FILENO;
/* It is the journal of systemd, which adds the time itself and takes the priority of a line from
 * "<N>" before it (sd-daemon(3)). */
static bool is_journal;
static bool cut; /* the last line has no end */

/* Whether JOURNAL_STREAM, which children inherit, is about this one. */
static bool is_journal_stream(const struct stat *status)
{
    const char *stream = getenv("JOURNAL_STREAM");
    char *own = xasprintf("%llu:%llu", (unsigned long long)status->st_dev,
                          (unsigned long long)status->st_ino);
    bool same = stream && strcmp(stream, own) == 0;
    free(own);
    return same;
}

void log_output_open(void)
{
    struct stat status;
    bool is_there = fstat(STDERR_FILENO, &status) == 0;
    output = is_there ? STDERR_FILENO : -1; /* the number will be something else's */
    cut = false;
    if (!is_there)
        return;
    is_journal = is_journal_stream(&status);
    if (!S_ISFIFO(status.st_mode) && !S_ISCHR(status.st_mode))
        return;
    int own = open("/proc/self/fd/2", O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (own >= 0)
        output = own;
}

/* Returns how many bytes were taken. */
static size_t write_some(const char *bytes, size_t length)
{
    struct pollfd room = {.fd = output, .events = POLLOUT};
    if (poll(&room, 1, 0) != 1 || !(room.revents & POLLOUT))
        return 0;
    ssize_t n = write(output, bytes, length < PIPE_BUF ? length : PIPE_BUF);
    return n > 0 ? (size_t)n : 0;
}

/* Writes @line, which has no newline, and one behind it. False if not all of it was taken at once;
 * if it was cut, the next line begins on a line of its own. */
static bool write_out(const char *line)
{
    char *text = xasprintf("%s%s\n", cut ? "\n" : "", line);
    size_t length = strlen(text), done = 0, n;
    while (done < length && (n = write_some(text + done, length - done)) > 0)
        done += n;
    free(text);
    if (done > 0)
        cut = done < length;
    return done + 1 >= length; /* the next line brings the end */
}

/* ---- one line ---- */

/* Copies @text with all but printable ASCII escaped, so that one call is one line that does
 * nothing to a terminal, whatever it quotes. */
static char *printable(const char *text)
{
    size_t length = strlen(text);
    char *out = xcalloc(length * 4 + 1, 1);
    char *at = out;
    for (const unsigned char *s = (const unsigned char *)text; *s; s++) {
        if (*s < 0x20 || *s >= 0x7f)
            at += sprintf(at, "\\x%02x", *s);
        else
            *at++ = (char)*s;
    }
    return out;
}

static char *text_line(enum log_level level, const char *subsystem, const char *message)
{
    char now[CLOCK_RFC3339_SIZE];
    if (is_journal)
        return xasprintf("%s %s: %s", level_names[level], subsystem, message);
    clock_rfc3339(clock_realtime(), now);
    return xasprintf("%s %s %s: %s", now, level_names[level], subsystem, message);
}

/* @message is ASCII already. */
static char *json_line(enum log_level level, const char *subsystem, const char *message)
{
    size_t length = strcspn(level_names[level], " ");
    cJSON *text = cJSON_CreateString(message);
    char *quoted = cJSON_PrintUnformatted(text);
    char *members = log_text_members(message);
    char *line =
        xasprintf("{\"ts\":%.3f,\"level\":\"%.*s\",\"logger\":\"%s\",\"msg\":%s%s}",
                  clock_realtime(), (int)length, level_names[level], subsystem, quoted, members);
    free(members);
    free(quoted);
    cJSON_Delete(text);
    return line;
}

/* Takes @line. Returns whether it was written. */
static bool put_line(enum log_level level, char *line)
{
    bool written = true;
    if (line_sink) {
        line_sink(line_sink_ctx, level, line);
    } else {
        const char *priority = is_journal ? journal_priorities[level] : "";
        char *text = xasprintf("%s%s", priority, line);
        written = write_out(text);
        free(text);
    }
    free(line);
    return written;
}

static bool put(enum log_level level, const char *subsystem, const char *message)
{
    char *safe = printable(message);
    char *line = (as_json ? json_line : text_line)(level, subsystem, safe);
    free(safe);
    return put_line(level, line);
}

/* Whether nothing of that is left to say. */
static bool say_dropped(void)
{
    if (dropped.untold == 0)
        return true;
    char *text = xasprintf("dropped lines because stderr would have blocked lines=%llu",
                           (unsigned long long)dropped.untold);
    if (put(LOG_LEVEL_WARN, "log", text))
        dropped.untold = 0;
    free(text);
    return dropped.untold == 0;
}

static void say(enum log_level level, const char *subsystem, const char *message)
{
    if (say_dropped() && put(level, subsystem, message))
        return;
    dropped.total++;
    dropped.untold++;
}

/* ---- budgets ---- */

static void forget_withheld(struct log_site *site)
{
    free(site->first);
    site->first = NULL;
    site->withheld = 0;
}

static void say_withheld(struct log_site *site)
{
    if (site->withheld == 0)
        return;
    unsigned long long more = site->withheld - 1;
    char *text = more ? xasprintf("%s (and %llu more of this kind)", site->first, more)
                      : xstrdup(site->first);
    say(site->level, site->subsystem, text);
    free(text);
    forget_withheld(site);
}

static void begin_window(struct log_site *site, double now)
{
    bool goes_on = site->lines > LINES && now < site->until + site->window;
    say_withheld(site);
    site->lines = 0;
    site->window = goes_on ? fmin(2 * site->window, WINDOW_MOST) : WINDOW_FIRST;
    site->until = now + site->window;
}

/* Whether @site may log one more line now. */
static bool take_line(struct log_site *site, enum log_level level)
{
    double now = clock_monotonic();
    site->level = level;
    if (!site->listed) {
        site->listed = true;
        site->next = sites;
        sites = site;
    }
    if (now >= site->until)
        begin_window(site, now);
    return site->lines++ < LINES;
}

static void withhold(struct log_site *site, const char *subsystem, const char *format, va_list args)
{
    site->withheld++;
    site->subsystem = subsystem;
    site->first = log_text(format, args);
}

bool log_takes(struct log_site *site, enum log_level level)
{
    if (level == LOG_LEVEL_INFO && !log_enabled(0))
        return false;
    if (site->withheld == 0 || clock_monotonic() >= site->until)
        return true;
    site->withheld++;
    return false;
}

void log_write(struct log_site *site, enum log_level level, const char *subsystem,
               const char *format, ...)
{
    va_list args;
    va_start(args, format);
    if (!site || take_line(site, level)) {
        char *message = log_text(format, args);
        say(level, subsystem, message);
        free(message);
    } else {
        withhold(site, subsystem, format, args);
    }
    va_end(args);
}

double log_flush(double now)
{
    double next = 0;
    for (struct log_site *site = sites; site; site = site->next) {
        if (site->level == LOG_LEVEL_DEBUG)
            site->until = now;
        if (now >= site->until)
            say_withheld(site);
        else if (site->withheld > 0)
            next = clock_earlier(next, site->until);
    }
    say_dropped();
    return next;
}

void log_end(const char *why)
{
    log_flush(INFINITY);
    if (!why)
        return;
    char *safe = printable(why);
    put_line(LOG_LEVEL_ERROR, xasprintf("kube-nftd: %s", safe));
    free(safe);
}

void log_set_sink(void (*sink)(void *ctx, enum log_level level, const char *line), void *ctx)
{
    line_sink = sink;
    line_sink_ctx = ctx;
    for (struct log_site *site = sites; site; site = site->next) {
        forget_withheld(site);
        site->until = 0;
        site->lines = 0;
    }
}
