/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Text as a part of a URL. */
#ifndef KUBE_NFTD_BASE_URL_ESCAPE_H
#define KUBE_NFTD_BASE_URL_ESCAPE_H

/** @text with all but RFC 3986's unreserved characters percent-encoded, for the caller to free: fit
 * for one segment of a path or one value of a query. */
char *url_escape(const char *text);

#endif
