/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What every room uses and no domain knows of: memory, texts, time, errors, files, containers, the
 * log. Times and durations are seconds as double where nothing else is said. Nothing here fails for
 * want of memory: the process ends then. kube-nftd has one thread.
 */
#ifndef KUBE_NFTD_BASE_H
#define KUBE_NFTD_BASE_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/*
 * Checked allocation. Without memory for a few bytes kube-nftd cannot finish the update it is in,
 * and half an update is worse than a restart: the tables outlive the process. So these functions
 * end the process with a message instead of returning NULL. The size of anything that comes from
 * outside (a line of a watch, a manifest file) is bounded by its reader before it is allocated.
 */

/** Zeroed memory for @n objects of @size bytes. Never NULL. */
void *xcalloc(size_t n, size_t size);

/** realloc() to @n objects of @size bytes (overflow checked). Never NULL unless n is 0. */
void *xreallocarray(void *p, size_t n, size_t size);

/** A copy of the string @s, or NULL for NULL. */
char *xstrdup(const char *s);

/** A copy of the first @n bytes of @s with a NUL behind them. */
char *xstrndup(const char *s, size_t n);

char *xasprintf(const char *format, ...) __attribute__((format(printf, 1, 2)));
char *xvasprintf(const char *format, va_list args) __attribute__((format(printf, 1, 0)));

/** Adds an item to a list in words, behind ", " if it has others: @list is made longer, or made if
 * it is NULL. */
void xjoin(char **list, const char *format, ...) __attribute__((format(printf, 2, 3)));

/** For the start of main(): sets malloc() up for a long-lived process whose load comes in bursts
 * (large blocks are always mapped for themselves, threads share one heap), and makes cJSON end the
 * process where it has no memory, like everything here. */
void alloc_settle(void);

/** Gives freed memory back to the system, wherever it lies. Takes milliseconds where much is in
 * use: for after a burst. */
void alloc_give_back(void);

/** Says that memory ran out and ends the process. */
_Noreturn void alloc_failed(void);

/*
 * Errors. A function that can fail returns 0 or -1 and takes a struct error, in which it puts a
 * text on failure, made where the facts are known. Whoever handles the failure logs the text once
 * and clears it.
 */

struct error {
    char *text;         /* owned; NULL while there is no failure */
    bool configuration; /* at fault: the same start would fail again until somebody edits it */
};

/** Puts a formatted text into @err, in place of what is there. Always returns -1. */
int error_set(struct error *err, const char *format, ...) __attribute__((format(printf, 2, 3)));

/** Puts a formatted text and ": " before the text in @err. Always returns -1. */
int error_prefix(struct error *err, const char *format, ...) __attribute__((format(printf, 2, 3)));

/** Marks the failure in @err as one of the configuration. Always returns -1. */
int error_of_configuration(struct error *err);

/** Frees the text of @err; it may be used again. */
void error_clear(struct error *err);

/* Time. */

/* Room for 2026-11-21T18:14:44.123Z and its NUL. */
#define CLOCK_RFC3339_SIZE 40

/** Seconds since some fixed point; never goes back. */
double clock_monotonic(void);

/** Seconds of CPU that this thread has had. */
double clock_cpu(void);

/** Seconds since 1970-01-01 UTC. */
double clock_realtime(void);

/** Nanoseconds since 1970-01-01 UTC, all of them exact. */
uint64_t clock_nanoseconds(void);

/** The earlier of two times, of which 0 is never. */
double clock_earlier(double a, double b);

/** Writes @realtime as RFC 3339 in UTC, with @digits (0, 3 or 6) of fractions of seconds. False,
 * with an empty text, for a year that RFC 3339 does not have. */
bool clock_format(double realtime, int digits, char out[CLOCK_RFC3339_SIZE]);

/** Reads a time of RFC 3339 as seconds since 1970 and a fraction, which must not be there if
 * @fraction is NULL. False, with @seconds left alone, if @text is none. */
bool clock_parse(const char *text, int64_t *seconds, double *fraction);

/** Reads a duration as Go programs write it: numbers, each with a unit (ns, us, ms, s, m, h),
 * behind an optional sign, as 1h30m, 1.5h or 0. False, with @nanoseconds left alone, if @text is
 * not that, or too long for the type. */
bool duration_parse(const char *text, int64_t *nanoseconds);

/** As Go writes it: "1h30m0s", "1.5s", "300ms". The caller frees it. */
char *duration_format(int64_t nanoseconds);

/* Whole files of bounded size: configuration, credentials. */

/** The text in @path (links are followed), which the caller frees. NULL with an error (for the
 * caller to put @path before) if it cannot be read, is no plain file, has more than @limit bytes or
 * holds zero bytes. */
char *file_read(const char *path, size_t limit, struct error *err);

