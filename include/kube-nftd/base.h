/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Shared by all modules: memory, strings, time, errors, files, containers, the log. Times and
 * durations are seconds as double unless noted. Nothing here returns for lack of memory: the
 * process ends instead. kube-nftd has one thread, and another one that serves NodePorts on loopback
 * addresses, which uses no strings of intern() and does not log.
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
 * Checked allocation. Without memory for a few bytes kube-nftd cannot finish the current update,
 * and half an update is worse than a restart, which the tables survive. So these functions end the
 * process with a message instead of returning NULL. Input from outside (a line of a watch, a
 * manifest file) is bounded by its reader before it is allocated.
 */

/** Zeroed memory for @n objects of @size bytes. Never NULL. */
void *xcalloc(size_t n, size_t size);

/** realloc() to @n objects of @size bytes (overflow checked). Never NULL unless n is 0. */
void *xreallocarray(void *p, size_t n, size_t size);

/** A copy of the string @s, or NULL for NULL. */
char *xstrdup(const char *s);

/** A copy of the first @n bytes of @s, NUL-terminated. */
char *xstrndup(const char *s, size_t n);

/** Decodes @n characters of base64, with line breaks anywhere. Returns the bytes with a NUL behind
 * them, for the caller to free; NULL if it is not base64. */
char *base64_decode(const char *text, size_t n, size_t *length);

char *xasprintf(const char *format, ...) __attribute__((format(printf, 1, 2)));
char *xvasprintf(const char *format, va_list args) __attribute__((format(printf, 1, 0)));

/** Removes leading and trailing blanks and line breaks, in place. */
void text_trim(char *text);

/** Appends an item to the string *@list, after ", " if it is not empty. *@list may be NULL and is
 * reallocated. */
void xjoin(char **list, const char *format, ...) __attribute__((format(printf, 2, 3)));

/** Call at the start of main(). Tunes malloc() for a long-lived process with bursts of load (large
 * blocks are always mapped separately, threads share one heap), and makes cJSON end the process
 * when out of memory. */
void alloc_init(void);

/** Returns free heap memory to the system. Takes milliseconds on a large heap: call it after a
 * burst. */
void alloc_trim(void);

/** Reports lack of memory and ends the process; the second, if a library returned NULL as @p. */
_Noreturn void alloc_failed(void);
void *alloc_check(void *p) __attribute__((returns_nonnull));

/*
 * Errors. A function that can fail returns 0 or -1 and takes a struct error. On failure it sets a
 * text there, composed where the facts are known. The caller that handles the failure logs the text
 * once and clears it.
 */

struct error {
    char *text;         /* owned; NULL: no failure */
    bool configuration; /* caused by the configuration: a restart fails again until it is edited */
};

/** Sets the text of @err and frees the old one. Always returns -1. */
int error_set(struct error *err, const char *format, ...) __attribute__((format(printf, 2, 3)));

/** Prepends a formatted text and ": " to the text of @err. Always returns -1. */
int error_prefix(struct error *err, const char *format, ...) __attribute__((format(printf, 2, 3)));

/** Marks @err as a configuration error. Always returns -1. */
int error_of_configuration(struct error *err);

/** Resets @err for reuse. */
void error_clear(struct error *err);

/* Time. */

/* Buffer size for clock_format(). */
#define CLOCK_RFC3339_SIZE 40

/** Seconds of CLOCK_MONOTONIC. */
double clock_monotonic(void);

/** CPU seconds used by this thread. */
double clock_cpu(void);

/** Seconds since 1970-01-01 UTC. */
double clock_realtime(void);

/** Nanoseconds since 1970-01-01 UTC, exact. */
uint64_t clock_nanoseconds(void);

/** The earlier of two times; 0 means never. */
double clock_earlier(double a, double b);

/** Formats @realtime as RFC 3339 in UTC, with @digits (0, 3 or 6) decimals of a second. False, and
 * @out is empty, for years outside of RFC 3339. */
