/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Queries the daemon on this host at its metrics address. */
#ifndef KUBE_NFTD_CLIENT_ASK_H
#define KUBE_NFTD_CLIENT_ASK_H

#include "kube-nftd/base.h"

#include <cjson/cJSON.h>

/* Pairs of name and value for ask_daemon(); a pair with value NULL is omitted. */
#define ASK_QUERY(...) ((const char *const[][2]){__VA_ARGS__, {NULL}})

/**
 * Fetches @path with @query from the daemon that listens at @bind; retries for a while if it is
 * busy. Returns JSON of @kind, owned by the caller, or NULL with an error; *@unreachable (may be
 * NULL) tells whether no server answered.
 */
cJSON *ask_daemon(const char *bind, const char *kind, const char *path,
                  const char *const (*query)[2], bool *unreachable, struct error *err);

#endif
