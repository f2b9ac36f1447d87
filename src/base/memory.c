/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Allocation, strings, UTF-8, errors and whole files. */
#include "kube-nftd/base.h"

#include <cjson/cJSON.h>
#include <curl/curl.h>
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <stdio.h>
#include <unistd.h>

/* Larger blocks are mapped separately: they grow without copying and are returned whole. */
#define MAPPED_FROM ((size_t)128 * 1024)
/* Blocks up to this size are kept by free() for malloc() (glibc's tcache). */
#define SMALL ((size_t)1024)

_Noreturn void alloc_failed(void)
{
    fputs("kube-nftd: out of memory; the applied tables stay active\n", stderr);
    abort();
}

void *alloc_check(void *p)
{
    if (!p)
        alloc_failed();
    return p;
}

static void *json_alloc(size_t size)
{
    return xreallocarray(NULL, size, 1);
}

/* glibc would raise both thresholds, up to 32 MiB, whenever a large block is freed. The only other
 * threads are those of libcurl's resolver. */
void alloc_init(void)
{
    cJSON_InitHooks(&(cJSON_Hooks){.malloc_fn = json_alloc, .free_fn = free});
    mallopt(M_MMAP_THRESHOLD, (int)MAPPED_FROM);
    mallopt(M_TRIM_THRESHOLD, 2 * (int)MAPPED_FROM);
    mallopt(M_ARENA_MAX, 1);
}

void alloc_trim(void)
{
    malloc_trim(MAPPED_FROM);
}

static size_t product(size_t n, size_t size)
{
    size_t bytes;
    if (__builtin_mul_overflow(n, size, &bytes))
        alloc_failed();
    return bytes ? bytes : 1;
}

/* For small blocks, glibc's calloc() does not look where free() has put some of the same size.
 * Large ones it need not clear, if they come from the system. */
void *xcalloc(size_t n, size_t size)
{
    const size_t bytes = product(n, size);
    return bytes <= SMALL ? memset(alloc_check(malloc(bytes)), 0, bytes)
                          : alloc_check(calloc(1, bytes));
}

void *xreallocarray(void *p, size_t n, size_t size)
{
    if (n == 0 || size == 0) {
        free(p);
        return NULL;
    }
    const size_t bytes = product(n, size);
    return alloc_check(p ? realloc(p, bytes) : malloc(bytes)); /* which is quicker for nothing */
}

/* ---- texts ---- */

char *xstrndup(const char *s, size_t n)
{
    char *copy = xreallocarray(NULL, n + 1, 1);
    memcpy(copy, s, n);
    copy[n] = '\0';
    return copy;
}

