/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The address of a server as people write it, and the proxy on the way to it, by the rules of
 * client-go and Go's net/http (docs/behaviour.md 8.4); for the tests of them. */
#ifndef KUBE_NFTD_CONFIG_CLIENT_CONFIG_H
#define KUBE_NFTD_CONFIG_CLIENT_CONFIG_H

#include "kube-nftd/config.h"

/**
 * Checks @text (http or https, a host, perhaps a port and a path; no user, query or fragment) and
 * returns it with the scheme in small letters and no slash at the end. The caller frees it. NULL
 * with an error otherwise.
 */
char *server_url_parse(const char *text, struct error *err);

/**
 * Puts into *@proxy what HTTPS_PROXY (for an http @server: HTTP_PROXY) names, unless NO_PROXY or
 * its being on this host exempts @server; NULL for none. Small letters count where the large name
 * is empty. ALL_PROXY does not count. @server is as server_url_parse() returns it. The caller frees
 * *@proxy. -1 if what is named is no URL of a proxy; the text does not quote it: it may hold a
 * password.
 */
int proxy_from_environment(const char *server, char **proxy, struct error *err);

#endif
