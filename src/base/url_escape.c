/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "kube-nftd/base/url_escape.h"

#include "kube-nftd/base/alloc.h"

#include <string.h>

char *url_escape(const char *text)
{
    static const char unreserved[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
                                     "0123456789-._~";
    static const char hex[] = "0123456789ABCDEF";
    char *out = xcalloc(strlen(text) * 3 + 1, 1);
    char *at = out;
    for (const char *s = text; *s; s++) {
        if (strchr(unreserved, *s)) {
            *at++ = *s;
            continue;
        }
        *at++ = '%';
        *at++ = hex[(unsigned char)*s >> 4];
        *at++ = hex[(unsigned char)*s & 15];
    }
    return out;
}
