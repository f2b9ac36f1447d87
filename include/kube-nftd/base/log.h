/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Log lines on stderr:
 *
 *     2026-11-21T18:14:44.123Z info  manifests: loaded file=/etc/x.yaml services=3
 *
 * time (UTC), level, the subsystem that speaks, a message, then key=value pairs, as logfmt has
 * them: the text of a "key=%s" gets quotes where it needs some. Bytes that are not printable ASCII
 * (they may come from outside) are written as \xNN. Or JSON objects, one a line, with a member for
 * each pair. Nobody ever waits for whoever reads them.
 *
 * One event may concern a hundred thousand addresses, so each statement that logs has a budget: ten
 * lines, then the next one is kept until the statement's window ends, and is logged with how many
 * more there were. Windows of debug lines end with the turn of the loop; those of others last a
 * second, and twice as long each time, up to a minute, while the budget does not suffice.
 *
 * Not thread safe: kube-nftd has one thread.
 */
#ifndef KUBE_NFTD_BASE_LOG_H
#define KUBE_NFTD_BASE_LOG_H

#include <stdbool.h>
#include <stdint.h>

enum log_level { LOG_LEVEL_ERROR, LOG_LEVEL_WARN, LOG_LEVEL_INFO, LOG_LEVEL_DEBUG };

/* A statement that logs. Starts zeroed; only log.c looks into it. */
struct log_site {
    struct log_site *next; /* of those that have logged */
    bool listed;
    enum log_level level;
    double until, window; /* of the present window: its end (clock_monotonic), and its length */
    unsigned lines;       /* in it */
    uint64_t withheld;    /* in it */
    const char *subsystem;
    char *first; /* message of these */
};

/** Looks at what stderr is, once, at the beginning of the process. Without it lines are written to
 * it as they are. */
void log_output_open(void);

/** Sets how much is said, by the number of -v: 0 errors to info, 2 and up the debug lines of that
 * number and below; -1: errors and warnings. */
void log_set_verbosity(int verbosity);

/** Makes each line a JSON object with ts (Unix time), level, logger (the subsystem), msg, and a
 * member for each key=value in the message. */
void log_set_json(int json);

/** Whether log_debug(@verbosity, ...) would print. */
int log_enabled(int verbosity);

/** Lets tests take the finished lines (without newline) instead of stderr; NULL gives them back.
 * All budgets are whole again. */
void log_set_sink(void (*sink)(void *ctx, enum log_level level, const char *line), void *ctx);

/** Ends a turn of the loop at @now: logs what was withheld in windows that have ended, and how many
 * lines were lost if stderr takes lines again. Returns when to call again at the latest, or 0. */
double log_flush(double now);

/** Before the process ends: logs all that was withheld, and then, unless NULL, "kube-nftd: @why",
 * which is for people in either format. */
void log_end(const char *why);

/** Lines that were lost since stderr did not take them at once. */
uint64_t log_lines_dropped(void);

/** Whether @site logs a line of @level now, or keeps it; else it is counted if it would have been
 * kept, and there is no need to put it together. */
bool log_takes(struct log_site *site, enum log_level level);

/** Whatever the level. @site NULL: without a budget. */
void log_write(struct log_site *site, enum log_level level, const char *subsystem,
               const char *format, ...) __attribute__((format(printf, 4, 5)));

#define log_at(level, subsystem, ...)                                                              \
    do {                                                                                           \
        static struct log_site log_site_;                                                          \
        if (log_takes(&log_site_, level))                                                          \
            log_write(&log_site_, level, subsystem, __VA_ARGS__);                                  \
    } while (0)

#define log_error(subsystem, ...) log_at(LOG_LEVEL_ERROR, subsystem, __VA_ARGS__)
#define log_warn(subsystem, ...) log_at(LOG_LEVEL_WARN, subsystem, __VA_ARGS__)
#define log_info(subsystem, ...) log_at(LOG_LEVEL_INFO, subsystem, __VA_ARGS__)
#define log_debug(verbosity, subsystem, ...)                                                       \
    do {                                                                                           \
        if (log_enabled(verbosity))                                                                \
            log_at(LOG_LEVEL_DEBUG, subsystem, __VA_ARGS__);                                       \
    } while (0)

#endif