/** Whether two looks at a path found the same file, and nobody wrote to it in between. */
bool file_is_same(const struct stat *a, const struct stat *b);

/*
 * Hash tables for very many items: an item has 16 bytes for its table, and the table has at most 10
 * more for it. Items have no order. Their hashes are kept, since a key is most often in memory that
 * no cache has.
 *
 * An item begins with a struct hash_link and belongs to its user, as does its key, which may be
 * anywhere and stays as it is while the item is in the table. A table starts zeroed; when its last
 * item has left, there is nothing to free.
 */

/* The first member of an item. */
struct hash_link {
    struct hash_link *next; /* in its bucket */
    uint32_t hash;          /* of its key */
};

struct hash_key {
    const void *bytes;
    size_t length;
};

/* Says what an item is found by. All calls for a table name the same function. */
typedef struct hash_key (*hash_key_fn)(const struct hash_link *item);

struct hash_table {
    struct hash_link **buckets;
    size_t n_buckets; /* 0 or a power of 2 */
    size_t n;         /* items */
};

static inline struct hash_key hash_key_of_text(const char *text)
{
    return (struct hash_key){text, strlen(text)};
}

/** The item with a key of these bytes, or NULL. */
void *hash_table_find(const struct hash_table *table, hash_key_fn key_of, struct hash_key key);

/** Adds an item whose key no other item has. */
void hash_table_add(struct hash_table *table, hash_key_fn key_of, struct hash_link *item);

/** Takes out an item that is in the table. */
void hash_table_remove(struct hash_table *table, struct hash_link *item);

/* How far hash_table_each() has come. */
struct hash_walk {
    const struct hash_table *table;
    size_t bucket;
    struct hash_link *next;
};

/** The next item; NULL if that was the last one. */
void *hash_walk_next(struct hash_walk *walk);

/* Runs the statement with @it, a pointer to @type, for each item. The item may leave the table and
 * be freed meanwhile, but no other may, and none may come. */
