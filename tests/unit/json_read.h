/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef KUBE_NFTD_TESTS_JSON_READ_H
#define KUBE_NFTD_TESTS_JSON_READ_H

#include "kube-nftd/values.h"

/* Reads a text that is there as a whole: gives its values to @fn, as a reader without a limit of
 * bytes does. -1 as the reader. */
int json_read(const char *text, size_t length, value_fn fn, void *ctx, struct error *err);

#endif
