/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A certificate, its key or a bundle of CAs, perhaps in a file that is replaced while we run. */
#ifndef KUBE_NFTD_SOURCE_PEM_FILE_H
#define KUBE_NFTD_SOURCE_PEM_FILE_H

#include "kube-nftd/base/error.h"

#include <stdbool.h>

enum pem_kind { PEM_CERTIFICATES, PEM_KEY };

struct pem_file {
    enum pem_kind kind;
    const char *what; /* for messages: "CA"; borrowed */
    const char *file; /* borrowed; NULL if the text is fixed, or there is none */
    char *text;       /* owned; the last good one, NULL before it */
    bool stale;       /* the file was no good the last time, and that was said */
};

/** Takes a copy of @data and borrows @what and @file; either of the last two may be NULL, and
 * @data wins. */
void pem_file_init(struct pem_file *pem, enum pem_kind kind, const char *what, const char *data,
                   const char *file);

void pem_file_clear(struct pem_file *pem);

/**
 * The PEM text to use now, borrowed until the next call; NULL if there is none to use. Reads the
 * file anew; one that cannot be read, is cut off or holds nothing of its kind leaves the last good
 * text in use (said once). -1 if there is not even that.
 */
int pem_file_get(struct pem_file *pem, const char **text, struct error *err);

#endif
