/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Log lines on stderr:
 *
 *     2026-11-21T18:14:44.123Z info  manifests: loaded file=/etc/x.yaml services=3
 *
 * time (UTC), level, the subsystem that speaks, a message, then key=value pairs. Bytes that are
 * not printable ASCII (they may come from outside) are written as \xNN. Or JSON objects, one a
 * line. Not thread safe:
 * kube-nftd has one thread.
 */
#ifndef KUBE_NFTD_BASE_LOG_H
#define KUBE_NFTD_BASE_LOG_H

enum log_level { LOG_LEVEL_ERROR, LOG_LEVEL_WARN, LOG_LEVEL_INFO, LOG_LEVEL_DEBUG };

/** Sets how much is said, by the number of -v: 0 errors to info, 2 and up the debug lines of that
 * number and below; -1: errors and warnings. */
void log_set_verbosity(int verbosity);

/** Makes each line a JSON object with ts (Unix time), level, logger (the subsystem) and msg. */
void log_set_json(int json);

/** Whether log_debug(@verbosity, ...) would print. */
int log_enabled(int verbosity);

/** Lets tests take the finished lines (without newline) instead of stderr; NULL gives them back. */
void log_set_sink(void (*sink)(void *ctx, enum log_level level, const char *line), void *ctx);

void log_write(enum log_level level, const char *subsystem, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#define log_error(subsystem, ...) log_write(LOG_LEVEL_ERROR, subsystem, __VA_ARGS__)
#define log_warn(subsystem, ...) log_write(LOG_LEVEL_WARN, subsystem, __VA_ARGS__)
#define log_info(subsystem, ...) log_write(LOG_LEVEL_INFO, subsystem, __VA_ARGS__)
#define log_debug(verbosity, subsystem, ...)                                                       \
    do {                                                                                           \
        if (log_enabled(verbosity))                                                                \
            log_write(LOG_LEVEL_DEBUG, subsystem, __VA_ARGS__);                                    \
    } while (0)

#endif