bool clock_format(double realtime, int digits, char out[CLOCK_RFC3339_SIZE]);

/** Parses an RFC 3339 time into seconds since 1970 and a fraction; NULL for @fraction rejects
 * fractions. False if @text is invalid; @seconds is unchanged then. */
bool clock_parse(const char *text, int64_t *seconds, double *fraction);

/** Parses a Go duration: numbers with units (ns, us, ms, s, m, h) after an optional sign, such as
 * 1h30m, 1.5h or 0. False if invalid or out of range; @nanoseconds is unchanged then. */
bool duration_parse(const char *text, int64_t *nanoseconds);

/** Formats a duration as Go does: "1h30m0s", "1.5s", "300ms". The caller frees it. */
char *duration_format(int64_t nanoseconds);

/* Whole files of bounded size: configuration, credentials. */

/** Reads the file @path, following links; the caller frees the text. NULL with an error (without
 * the path, which the caller prepends) if it cannot be read, is not a regular file, exceeds @limit
 * bytes or contains NUL bytes. */
char *file_read(const char *path, size_t limit, struct error *err);

/** Whether two stat() results show the same file, unmodified. */
bool file_is_same(const struct stat *a, const struct stat *b);

/*
 * Hash tables for large numbers of items: 16 bytes in the item and at most 10 more in the table.
 * Items are unordered. Hashes are stored, because comparing keys usually misses the CPU caches.
 *
 * An item starts with a struct hash_link. Item and key belong to the caller; the key may be
 * anywhere, but must not change while the item is in the table. A table starts zeroed; an empty
 * table owns no memory.
 */

struct hash_link {
    struct hash_link *next;
    uint32_t hash; /* of its key */
};

struct hash_key {
    const void *bytes;
    size_t length;
};

/* Returns the key of an item. All calls for a table pass the same function. */
typedef struct hash_key (*hash_key_fn)(const struct hash_link *item);

struct hash_table {
    struct hash_link **buckets;
    size_t n_buckets; /* 0 or a power of 2 */
    size_t n;         /* items */
};

/* FNV-1a: the same in each process and version, so fit to be stored. Starts with FNV_START. */
#define FNV_START UINT64_C(0xcbf29ce484222325)

static inline uint64_t fnv(uint64_t hash, const void *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++)
        hash = (hash ^ ((const uint8_t *)bytes)[i]) * UINT64_C(0x100000001b3);
    return hash;
}

static inline struct hash_key hash_key_of_text(const char *text)
{
    return (struct hash_key){text, strlen(text)};
}

/** The item with @key, or NULL. */
void *hash_table_find(const struct hash_table *table, hash_key_fn key_of, struct hash_key key);

/** Adds an item. No item in the table may have the same key. */
void hash_table_add(struct hash_table *table, hash_key_fn key_of, struct hash_link *item);

/** Removes an item, which must be in the table. */
void hash_table_remove(struct hash_table *table, struct hash_link *item);

/* State of hash_table_each(). */
struct hash_walk {
    const struct hash_table *table;
    size_t bucket;
    struct hash_link *next;
};

/** The next item; NULL at the end. */
void *hash_walk_next(struct hash_walk *walk);

/* Loops over all items; @it is a pointer to @type. The body may remove and free @it, but must not
 * add or remove other items. */
