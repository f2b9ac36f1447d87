/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Whole files of bounded size: configuration, credentials. */
#ifndef KUBE_NFTD_BASE_FILE_H
#define KUBE_NFTD_BASE_FILE_H

#include "kube-nftd/base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>

/**
 * The text in @path (links are followed), which the caller frees. NULL with an error (for
 * the caller to put @path before) if it cannot be read, is no plain file, has more than @limit
 * bytes or holds zero bytes.
 */
char *file_read(const char *path, size_t limit, struct error *err);

/** Whether two looks at a path found the same file, and nobody wrote to it in between. */
bool file_is_same(const struct stat *a, const struct stat *b);

#endif
