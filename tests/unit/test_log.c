/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Lines of the log, how many there may be, and where they go. Cases are in cases/log. */
#include "fake_clock.h"
#include "script.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <pty.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static int own_stderr;

/* ---- one line ---- */

#define TIME_LENGTH (sizeof("2026-11-21T18:14:44.123Z") - 1)

/* Lines since the last time, and the last one of them. */
static struct {
    char *line;
    enum log_level level;
    int n;
} got;

static void on_line(void *ctx, enum log_level level, const char *line)
{
    ck_assert_ptr_eq(ctx, &got);
    free(got.line);
    got.line = xstrdup(line);
    got.level = level;
    got.n++;
}

static void setup(void)
{
    got.n = 0;
    now = 1000;
    log_set_verbosity(0);
    log_set_sink(on_line, &got);
    own_stderr = dup(STDERR_FILENO);
}

static void teardown(void)
{
    log_set_sink(on_line, &got);
    log_flush(now); /* that lines were dropped is not for the next test */
    log_set_sink(NULL, NULL);
    log_set_verbosity(0);
    unsetenv("JOURNAL_STREAM");
    dup2(own_stderr, STDERR_FILENO);
    close(own_stderr);
    log_output_open();
    free(got.line);
    got.line = NULL;
}

/* The last line behind its time, and how many there were if it is not the only one. */
static void write_got(FILE *out)
{
    struct tm tm;
    if (got.n == 0)
        return;
    const char *end = strptime(got.line, "%Y-%m-%dT%H:%M:%S.", &tm);
    ck_assert_msg(end == got.line + TIME_LENGTH - 4, "%s", got.line);
    ck_assert_msg(strspn(end, "0123456789") == 3 && end[3] == 'Z', "%s", got.line);
    ck_assert_int_eq(end[5], "ewid"[got.level]);
    if (got.n > 1)
        fprintf(out, "%d lines, the last one: ", got.n);
    fprintf(out, "%s\n", end + 5);
    got.n = 0;
}

/* One line came since the last time. */
static void expect_logged(const char *expected)
{
    char *text;
    size_t length;
    FILE *out = open_memstream(&text, &length);
    write_got(out);
    fclose(out);
    ck_assert_str_eq(text, expected);
    free(text);
}

COMMAND(say)
{
    script_bytes(words);
    log_info("x", "%s", words);
    write_got(out);
}

/* "FORMAT with TEXT", with one "%s" at most: as text, and as JSON behind its time. */
COMMAND(format)
{
    double time = 0;
    int length = 0;
    char *with = strstr(words, " with ");
    script_bytes(words);
    if (with)
        *with = '\0';
    log_write(NULL, LOG_LEVEL_INFO, "x", words, with ? with + 6 : NULL);
    write_got(out);
    log_set_json(1);
    log_write(NULL, LOG_LEVEL_INFO, "x", words, with ? with + 6 : NULL);
    log_set_json(0);
    got.n = 0;
    ck_assert_int_eq(sscanf(got.line, "{\"ts\":%lf%n", &time, &length), 1);
    ck_assert_double_eq_tol(time, clock_realtime(), 60);
    cJSON *object = cJSON_Parse(got.line);
    ck_assert_msg(object != NULL, "%s", got.line);
    cJSON_Delete(object);
    fprintf(out, "%s\n", got.line + length);
}

/* Of each sort that messages have. */
TEST(conversions)
{
    log_info("x", "%d %5u|%-4d|%03d %ld %lu %lld %llu %zu %x %c %% %.1f %g %*d %.*s|%5s|%.2s", -1,
             2u, 3, 4, -5L, 6UL, -7LL, 8ULL, sizeof(char), 0xab, 'c', 0.25, 1e9, 4, 5, 2, "abc",
             "de", "fgh");
    expect_logged("info  x: -1     2|3   |004 -5 6 -7 8 1 ab c % 0.2 1e+09    5 ab|   de|fg\n");
}

static int evaluated;

static int evaluate(void)
{
    return ++evaluated;
}

TEST(verbosities)
{
    evaluated = 0;
    for (int limit = 0; limit <= 5; limit++) {
        log_set_verbosity(limit);
        for (int verbosity = 1; verbosity <= 6; verbosity++) {
            int before = evaluated;
            got.n = 0;
            ck_assert_int_eq(!!log_enabled(verbosity), verbosity <= limit);
            log_debug(verbosity, "x", "%d", evaluate());
            log_flush(now);
            ck_assert_int_eq(got.n, verbosity <= limit);
            /* A line that is not printed costs nothing. */
            ck_assert_int_eq(evaluated - before, verbosity <= limit);
        }
        got.n = 0;
        log_info("x", "always");
        ck_assert_int_eq(got.n, 1);
    }
}

