/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Whole files of bounded size, as tokens and certificates are kept in. */
#ifndef KUBE_NFTD_SOURCE_SMALL_FILE_H
#define KUBE_NFTD_SOURCE_SMALL_FILE_H

#include "kube-nftd/base/error.h"

#include <stddef.h>

/**
 * The text in @file (links are followed), which the caller frees. NULL with an error that names the
 * file if it cannot be read, is no plain file, has more than @limit bytes or holds zero bytes.
 */
char *small_file_read(const char *file, size_t limit, struct error *err);

#endif
