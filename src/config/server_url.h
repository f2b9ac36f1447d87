/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The address of an API server as people write it. */
#ifndef KUBE_NFTD_CONFIG_SERVER_URL_H
#define KUBE_NFTD_CONFIG_SERVER_URL_H

#include "kube-nftd/base/error.h"

/**
 * Checks @text (http or https, a host, perhaps a port and a path; no user, query or fragment) and
 * returns it with the scheme in small letters and no slash at the end. The caller frees it. NULL
 * with an error otherwise.
 */
char *server_url_parse(const char *text, struct error *err);

#endif