/* ---- budgets ---- */

#define TEN 10

static enum log_level level_of(const char *name)
{
    static const char *const names[] = {"error", "warn", "info", "debug"};
    int level = 0;
    while (strcmp(names[level], name) != 0)
        level++;
    return (enum log_level)level;
}

/* "LEVEL N": so many lines by one statement. */
COMMAND(flood)
{
    enum log_level level = level_of(script_word(&words));
    for (int i = 1; i <= atoi(words); i++)
        log_at(level, "policy", "frontend=%d is lost", i);
    write_got(out);
}

/* After so many seconds; when there is more to write, if at all. */
COMMAND(flush)
{
    now += atof(words);
    double due = log_flush(now);
    write_got(out);
    if (due > 0)
        fprintf(out, "due in %g s\n", due - now);
}

COMMAND(pass)
{
    now += atof(words);
}

CASES("log")

static int count_up(int *n)
{
    return ++*n;
}

/* What a line says may cost more than the line. */
TEST(lines_that_nobody_sees_are_not_put_together)
{
    int made = 0;
    for (int i = 0; i < 1000; i++)
        log_warn("policy", "%d", count_up(&made));
    ck_assert_int_eq(made, TEN + 1);
    log_flush(now + 1);
    ck_assert_ptr_nonnull(strstr(got.line, " policy: 11 (and 989 more of this kind)"));
    log_set_verbosity(-1);
    log_info("policy", "%d", count_up(&made));
    ck_assert_int_eq(made, TEN + 1);
}

/* ---- stderr ---- */

static void write_to(int fd)
{
    log_set_sink(NULL, NULL);
    ck_assert_int_ge(dup2(fd, STDERR_FILENO), 0);
    close(fd);
    log_output_open();
}

static void open_pipe(int *reader, int *writer)
{
    int fds[2];
    ck_assert_int_eq(pipe2(fds, O_CLOEXEC), 0);
    *reader = fds[0];
    *writer = fds[1];
}

static void open_socket(int *reader, int *writer)
{
    int fds[2];
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
    *reader = fds[0];
    *writer = fds[1];
}

static void open_terminal(int *reader, int *writer)
{
    ck_assert_int_eq(openpty(reader, writer, NULL, NULL, NULL), 0);
}

static void (*const channels[])(int *reader, int *writer) = {open_pipe, open_socket, open_terminal};
#define CHANNELS (int)(sizeof(channels) / sizeof(channels[0]))

/* All that can be read now, without carriage returns. */
static char *read_all(int fd)
{
    char *text = NULL, chunk[4096];
    size_t length;
    ssize_t n;
    FILE *out = open_memstream(&text, &length);
    fcntl(fd, F_SETFL, O_NONBLOCK);
    while ((n = read(fd, chunk, sizeof(chunk))) > 0)
        for (ssize_t i = 0; i < n; i++)
            if (chunk[i] != '\r')
                fputc(chunk[i], out);
    fclose(out);
    return text;
}

/* One that shows where it was cut. */
static char *message_of(int i, int length)
{
    return xasprintf("begin=%d %0*d end=%d.", i, length, i, i);
}

struct reading {
    int fd, length;
    char *text;      /* the beginning of a line whose end was not read yet */
    int whole, next; /* messages that came, and the one that comes next */
    bool cut;        /* the last line was */
};

#define NOTICE " warn  log: dropped lines because stderr would have blocked lines="

static void read_line(struct reading *r, const char *line)
{
    const char *behind_time = strlen(line) > TIME_LENGTH ? line + TIME_LENGTH : "";
    char *message = message_of(r->next, r->length);
    if (strncmp(behind_time, NOTICE, strlen(NOTICE)) == 0) {
        r->next += (int)strtol(behind_time + strlen(NOTICE), NULL, 10);
        r->cut = false;
    } else if (strncmp(behind_time, " info  x: ", 10) == 0 &&
               strcmp(behind_time + 10, message) == 0) {
        ck_assert_msg(!r->cut, "nothing was said of the one before: %s", line);
        r->whole++;
        r->next++;
    } else {
        ck_assert_msg(!r->cut, "another one that is cut: %s", line);
        r->cut = true;
    }
    free(message);
}

static void read_lines(struct reading *r)
{
    char *more = read_all(r->fd), *text = xasprintf("%s%s", r->text, more), *at = text, *end;
    for (; (end = strchr(at, '\n')) != NULL; at = end + 1) {
        *end = '\0';
        read_line(r, at);
    }
    free(more);
    free(r->text);
    r->text = xstrdup(at);
    free(text);
}

static void say(int i, int length)
{
    char *message = message_of(i, length);
    log_write(NULL, LOG_LEVEL_INFO, "x", "%s", message);
    free(message);
}

