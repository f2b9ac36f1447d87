/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The bearer token to show to the API server, perhaps from a file that is replaced in place. */
#ifndef KUBE_NFTD_SOURCE_BEARER_H
#define KUBE_NFTD_SOURCE_BEARER_H

#include "kube-nftd/base/error.h"

#include <stdbool.h>

struct bearer {
    const char *file; /* borrowed; NULL if the token is fixed */
    char *token;      /* owned; the last good one, NULL before it */
    bool stale;       /* the file could not be read the last time, and that was said */
};

/** Takes a copy of @token and borrows @file; either may be NULL, and the file wins. */
void bearer_init(struct bearer *bearer, const char *token, const char *file);

void bearer_clear(struct bearer *bearer);

/**
 * The token to send now, borrowed until the next call; NULL if there is none to send. Reads the
 * file anew; one that cannot be read or holds no token leaves the last good one in use (said once).
 * -1 if there is not even that.
 */
int bearer_get(struct bearer *bearer, const char **token, struct error *err);

#endif
