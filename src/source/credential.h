/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Credentials: a bearer token, a client certificate, its key, or the CA bundle that verifies the
 * server. May come from a file that is replaced while the daemon runs.
 */
#ifndef KUBE_NFTD_SOURCE_CREDENTIAL_H
#define KUBE_NFTD_SOURCE_CREDENTIAL_H

#include "kube-nftd/base.h"

#include <stdbool.h>

enum credential_kind { CREDENTIAL_TOKEN, CREDENTIAL_CA, CREDENTIAL_CERTIFICATES, CREDENTIAL_KEY };

struct credential {
    enum credential_kind kind;
    const char *what; /* for messages: "CA"; borrowed */
    const char *file; /* borrowed; NULL: fixed text, or no credential */
    char *text;       /* owned; the last good one; NULL: none yet */
    bool stale;       /* the last read of the file failed, which was logged */
    bool usable;      /* the text was found to be good */
};

/** Copies @text and borrows @what and @file; @text and @file may be NULL. For a token the file
 * takes precedence, otherwise @text does. */
void credential_init(struct credential *credential, enum credential_kind kind, const char *what,
                     const char *text, const char *file);

void credential_clear(struct credential *credential);

/**
 * The current token (trimmed) or PEM text, borrowed until the next call; NULL if none is
 * configured. Reads the file again; if it is unreadable, truncated or of the wrong kind, the last
 * good text stays in use (logged once). Of a CA bundle only the certificates are returned; the
 * first block that is skipped is logged once. -1 if no good text exists.
 */
int credential_get(struct credential *credential, const char **text, struct error *err);

#endif