char *base64_decode(const char *text, size_t n, size_t *length)
{
    static const char alphabet[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    char *data = xcalloc(n + 1, 1);
    size_t digits = 0, padding = 0, i = 0;
    unsigned bits = 0;
    *length = 0;
    for (; i < n; i++) {
        const char *digit = memchr(alphabet, text[i], sizeof(alphabet) - 1);
        if (text[i] == '=') {
            padding++;
        } else if (digit && padding == 0) {
            bits = bits << 6 | (unsigned)(digit - alphabet);
            if (digits++ % 4 != 0)
                data[(*length)++] = (char)(bits >> (6 - 2 * ((digits - 1) % 4)) & 0xff);
        } else if (text[i] != '\n' && text[i] != '\r') {
            break;
        }
    }
    /* Padding completes a group of four. */
    if (i == n && digits % 4 != 1 && padding == (4 - digits % 4) % 4)
        return data;
    free(data);
    return NULL;
}

char *xstrdup(const char *s)
{
    return s ? xstrndup(s, strlen(s)) : NULL;
}

char *xvasprintf(const char *format, va_list args)
{
    char *text;
    if (vasprintf(&text, format, args) < 0)
        alloc_failed();
    return text;
}

char *xasprintf(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    char *text = xvasprintf(format, args);
    va_end(args);
    return text;
}

void text_trim(char *text)
{
    static const char blanks[] = " \t\r\n\v\f";
    const char *start = text + strspn(text, blanks);
    size_t length = strlen(start);
    while (length > 0 && strchr(blanks, start[length - 1]))
        length--;
    memmove(text, start, length);
    text[length] = '\0';
}

void xjoin(char **list, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    char *item = xvasprintf(format, args);
    va_end(args);
    char *longer = *list && **list ? xasprintf("%s, %s", *list, item) : xstrdup(item);
    free(item);
    free(*list);
    *list = longer;
}

/* ---- UTF-8 and escapes ---- */

#define REPLACEMENT "\xef\xbf\xbd" /* U+FFFD */

size_t utf8_decode(const char *text, uint32_t *code)
{
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    const unsigned char *s = (const unsigned char *)text;
    size_t length = *s < 0x80   ? 1
                    : *s < 0xc2 ? 0
                    : *s < 0xe0 ? 2
                    : *s < 0xf0 ? 3
                    : *s < 0xf5 ? 4
                                : 0;
    if (length < 2) {
        *code = *s;
        return length;
    }
    *code = *s & (0x7fU >> length);
    for (size_t i = 1; i < length; i++) {
        if ((s[i] & 0xc0) != 0x80) /* or the terminating NUL */
            return 0;
        *code = *code << 6 | (s[i] & 0x3fU);
    }
    bool is_surrogate = *code >= 0xd800 && *code < 0xe000;
    return *code < least[length] || *code > 0x10ffff || is_surrogate ? 0 : length;
}

bool utf8_is_valid(const char *text)
{
    uint32_t code;
    for (size_t length; *text; text += length) {
        length = utf8_decode(text, &code);
        if (length == 0)
            return false;
    }
    return true;
}

bool utf8_is_control(uint32_t code)
{
    return code < 0x20 || (code >= 0x7f && code < 0xa0) || code == 0x61c || code == 0x200e ||
           code == 0x200f || (code >= 0x2028 && code <= 0x202e) ||
           (code >= 0x2066 && code <= 0x2069);
}

char *utf8_repair(const char *text)
{
    char *copy = xcalloc(strlen(text) * strlen(REPLACEMENT) + 1, 1), *out = copy;
    for (const char *s = text; *s;) {
        uint32_t code;
        size_t length = utf8_decode(s, &code), n = length ? length : strlen(REPLACEMENT);
        for (size_t i = 0; i < n; i++)
            *out++ = (length ? s : REPLACEMENT)[i];
        s += length ? length : 1;
    }
    return copy;
}

size_t utf8_cut(const char *text, size_t length, size_t limit)
{
    if (length <= limit)
        return length;
    while (limit > 0 && ((unsigned char)text[limit] & 0xc0) == 0x80)
        limit--;
    return limit;
}

char *url_escape(const char *text)
{
    char *escaped = alloc_check(curl_easy_escape(NULL, text, 0)), *copy = xstrdup(escaped);
    curl_free(escaped);
    return copy;
}

void url_add_argument(char **url, const char *key, const char *value)
{
    char *before = *url, *escaped = url_escape(value);
    *url = xasprintf("%s%c%s=%s", before, strchr(before, '?') ? '&' : '?', key, escaped);
    free(escaped);
    free(before);
}

/* ---- errors ---- */

int error_set(struct error *err, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    char *text = xvasprintf(format, args);
    va_end(args);
    error_clear(err);
    err->text = text;
    return -1;
}

int error_prefix(struct error *err, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    char *where = xvasprintf(format, args);
    va_end(args);
    char *text = xasprintf("%s: %s", where, err->text ? err->text : "failed");
    free(where);
    free(err->text);
    err->text = text;
    return -1;
}

int error_of_configuration(struct error *err)
{
    err->configuration = true;
    return -1;
}

void error_clear(struct error *err)
{
    free(err->text);
    *err = (struct error){0};
}

/* ---- files ---- */

/* st_size may change, and is 0 in /proc, so reads up to @limit bytes and one more. */
static int read_plain(int fd, size_t limit, char **text, struct error *err)
{
    struct stat status;
    size_t length = 0;
    ssize_t n;
    if (fstat(fd, &status) < 0 || !S_ISREG(status.st_mode))
        return error_set(err, "is not a plain file");
    *text = xreallocarray(NULL, limit + 2, 1);
    while ((n = read(fd, *text + length, limit + 1 - length)) != 0) {
        if (n < 0 && errno != EINTR)
            return error_set(err, "%s", strerror(errno));
        length += n > 0 ? (size_t)n : 0;
    }
    if (length > limit)
        return error_set(err, "is larger than %zu bytes", limit);
    (*text)[length] = '\0';
    *text = xreallocarray(*text, length + 1, 1);
    return strlen(*text) == length ? 0 : error_set(err, "is not text");
}

char *file_read(const char *path, size_t limit, struct error *err)
{
    /* O_NONBLOCK: a FIFO must not stop the daemon. */
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    char *text = NULL;
    if (fd < 0) {
        error_set(err, "%s", strerror(errno));
        return NULL;
    }
    if (read_plain(fd, limit, &text, err)) {
        free(text);
        text = NULL;
    }
    close(fd);
    return text;
}

bool file_is_same(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino && a->st_size == b->st_size &&
           a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec &&
           a->st_ctim.tv_sec == b->st_ctim.tv_sec && a->st_ctim.tv_nsec == b->st_ctim.tv_nsec;
}
