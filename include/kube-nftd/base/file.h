/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Whole files of bounded size: configuration, credentials. */
#ifndef KUBE_NFTD_BASE_FILE_H
#define KUBE_NFTD_BASE_FILE_H

#include "kube-nftd/base/error.h"

#include <stddef.h>

/**
 * The text in @path (links are followed), which the caller frees. NULL with an error (for
 * the caller to put @path before) if it cannot be read, is no plain file, has more than @limit
 * bytes or holds zero bytes.
 */
char *file_read(const char *path, size_t limit, struct error *err);

#endif
