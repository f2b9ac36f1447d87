/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Asks the daemon that runs on this host, at its metrics address. */
#ifndef KUBE_NFTD_CLIENT_ASK_H
#define KUBE_NFTD_CLIENT_ASK_H

#include "kube-nftd/base.h"

#include <cjson/cJSON.h>

/* Pairs of name and value for ask_daemon(); those without a value are left out. */
#define ASK_QUERY(...) ((const char *const[][2]){__VA_ARGS__, {NULL}})

/**
 * Fetches the page @path with @query of the daemon that listens at @bind, for the caller to delete;
 * again and again for a while if it is busy. It must be JSON of that @kind. NULL with an error that
 * says what is there instead; @unreachable (may be NULL) says whether that is nothing.
 */
cJSON *ask_daemon(const char *bind, const char *kind, const char *path,
                  const char *const (*query)[2], bool *unreachable, struct error *err);

#endif