#define hash_table_each(hash_table, type, it)                                                      \
    for (struct hash_walk it##_walk_ = {(hash_table), 0, NULL}; it##_walk_.table;                  \
         it##_walk_.table = NULL)                                                                  \
        for (type * it; (it = hash_walk_next(&it##_walk_)) != NULL;)

/** Walks the table in pieces; items may be added and removed between calls. Passes the items of one
 * bucket to @take, which must not change the table. Start with @cursor 0; returns the next cursor,
 * 0 at the end. Items present throughout are visited at least once, and perhaps again if the table
 * shrinks. */
size_t hash_table_scan(const struct hash_table *table, size_t cursor,
                       void (*take)(void *ctx, void *item), void *ctx);

/** Returns the shared copy of @s, for strings that many objects repeat (such as node names); NULL
 * for NULL. Equal strings give equal pointers. Release with intern_release(). */
const char *intern(const char *s);
void intern_release(const char *s);

/* Histograms of durations. */

#define HISTOGRAM_BOUNDS_MOST 80

/* Inclusive upper bounds, ascending. */
struct histogram_buckets {
    size_t n;
    double bounds[HISTOGRAM_BOUNDS_MOST];
};

/** kube-proxy's buckets (docs/behaviour.md 7): those of
 * kubeproxy_network_programming_duration_seconds, up to 300, and those of all other metrics, 0.001
 * doubled 14 times. */
extern const struct histogram_buckets histogram_programming, histogram_exponential;

/* Initialise to zero, except for buckets. */
struct histogram {
    const struct histogram_buckets *buckets; /* static */
    double sum;
    uint64_t counts[HISTOGRAM_BOUNDS_MOST + 1]; /* per bucket; the last: above all */
};

/** Adds a sample, which must not be NaN. */
void histogram_add(struct histogram *histogram, double value);

/** Number of samples. */
uint64_t histogram_count(const struct histogram *histogram);

/*
 * Log lines on stderr, as text
 *
 *     2026-11-21T18:14:44.123Z info  source: loaded file=/etc/x.yaml services=3
 *
 * or as JSON objects with ts (Unix time), level, logger (the subsystem), msg, and a member for each
 * key=value in the message. Values of "key=%s" are quoted as in logfmt, and a text in \"%s\" cannot
 * end its quotes. Bytes other than printable ASCII (they may come from outside) are written as
 * \xNN. Logging never blocks on a slow reader.
 *
 * One event may concern a hundred thousand addresses, so each log statement has a budget of ten
 * lines per window. The next line is kept until the window ends, and is logged with the number of
 * further ones. Windows of debug lines end with the loop iteration. Others last a second, doubled
 * while the budget is exceeded, up to a minute.
 */

enum log_level { LOG_LEVEL_ERROR, LOG_LEVEL_WARN, LOG_LEVEL_INFO, LOG_LEVEL_DEBUG };

/* A log statement. Starts zeroed; private to log.c. */
struct log_site {
    struct log_site *next;
    bool listed;
    enum log_level level;
    double until, window; /* current window: end (clock_monotonic) and length */
    unsigned lines;       /* in the current window */
    uint64_t withheld;    /* likewise */
    const char *subsystem;
    char *first; /* first withheld message */
};

/** Detects what stderr is. Call once at startup; without it, lines are written to it directly. */
void log_output_open(void);

/** Sets the level by the number of -v: 0: errors to info; N: also log_debug() lines up to N; -1:
 * errors and warnings. */
void log_set_verbosity(int verbosity);

void log_set_json(int json);

int log_enabled(int verbosity);

/** For tests: passes finished lines (without newline) to @sink instead of stderr; NULL restores it.
 * Resets all budgets. */
void log_set_sink(void (*sink)(void *ctx, enum log_level level, const char *line), void *ctx);

/** Call at the end of a loop iteration: logs withheld lines of windows that have ended, and the
 * number of dropped lines once stderr is writable. Returns the time of the next call at the latest,
 * or 0. */
double log_flush(double now);

/** Call before exit: logs all withheld lines, then, unless @why is NULL, "kube-nftd: @why", as
 * plain text in either format. */
void log_end(const char *why);

/** Lines dropped because stderr was not writable. */
uint64_t log_lines_dropped(void);

/** Whether @site will log or keep a line of @level now. If not, the line is counted where due and
 * need not be formatted. */
bool log_takes(struct log_site *site, enum log_level level);

/** Logs regardless of level. @site NULL: no budget. */
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

/* UTF-8 and escaping of untrusted text. */

/** Decodes the first character of @text, which must not be empty. Returns its length in bytes; 0 if
 * it is not UTF-8. */
size_t utf8_decode(const char *text, uint32_t *code);

/** Whether all of @text is UTF-8. */
bool utf8_is_valid(const char *text);

/** Whether a character may affect a terminal or the reading order: control characters, line
 * separators, directional marks. */
bool utf8_is_control(uint32_t code);

/** A copy of @text with U+FFFD for each byte that is not UTF-8. The caller frees it. */
char *utf8_repair(const char *text);

/** The length of @length bytes of UTF-8 when cut to @limit at a character boundary. */
size_t utf8_cut(const char *text, size_t length, size_t limit);

/** A copy of @text with all but RFC 3986's unreserved characters percent-encoded, for use in a path
 * segment. The caller frees it. */
char *url_escape(const char *text);

/** Appends a query argument to *@url, which is reallocated. */
void url_add_argument(char **url, const char *key, const char *value);

/*
 * A growing array. Declare with VEC(type), start zeroed, release with vec_free (which does not free
 * what the elements own).
 */

#define VEC(type)                                                                                  \
    struct {                                                                                       \
        type *v;                                                                                   \
        size_t n;                                                                                  \
        size_t cap;                                                                                \
    }

/* Reserves room for @extra more elements. */
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

/* Allocates exactly @count elements for an empty array. */
#define vec_make_room(vec, count)                                                                  \
    do {                                                                                           \
        (vec)->cap = (count);                                                                      \
        (vec)->v = xreallocarray((vec)->v, (vec)->cap, sizeof(*(vec)->v));                         \
    } while (0)

/* Appends an element. */
#define vec_push(vec, ...)                                                                         \
    do {                                                                                           \
        vec_reserve(vec, 1);                                                                       \
        (vec)->v[(vec)->n++] = (__VA_ARGS__);                                                      \
    } while (0)

/* Appends @count elements from @items, which must not overlap the array. */
#define vec_append(vec, items, count)                                                              \
    do {                                                                                           \
        size_t n_ = (count);                                                                       \
        if (n_ > 0) {                                                                              \
            vec_reserve(vec, n_);                                                                  \
            memcpy((vec)->v + (vec)->n, (items), n_ * sizeof(*(vec)->v));                          \
            (vec)->n += n_;                                                                        \
        }                                                                                          \
    } while (0)

/* Frees unused capacity of a long-lived array. */
#define vec_trim(vec)                                                                              \
    do {                                                                                           \
        if ((vec)->cap > (vec)->n) {                                                               \
            (vec)->v = xreallocarray((vec)->v, (vec)->n, sizeof(*(vec)->v));                       \
            (vec)->cap = (vec)->n;                                                                 \
        }                                                                                          \
    } while (0)

/* Empties the array and keeps its memory. */
#define vec_clear(vec) ((void)((vec)->n = 0))

/* The same, but frees a large array: for buffers that are reused and nearly always small. */
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

/* Removes the first @count elements. */
#define vec_drop_first(vec, count)                                                                 \
    do {                                                                                           \
        size_t n_ = (count);                                                                       \
        (vec)->n -= n_;                                                                            \
        if ((vec)->n == 0)                                                                         \
            vec_clear_few(vec);                                                                    \
        else if (n_ > 0)                                                                           \
            memmove((vec)->v, (vec)->v + n_, (vec)->n * sizeof(*(vec)->v));                        \
    } while (0)

/* Sorts the array by @compare, as qsort() does; it may be empty. */
#define vec_sort(vec, compare)                                                                     \
    do {                                                                                           \
        if ((vec)->n > 1)                                                                          \
            qsort((vec)->v, (vec)->n, sizeof(*(vec)->v), compare);                                 \
    } while (0)

/* Loops over the elements; @it points at each. */
#define vec_each(vec, it)                                                                          \
    for (__typeof__(*(vec)->v) *it = (vec)->v, *it##_end_ = (vec)->n ? it + (vec)->n : it;         \
         it < it##_end_; it++)

#endif