/* A terminal takes some more now and then while it moves what it holds to where it is read. */
TESTS(a_reader_that_does_not_read_stops_nothing, 4 * CHANNELS)
{
    static const int lengths[] = {7, 100, 250, 5000};
    struct reading r = {.length = lengths[_i / CHANNELS], .text = xstrdup("")};
    int writer, n = 0;
    channels[_i % CHANNELS](&r.fd, &writer);
    int flags = fcntl(writer, F_GETFL);
    uint64_t before = log_lines_dropped();
    write_to(writer);
    alarm(60); /* it waits for ever otherwise */
    while (n < 3000)
        say(n++, r.length);
    ck_assert_int_eq(fcntl(STDERR_FILENO, F_GETFL), flags); /* others share them */
    uint64_t dropped = log_lines_dropped() - before;
    ck_assert_uint_gt(dropped, 0);
    while (r.next < n) {
        read_lines(&r);
        say(n++, r.length);
        read_lines(&r);
    }
    alarm(0);
    ck_assert_str_eq(r.text, "");
    ck_assert_uint_eq(log_lines_dropped() - before, (unsigned)(n - r.whole));
    ck_assert_uint_lt(log_lines_dropped() - before, dropped + 100);
    free(r.text);
    close(r.fd);
}

/* Without another line to come before. */
TEST(a_turn_says_what_was_dropped)
{
    int reader, writer;
    open_pipe(&reader, &writer);
    uint64_t before = log_lines_dropped();
    write_to(writer);
    while (log_lines_dropped() == before)
        log_write(NULL, LOG_LEVEL_INFO, "x", "said");
    log_flush(now);
    free(read_all(reader));
    log_flush(now);
    char *text = read_all(reader);
    ck_assert_ptr_nonnull(strstr(text, "would have blocked lines=1\n"));
    free(text);
    log_flush(now);
    text = read_all(reader);
    ck_assert_str_eq(text, "");
    free(text);
    close(reader);
}

TEST(to_a_file)
{
    char line[128] = "";
    FILE *file = tmpfile();
    ck_assert_ptr_nonnull(file);
    fputs("before\n", file);
    fflush(file);
    write_to(dup(fileno(file)));
    log_info("x", "said\n");
    rewind(file);
    ck_assert_ptr_nonnull(fgets(line, sizeof(line), file));
    ck_assert_str_eq(line, "before\n");
    ck_assert_ptr_nonnull(fgets(line, sizeof(line), file));
    ck_assert_str_eq(line + TIME_LENGTH, " info  x: said\\x0a\n");
    ck_assert_int_eq(fgetc(file), EOF);
    fclose(file);
    ck_assert_int_eq(got.n, 0);
}

/* The number is another file's soon. */
TEST(to_nobody)
{
    log_set_sink(NULL, NULL);
    close(STDERR_FILENO);
    log_output_open();
    FILE *file = tmpfile();
    ck_assert_int_eq(fileno(file), STDERR_FILENO);
    uint64_t before = log_lines_dropped();
    log_info("x", "said");
    ck_assert_uint_eq(log_lines_dropped(), before + 1);
    ck_assert_int_eq(fgetc(file), EOF);
    fclose(file);
}

/* The journal has a time for each line, and takes the priority from before it. */
static const struct {
    enum log_level level;
    int json;
    const char *line;
} journal_lines[] = {
    {LOG_LEVEL_ERROR, 0, "<3>error x: said\n<3>kube-nftd: ended\n"},
    {LOG_LEVEL_WARN, 0, "<4>warn  x: said\n<3>kube-nftd: ended\n"},
    {LOG_LEVEL_INFO, 0, "<6>info  x: said\n<3>kube-nftd: ended\n"},
    {LOG_LEVEL_DEBUG, 0, "<7>debug x: said\n<3>kube-nftd: ended\n"},
    {LOG_LEVEL_WARN, 1, "<4>{\"ts\":"},
};

TESTS(to_the_journal, 5)
{
    int reader, writer;
    struct stat status;
    open_socket(&reader, &writer);
    ck_assert_int_eq(fstat(writer, &status), 0);
    char *stream = xasprintf("%llu:%llu", (unsigned long long)status.st_dev,
                             (unsigned long long)status.st_ino);
    setenv("JOURNAL_STREAM", stream, 1);
    free(stream);
    write_to(writer);
    log_set_json(journal_lines[_i].json);
    log_write(NULL, journal_lines[_i].level, "x", "said");
    log_set_json(0);
    log_end("ended");
    char *text = read_all(reader);
    ck_assert_msg(strncmp(text, journal_lines[_i].line, strlen(journal_lines[_i].line)) == 0, "%s",
                  text);
    free(text);
    close(reader);
}

UNIT_FIXTURE(setup, teardown)
