/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What we show to the API server or know it by: a bearer token, a certificate, its key or a bundle
 * of CAs. Perhaps in a file that is replaced while we run. */
#ifndef KUBE_NFTD_SOURCE_CREDENTIAL_H
#define KUBE_NFTD_SOURCE_CREDENTIAL_H

#include "kube-nftd/base.h"

#include <stdbool.h>

enum credential_kind { CREDENTIAL_TOKEN, CREDENTIAL_CERTIFICATES, CREDENTIAL_KEY };

struct credential {
    enum credential_kind kind;
    const char *what; /* for messages: "CA"; borrowed */
    const char *file; /* borrowed; NULL if the text is fixed, or there is none */
    char *text;       /* owned; the last good one, NULL before it */
    bool stale;       /* the file was no good the last time, and that was said */
};

/** Takes a copy of @text and borrows @what and @file; either of the last two may be NULL. Of a
 * token the file wins, else @text. */
void credential_init(struct credential *credential, enum credential_kind kind, const char *what,
                     const char *text, const char *file);

void credential_clear(struct credential *credential);

/**
 * The token without blanks around it, or the PEM text, to use now, borrowed until the next call;
 * NULL if there is none to use. Reads the file anew; one that cannot be read, is cut off or holds
 * nothing of its kind leaves the last good text in use (said once). -1 if there is not even that.
 */
int credential_get(struct credential *credential, const char **text, struct error *err);

#endif
