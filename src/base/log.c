/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "kube-nftd/base.h"

#include <cjson/cJSON.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Budget of a statement per window, and the window's length in seconds. */
#define LINES 10
#define WINDOW_FIRST 1.0
#define WINDOW_MOST 60.0

#define KEY_LETTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-"
#define DIGITS "0123456789"

typedef VEC(char) text_vec;

static const char *const level_names[] = {"error", "warn", "info", "debug"};
/* LOG_ERR, LOG_WARNING, LOG_INFO and LOG_DEBUG of syslog(3). */
static const char *const journal_priorities[] = {"<3>", "<4>", "<6>", "<7>"};

static int verbosity_limit;
static int as_json;
static void (*line_sink)(void *ctx, enum log_level level, const char *line);
static void *line_sink_ctx;
static struct log_site *sites;
static struct {
    uint64_t total, unreported;
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
 * O_NONBLOCK belongs to the open file description, which other processes share with stderr, so it
 * must not be set there. A pipe or terminal is reopened instead, which creates a description of our
 * own. If that fails (a socket, as the journal's; another user's pipe), each write is limited to
 * PIPE_BUF bytes and follows a poll(), so it cannot block. Files never block.
 */

static int output = STDERR_FILENO;
/* stderr is systemd's journal, which adds the time itself and reads a line's priority from a "<N>"
 * prefix (sd-daemon(3)). */
static bool is_journal;
static bool cut; /* the last line was written in part */

void log_output_open(void)
{
    struct stat status;
    bool is_there = fstat(STDERR_FILENO, &status) == 0;
    output = is_there ? STDERR_FILENO : -1; /* the descriptor may be reused */
    cut = false;
    if (!is_there)
        return;
    /* The variable is inherited, so it may refer to another file. */
    const char *stream = getenv("JOURNAL_STREAM");
    char *own = xasprintf("%llu:%llu", (unsigned long long)status.st_dev,
                          (unsigned long long)status.st_ino);
    is_journal = stream && strcmp(stream, own) == 0;
    free(own);
    if (!S_ISFIFO(status.st_mode) && !S_ISCHR(status.st_mode))
        return;
    int again = open("/proc/self/fd/2", O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (again >= 0)
        output = again;
}

/* Returns the number of bytes written. */
static size_t write_some(const char *bytes, size_t length)
{
    struct pollfd room = {.fd = output, .events = POLLOUT};
    if (poll(&room, 1, 0) != 1 || !(room.revents & POLLOUT))
        return 0;
    ssize_t n = write(output, bytes, length < PIPE_BUF ? length : PIPE_BUF);
    return n > 0 ? (size_t)n : 0;
}

/* Writes @line (owned, without newline). False if it was not written in full; after a partial line
 * the next one starts with a newline. */
static bool write_line(enum log_level level, char *line)
{
    bool written = true;
    if (line_sink) {
        line_sink(line_sink_ctx, level, line);
    } else {
        char *text = xasprintf("%s%s%s\n", cut ? "\n" : "",
                               is_journal ? journal_priorities[level] : "", line);
        size_t length = strlen(text), done = 0, n;
        while (done < length && (n = write_some(text + done, length - done)) > 0)
            done += n;
        free(text);
        if (done > 0)
            cut = done < length;
        written = done + 1 >= length; /* the next line adds the newline */
    }
    free(line);
    return written;
}

/* ---- the message ---- */

/* Whether @out ends with "key=". */
static bool ends_with_key(const text_vec *out)
{
    size_t n = out->n;
    if (n < 2 || out->v[n - 1] != '=')
        return false;
    for (n--; n > 0 && strchr(KEY_LETTERS, out->v[n - 1]); n--)
        ;
    return n + 1 < out->n && (n == 0 || out->v[n - 1] == ' ' || out->v[n - 1] == '(');
}

/* clang-tidy does not see that message_of() initialises the list.
 * NOLINTBEGIN(clang-analyzer-valist.Uninitialized) */

/* @spec is one conversion, such as "%.3f". */
static char *format_one(const char *spec, va_list *args)
{
    char letter = spec[strlen(spec) - 1];
    if (strchr(spec, '*')) { /* width or precision from an argument */
        int number = va_arg(*args, int);
        char *plain =
            xasprintf("%.*s%d%s", (int)strcspn(spec, "*"), spec, number, strchr(spec, '*') + 1);
        char *text = format_one(plain, args);
        free(plain);
        return text;
    }
    if (letter == 's')
        return xasprintf(spec, va_arg(*args, const char *));
    if (strchr("fgeFGE", letter))
        return xasprintf(spec, va_arg(*args, double));
    if (strstr(spec, "ll"))
        return xasprintf(spec, va_arg(*args, long long));
    if (strchr(spec, 'l'))
        return xasprintf(spec, va_arg(*args, long));
    if (strchr(spec, 'z'))
        return xasprintf(spec, va_arg(*args, size_t));
    return xasprintf(spec, va_arg(*args, int));
}

/* NOLINTEND(clang-analyzer-valist.Uninitialized) */

/* Whether @out ends with a quote that opens: \"%s\". */
static bool ends_with_quote(const text_vec *out)
{
    size_t n = out->n;
    return n > 0 && out->v[n - 1] == '"' && (n == 1 || strchr(" =(", out->v[n - 2]));
}

/* Quotes the text of a "key=%s" if it is empty or contains blanks, quotes or '='. Neither there nor
 * in quotes of the format can the text end its quotes. */
static void put_one(text_vec *out, const char *spec, va_list *args)
{
    char *text = format_one(spec, args);
    bool is_text = spec[strlen(spec) - 1] == 's';
    bool quoted = is_text && ends_with_key(out) && (!*text || strpbrk(text, " \t\n\"="));
    bool escaped = quoted || (is_text && ends_with_quote(out));
    if (quoted)
        vec_push(out, '"');
    for (const char *s = text; *s; s++) {
        if (escaped && (*s == '"' || *s == '\\'))
            vec_push(out, '\\');
        vec_push(out, *s);
    }
    if (quoted)
        vec_push(out, '"');
    free(text);
}

static char *message_of(const char *format, va_list args)
{
    va_list copy;
    text_vec out = {0};
    va_copy(copy, args);
    while (*format) {
        size_t plain = strcspn(format, "%");
        vec_append(&out, format, plain);
        format += plain;
        if (!*format)
            break;
        size_t n = 1 + strspn(format + 1, "-+ #0123456789.*hlz");
        char *spec = xstrndup(format, n + (format[n] != '\0'));
        if (format[n] == '%')
            vec_push(&out, '%');
        else
            put_one(&out, spec, &copy);
        format += strlen(spec);
        free(spec);
    }
    va_end(copy);
    vec_push(&out, '\0');
    return out.v;
}

/* Copies @text with all but printable ASCII escaped, so that one call gives one line and cannot
 * control a terminal. */
static char *printable(const char *text)
{
    char *out = xcalloc(strlen(text) * 4 + 1, 1), *at = out;
    for (const unsigned char *s = (const unsigned char *)text; *s; s++) {
        if (*s < 0x20 || *s >= 0x7f)
            at += sprintf(at, "\\x%02x", *s);
        else
            *at++ = (char)*s;
    }
    return out;
}

/* ---- JSON ---- */

/* The closing quote of the quoted text at @s, or the end of the string. */
static const char *quote_end(const char *s)
{
    for (s++; *s && *s != '"'; s++)
        s += *s == '\\' && s[1];
    return s;
}

/* Whether @text is a JSON number without exponent. */
static bool is_number(const char *text)
{
    size_t sign = *text == '-', whole = strspn(text + sign, DIGITS), n = sign + whole;
    if (whole == 0 || (whole > 1 && text[sign] == '0'))
        return false;
    size_t fraction = text[n] == '.' ? strspn(text + n + 1, DIGITS) : 0;
    return text[n + (fraction ? fraction + 1 : 0)] == '\0';
}

/* Adds a key=value pair. A repeated key becomes "key2". */
static void add_pair(cJSON *object, const char *key, size_t key_length, const char *value,
                     size_t length, bool quoted)
{
    static const char *const reserved[] = {"ts", "level", "logger", "msg"};
    char *name = xstrndup(key, key_length), *text = xstrndup(value, length), *to = text;
    for (const char *from = text; quoted && *from; from++) {
        from += *from == '\\' && (from[1] == '"' || from[1] == '\\');
        *to++ = *from;
    }
    if (quoted)
        *to = '\0';
    bool skip = false;
    for (size_t i = 0; i < sizeof(reserved) / sizeof(*reserved); i++)
        skip = skip || strcmp(name, reserved[i]) == 0;
    for (unsigned n = 2; !skip && cJSON_GetObjectItemCaseSensitive(object, name); n++) {
        free(name);
        name = xasprintf("%.*s%u", (int)key_length, key, n);
    }
    if (!skip && !quoted && is_number(text))
        cJSON_AddRawToObject(object, name, text);
    else if (!skip)
        cJSON_AddStringToObject(object, name, text);
    free(name);
    free(text);
}

/* @message is printable ASCII. */
static char *json_line(enum log_level level, const char *subsystem, const char *message)
{
    cJSON *object = cJSON_CreateObject();
    char time[32];
    snprintf(time, sizeof(time), "%.3f", clock_realtime());
    cJSON_AddRawToObject(object, "ts", time);
    cJSON_AddStringToObject(object, "level", level_names[level]);
    cJSON_AddStringToObject(object, "logger", subsystem);
    cJSON_AddStringToObject(object, "msg", message);
    for (const char *at = message; *at; at += strspn(at, " ")) {
        const char *key = at + (*at == '(');
        size_t n = strspn(key, KEY_LETTERS);
        bool is_pair = n > 0 && key[n] == '=';
        const char *value = is_pair ? key + n + 1 : key;
        bool quoted = *value == '"';
        const char *end = quoted ? quote_end(value) : value + strcspn(value, " ");
        at = end + (quoted && *end);
        value += quoted;
        while (!quoted && end > value && strchr(".,:;)", end[-1]))
            end--;
        if (is_pair)
            add_pair(object, key, n, value, (size_t)(end - value), quoted);
    }
    char *line = cJSON_PrintUnformatted(object);
    cJSON_Delete(object);
    return line;
}

/* ---- lines ---- */

static bool put_line(enum log_level level, const char *subsystem, const char *message)
{
    char time[CLOCK_RFC3339_SIZE] = "", *safe = printable(message), *line;
    if (as_json) {
        line = json_line(level, subsystem, safe);
    } else {
        if (!is_journal)
            clock_format(clock_realtime(), 3, time);
        line = xasprintf("%s%s%-5s %s: %s", time, *time ? " " : "", level_names[level], subsystem,
                         safe);
    }
    free(safe);
    return write_line(level, line);
}

/* Returns true if no dropped lines remain to be reported. */
static bool report_dropped(void)
{
    if (dropped.unreported == 0)
        return true;
    char *text = xasprintf("dropped lines because stderr would have blocked lines=%llu",
                           (unsigned long long)dropped.unreported);
    bool done = put_line(LOG_LEVEL_WARN, "log", text);
    free(text);
    if (done)
        dropped.unreported = 0;
    return done;
}

static void put_or_drop(enum log_level level, const char *subsystem, const char *message)
{
    if (report_dropped() && put_line(level, subsystem, message))
        return;
    dropped.total++;
    dropped.unreported++;
}

/* ---- budgets ---- */

static void free_withheld(struct log_site *site)
{
    free(site->first);
    site->first = NULL;
    site->withheld = 0;
}

static void put_withheld(struct log_site *site)
{
    if (site->withheld == 0)
        return;
    unsigned long long more = site->withheld - 1;
    char *text = more ? xasprintf("%s (and %llu more of this kind)", site->first, more)
                      : xstrdup(site->first);
    put_or_drop(site->level, site->subsystem, text);
    free(text);
    free_withheld(site);
}

/* Charges a line to the budget of @site; false if that is used up. */
static bool take_line(struct log_site *site, enum log_level level)
{
    double now = clock_monotonic();
    site->level = level;
    if (!site->listed) {
        site->listed = true;
        site->next = sites;
        sites = site;
    }
    if (now >= site->until) {
        bool goes_on = site->lines > LINES && now < site->until + site->window;
        put_withheld(site);
        site->lines = 0;
        site->window = goes_on ? fmin(2 * site->window, WINDOW_MOST) : WINDOW_FIRST;
        site->until = now + site->window;
    }
    return site->lines++ < LINES;
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
    char *message = message_of(format, args);
    va_end(args);
    if (!site || take_line(site, level)) {
        put_or_drop(level, subsystem, message);
        free(message);
    } else {
        site->withheld++;
        site->subsystem = subsystem;
        site->first = message;
    }
}

double log_flush(double now)
{
    double next = 0;
    for (struct log_site *site = sites; site; site = site->next) {
        if (site->level == LOG_LEVEL_DEBUG)
            site->until = now;
        if (now >= site->until)
            put_withheld(site);
        else if (site->withheld > 0)
            next = clock_earlier(next, site->until);
    }
    report_dropped();
    return next;
}

void log_end(const char *why)
{
    log_flush(INFINITY);
    if (!why)
        return;
    char *safe = printable(why);
    write_line(LOG_LEVEL_ERROR, xasprintf("kube-nftd: %s", safe));
    free(safe);
}

void log_set_sink(void (*sink)(void *ctx, enum log_level level, const char *line), void *ctx)
{
    line_sink = sink;
    line_sink_ctx = ctx;
    for (struct log_site *site = sites; site; site = site->next) {
        free_withheld(site);
        site->until = 0;
        site->lines = 0;
    }
}
