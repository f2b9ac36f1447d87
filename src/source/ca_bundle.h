/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The certificates of a CA bundle that can be used. libcurl rejects all for one bad block;
 * client-go skips it. */
#ifndef KUBE_NFTD_SOURCE_CA_BUNDLE_H
#define KUBE_NFTD_SOURCE_CA_BUNDLE_H

#include "kube-nftd/base.h"

/**
 * The PEM blocks of @text, from @source (a file's name, or another one for messages), that hold a
 * certificate, for the caller to free. @skipped gets what is wrong with the first other block,
 * owned by the caller, or NULL. NULL with an error that names it if there is no good one. The
 * contents of a certificate are left to libcurl: only its encoding is looked at.
 */
char *ca_bundle_certificates(const char *text, const char *source, char **skipped,
                             struct error *err);

#endif
