/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Answers in the content coding gzip, for clients that take it. */
#ifndef KUBE_NFTD_SERVE_GZIP_H
#define KUBE_NFTD_SERVE_GZIP_H

#include <stdbool.h>
#include <stddef.h>

/** Whether a header Accept-Encoding (NULL: none) takes gzip: it names gzip, x-gzip or *, with a
 * quality that is not 0. */
bool gzip_is_accepted(const char *accept_encoding);

/** @size bytes, not 0, as a gzip file of *@packed_size bytes for the caller to free; NULL if that
 * does not go. */
char *gzip_pack(const char *bytes, size_t size, size_t *packed_size);

#endif
