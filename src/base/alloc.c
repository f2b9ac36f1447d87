/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "kube-nftd/base/alloc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

_Noreturn void alloc_failed(void)
{
    fputs("kube-nftd: out of memory; the programmed tables stay in force\n", stderr);
    abort();
}

void *xcalloc(size_t n, size_t size)
{
    void *p = calloc(n ? n : 1, size ? size : 1);
    if (!p)
        alloc_failed();
    return p;
}

void *xreallocarray(void *p, size_t n, size_t size)
{
    if (n == 0 || size == 0) {
        free(p);
        return NULL;
    }
    void *q = reallocarray(p, n, size);
    if (!q)
        alloc_failed();
    return q;
}

char *xstrndup(const char *s, size_t n)
{
    char *copy = xcalloc(n + 1, 1);
    memcpy(copy, s, n);
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
