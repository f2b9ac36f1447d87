/* SPDX-License-Identifier: GPL-2.0-or-later */
/* URLs of API servers, and of the proxies on the way to them. */
#ifndef KUBE_NFTD_CONFIG_SERVER_URL_H
#define KUBE_NFTD_CONFIG_SERVER_URL_H

#include "kube-nftd/base.h"

/** Checks @text (http or https, a host, optional port and path; no user, query or fragment) and
 * returns it with a lowercase scheme and no trailing slash. The caller frees it. */
char *server_url_parse(const char *text, struct error *err);

/** Whether client-go supports the scheme of @url. */
bool proxy_url_is_good(const char *url);

/** Sets *@proxy (the caller frees it; NULL: none) from HTTPS_PROXY (for an http @url: HTTP_PROXY),
 * unless the server is in NO_PROXY or on this host. Lowercase variables apply if the uppercase ones
 * are empty. The error does not quote the value, which may contain a password. */
int proxy_from_environment(const char *url, char **proxy, struct error *err);

#endif
