/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Base64 as kubeconfigs have it. */
#ifndef KUBE_NFTD_BASE_BASE64_H
#define KUBE_NFTD_BASE_BASE64_H

#include <stddef.h>

/**
 * The bytes that @text stands for (standard alphabet, padded; line breaks are skipped), with a NUL
 * behind them that @length does not count. The caller frees them. NULL if @text is not base64.
 */
char *base64_decode(const char *text, size_t *length);

#endif
