/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * One shape for failures: a function that can fail returns 0 or -1 and takes a struct error.
 * On success it leaves the error alone; on failure it puts a text there, made where the facts
 * are known. Whoever handles the failure logs the text once and clears it.
 */
#ifndef KUBE_NFTD_BASE_ERROR_H
#define KUBE_NFTD_BASE_ERROR_H

#include <stdbool.h>

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

#endif
