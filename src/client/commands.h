/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef KUBE_NFTD_SRC_CLIENT_COMMANDS_H
#define KUBE_NFTD_SRC_CLIENT_COMMANDS_H

#include "kube-nftd/client.h"

/* ---- ask.c: queries the daemon on this host at its metrics address ---- */

/* Pairs of name and value for ask_daemon(); a pair with value NULL is omitted. */
#define ASK_QUERY(...) ((const char *const[][2]){__VA_ARGS__, {NULL}})

/**
 * Fetches @path with @query from the daemon that listens at @bind; retries for a while if it is
 * busy. Returns JSON of @kind, owned by the caller, or NULL with an error; *@unreachable (may be
 * NULL) tells whether no server answered.
 */
cJSON *ask_daemon(const char *bind, const char *kind, const char *path,
                  const char *const (*query)[2], bool *unreachable, struct error *err);

/* ---- top.c: new connections per second, from two readings of totals ---- */

/** The facts of one period, owned by the caller; NULL with an error. */
cJSON *top_once(const struct options *options, struct error *err);

/** Shows a live table on the terminal until the user quits. */
int top_live(const struct options *options, struct error *err);

/* ---- views.c: the answers as text ---- */

extern const struct view view_explanation[], view_summary[], view_endpoints[], view_frontends[],
    view_list[], view_names[], view_top[], view_top_endpoints[];

#endif
