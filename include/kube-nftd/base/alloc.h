/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Checked allocation.
 *
 * A kube-nftd that has no memory for a few bytes cannot finish the update it is in, and half an
 * update is worse than a restart: the tables outlive the process. So these functions end the
 * process with a message instead of returning NULL. The size of anything that comes from outside
 * (a line of a watch, a manifest file) is bounded by its reader before it is allocated.
 */
#ifndef KUBE_NFTD_BASE_ALLOC_H
#define KUBE_NFTD_BASE_ALLOC_H

#include <stdarg.h>
#include <stddef.h>

/** Zeroed memory for @n objects of @size bytes; the caller frees it with free(). Never NULL. */
void *xcalloc(size_t n, size_t size);

/** realloc() to @n objects of @size bytes (overflow checked). Never NULL unless n is 0. */
void *xreallocarray(void *p, size_t n, size_t size);

/** A copy of the string @s, or NULL for NULL. The caller frees it. */
char *xstrdup(const char *s);

/** A copy of the first @n bytes of @s with a NUL behind them. The caller frees it. */
char *xstrndup(const char *s, size_t n);

/** A formatted string that the caller frees. */
char *xasprintf(const char *format, ...) __attribute__((format(printf, 1, 2)));
char *xvasprintf(const char *format, va_list args) __attribute__((format(printf, 1, 0)));

/** Adds an item to a list in words, behind ", " if it has others: @list is made longer, or made if
 * it is NULL, and the caller's to free. */
void xjoin(char **list, const char *format, ...) __attribute__((format(printf, 2, 3)));

/**
 * Makes malloc() of a process that lives for long and whose load comes in bursts: large blocks are
 * always mapped for themselves, however many there were before, and threads share one heap (those
 * of libcurl's resolver are the only ones). And makes cJSON end the process where it has no memory,
 * as all here does. For the start of main().
 */
void alloc_settle(void);

/** Gives freed memory back to the system, wherever it lies. Takes milliseconds where much is in
 * use: for after a burst. */
void alloc_give_back(void);

/** Says that memory ran out and ends the process. */
_Noreturn void alloc_failed(void);

#endif