#define hash_table_each(hash_table, type, it)                                                      \
    for (struct hash_walk it##_walk_ = {(hash_table), 0, NULL}; it##_walk_.table;                  \
         it##_walk_.table = NULL)                                                                  \
        for (type * it; (it = hash_walk_next(&it##_walk_)) != NULL;)

/** For a walk in pieces, between which items come and go: calls @take with the items of some
 * bucket, which must not add or remove any. Begins with @cursor 0; returns that of the next call, 0
 * after the last one. An item that is there all the while is passed, and perhaps again when the
 * table has become smaller meanwhile. */
size_t hash_table_scan(const struct hash_table *table, size_t cursor,
                       void (*take)(void *ctx, void *item), void *ctx);

/** The one copy of @s, a string that very many objects repeat (a node's name); NULL for NULL. Two
 * of these are equal exactly if their pointers are. To be given back by intern_release(). */
const char *intern(const char *s);
void intern_release(const char *s);

/* How often something took how long. */

/* The most bounds that buckets may have. */
#define HISTOGRAM_BOUNDS_MOST 80

/* Upper bounds, ascending; a value that is equal to one belongs below it. */
struct histogram_buckets {
    size_t n;
    double bounds[HISTOGRAM_BOUNDS_MOST];
};

/** kube-proxy's buckets (docs/behaviour.md 7) of kubeproxy_network_programming_duration_seconds, up
 * to 300, and of all other metrics: 0.001 doubled 14 times. */
extern const struct histogram_buckets histogram_programming, histogram_exponential;

/* Starts zeroed but for the buckets. */
struct histogram {
    const struct histogram_buckets *buckets; /* static */
    double sum;
    uint64_t counts[HISTOGRAM_BOUNDS_MOST + 1]; /* of each bucket alone; the last: above all */
};

/** One sample, which must be a number. */
void histogram_add(struct histogram *histogram, double value);

/** How many samples there were. */
uint64_t histogram_count(const struct histogram *histogram);

/*
 * Log lines on stderr, as text
 *
 *     2026-11-21T18:14:44.123Z info  manifests: loaded file=/etc/x.yaml services=3
 *
 * or as JSON objects with ts (Unix time), level, logger (the subsystem), msg, and a member for each
 * key=value in the message. The text of a "key=%s" gets quotes where logfmt needs some. Bytes that
 * are not printable ASCII (they may come from outside) are written as \xNN. Nobody ever waits for
 * whoever reads them.
 *
 * One event may concern a hundred thousand addresses, so each statement that logs has a budget: ten
 * lines, then the next one is kept until the statement's window ends, and is logged with how many
 * more there were. Windows of debug lines end with the turn of the loop; those of others last a
 * second, and twice as long each time, up to a minute, while the budget does not suffice.
 */

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

/** Sets how much is logged, by the number of -v: 0 errors to info, 2 and up the debug lines of that
 * number and below; -1: errors and warnings. */
void log_set_verbosity(int verbosity);

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

/* Texts of others that are to be UTF-8, and to be shown. */

/** Reads the character that @text, which is not empty, begins with. Returns its length in bytes; 0
 * if it is not UTF-8. */
size_t utf8_decode(const char *text, uint32_t *code);

/** Whether all of @text is UTF-8. */
bool utf8_is_valid(const char *text);

/** Whether a character does something to a terminal or to how text is read: control characters,
 * line separators, marks of direction. */
bool utf8_is_control(uint32_t code);

/** A copy of @text for the caller to free; each byte that is not UTF-8 is U+FFFD. */
char *utf8_repair(const char *text);

/** @text with all but RFC 3986's unreserved characters percent-encoded, for the caller to free: fit
 * for one segment of a path or one value of a query. */
char *url_escape(const char *text);

/*
 * A growing array. Declare with VEC(type), start zeroed, release with vec_free (which does not
 * free what the elements own).
 */

#define VEC(type)                                                                                  \
    struct {                                                                                       \
        type *v;                                                                                   \
        size_t n;                                                                                  \
        size_t cap;                                                                                \
    }

/* Makes room for @extra more elements. */
#define vec_reserve(vec, extra)                                                                    \
    do {                                                                                           \
        if ((vec)->n + (extra) > (vec)->cap) {                                                     \
            size_t cap_ = (vec)->cap ? (vec)->cap * 2 : 4;                                         \
            if (cap_ < (vec)->n + (extra))                                                         \
                cap_ = (vec)->n + (extra);                                                         \
            (vec)->v = xreallocarray((vec)->v, cap_, sizeof(*(vec)->v));                           \
            (vec)->cap = cap_;                                                                     \
        }                                                                                          \
    } while (0)

/* Makes room for just @count elements, of an array that has none as yet. */
#define vec_make_room(vec, count)                                                                  \
    do {                                                                                           \
        (vec)->cap = (count);                                                                      \
        (vec)->v = xreallocarray((vec)->v, (vec)->cap, sizeof(*(vec)->v));                         \
    } while (0)

/* The new element as an lvalue to assign to. */
#define vec_push(vec, ...)                                                                         \
    do {                                                                                           \
        vec_reserve(vec, 1);                                                                       \
        (vec)->v[(vec)->n++] = (__VA_ARGS__);                                                      \
    } while (0)

/* Copies of @count elements at @items, in another place. */
#define vec_append(vec, items, count)                                                              \
    do {                                                                                           \
        size_t n_ = (count);                                                                       \
        if (n_ > 0) {                                                                              \
            vec_reserve(vec, n_);                                                                  \
            memcpy((vec)->v + (vec)->n, (items), n_ * sizeof(*(vec)->v));                          \
            (vec)->n += n_;                                                                        \
        }                                                                                          \
    } while (0)

/* Gives back the room for more elements, of an array that is kept for long. */
#define vec_trim(vec)                                                                              \
    do {                                                                                           \
        if ((vec)->cap > (vec)->n) {                                                               \
            (vec)->v = xreallocarray((vec)->v, (vec)->n, sizeof(*(vec)->v));                       \
            (vec)->cap = (vec)->n;                                                                 \
        }                                                                                          \
    } while (0)

/* Forgets the elements and keeps the memory. */
#define vec_clear(vec) ((void)((vec)->n = 0))

/* The same, but gives back the memory of many: for what is filled over and over, with few elements
 * nearly always. */
#define vec_clear_few(vec)                                                                         \
    do {                                                                                           \
        if ((vec)->cap > VEC_FEW)                                                                  \
            vec_free(vec);                                                                         \
        else                                                                                       \
            vec_clear(vec);                                                                        \
    } while (0)
#define VEC_FEW 64

#define vec_free(vec)                                                                              \
    do {                                                                                           \
        free((vec)->v);                                                                            \
        (vec)->v = NULL;                                                                           \
        (vec)->n = (vec)->cap = 0;                                                                 \
    } while (0)

/* Forgets the first @count elements, and keeps the memory while there are others. */
#define vec_drop_first(vec, count)                                                                 \
    do {                                                                                           \
        size_t n_ = (count);                                                                       \
        (vec)->n -= n_;                                                                            \
        if ((vec)->n == 0)                                                                         \
            vec_clear_few(vec);                                                                    \
        else if (n_ > 0)                                                                           \
            memmove((vec)->v, (vec)->v + n_, (vec)->n * sizeof(*(vec)->v));                        \
    } while (0)

/* Runs the statement with @it pointing at each element in turn. */
#define vec_each(vec, it)                                                                          \
    for (__typeof__(*(vec)->v) *it = (vec)->v, *it##_end_ = (vec)->n ? it + (vec)->n : it;         \
         it < it##_end_; it++)

#endif
