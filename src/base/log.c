/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "kube-nftd/base/log.h"

#include "kube-nftd/base/alloc.h"
#include "kube-nftd/base/clock.h"

#include <cjson/cJSON.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const level_names[] = {"error", "warn ", "info ", "debug"};

static int verbosity_limit;
static int as_json;
static void (*line_sink)(void *ctx, enum log_level level, const char *line);
static void *line_sink_ctx;

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

void log_set_sink(void (*sink)(void *ctx, enum log_level level, const char *line), void *ctx)
{
    line_sink = sink;
    line_sink_ctx = ctx;
}

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
    clock_rfc3339(clock_realtime(), now);
    return xasprintf("%s %s %s: %s", now, level_names[level], subsystem, message);
}

/* @message is ASCII already. */
static char *json_line(enum log_level level, const char *subsystem, const char *message)
{
    size_t length = strcspn(level_names[level], " ");
    cJSON *text = cJSON_CreateString(message);
    char *quoted = text ? cJSON_PrintUnformatted(text) : NULL;
    if (!quoted)
        alloc_failed();
    char *line = xasprintf("{\"ts\":%.3f,\"level\":\"%.*s\",\"logger\":\"%s\",\"msg\":%s}",
                           clock_realtime(), (int)length, level_names[level], subsystem, quoted);
    free(quoted);
    cJSON_Delete(text);
    return line;
}

void log_write(enum log_level level, const char *subsystem, const char *format, ...)
{
    va_list args;
    if (level == LOG_LEVEL_INFO && !log_enabled(0))
        return;
    va_start(args, format);
    char *message = xvasprintf(format, args);
    va_end(args);
    char *safe = printable(message);
    char *line = (as_json ? json_line : text_line)(level, subsystem, safe);
    if (line_sink)
        line_sink(line_sink_ctx, level, line);
    else
        fprintf(stderr, "%s\n", line);
    free(line);
    free(safe);
    free(message);
}
