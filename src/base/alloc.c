/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Allocation, strings and errors. */
#include "kube-nftd/base.h"

#include <cjson/cJSON.h>
#include <malloc.h>
#include <stdio.h>

/* Larger blocks are mapped separately: they grow without copying and are returned whole. */
#define MAPPED_FROM ((size_t)128 * 1024)

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
void alloc_settle(void)
{
    cJSON_InitHooks(&(cJSON_Hooks){.malloc_fn = json_alloc, .free_fn = free});
    mallopt(M_MMAP_THRESHOLD, (int)MAPPED_FROM);
    mallopt(M_TRIM_THRESHOLD, 2 * (int)MAPPED_FROM);
    mallopt(M_ARENA_MAX, 1);
}

void alloc_give_back(void)
{
    malloc_trim(MAPPED_FROM);
}

void *xcalloc(size_t n, size_t size)
{
    return alloc_check(calloc(n ? n : 1, size ? size : 1));
}

void *xreallocarray(void *p, size_t n, size_t size)
{
    if (n == 0 || size == 0) {
        free(p);
        return NULL;
    }
    return alloc_check(reallocarray(p, n, size));
}

/* ---- texts ---- */

char *xstrndup(const char *s, size_t n)
{
    char *copy = xreallocarray(NULL, n + 1, 1);
    memcpy(copy, s, n);
    copy[n] = '\0';
    return copy;
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
