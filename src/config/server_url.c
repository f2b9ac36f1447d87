/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "server_url.h"

#include "kube-nftd/base/alloc.h"

#include <arpa/inet.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static bool port_is_right(const char *text, size_t length)
{
    unsigned value = 0;
    for (size_t i = 0; i < length; i++) {
        if (text[i] < '0' || text[i] > '9' || value > 65535)
            return false;
        value = value * 10 + (unsigned)(text[i] - '0');
    }
    return value >= 1 && value <= 65535;
}

static bool is_ipv6(const char *text, size_t length)
{
    struct in6_addr address;
    char *copy = xstrndup(text, length);
    bool is = inet_pton(AF_INET6, copy, &address) == 1;
    free(copy);
    return is;
}

/* @text, @length bytes: a name or IPv4 address, or an IPv6 address in brackets, then ":port" or
 * nothing. */
static bool authority_is_right(const char *text, size_t length)
{
    size_t host;
    if (*text == '[') {
        size_t inside = strcspn(text + 1, "]/");
        host = inside + 2;
        if (host > length || !is_ipv6(text + 1, inside))
            return false;
    } else {
        host = strcspn(text, ":/");
        if (host == 0 || strcspn(text, "[]@") < length)
            return false;
    }
    if (host == length)
        return true;
    return text[host] == ':' && port_is_right(text + host + 1, length - host - 1);
}

static bool has_odd_bytes(const char *text)
{
    for (const unsigned char *s = (const unsigned char *)text; *s; s++) {
        if (*s <= ' ' || *s >= 0x7f || strchr("?#\"<>\\^`{|}", *s))
            return true;
    }
    return false;
}

char *server_url_parse(const char *text, struct error *err)
{
    const char *scheme = NULL;
    if (strncasecmp(text, "https://", 8) == 0)
        scheme = "https://";
    else if (strncasecmp(text, "http://", 7) == 0)
        scheme = "http://";
    if (!scheme) {
        error_set(err, "\"%s\" does not start with https:// or http://", text);
        return NULL;
    }
    const char *authority = text + strlen(scheme);
    if (has_odd_bytes(text) || !authority_is_right(authority, strcspn(authority, "/"))) {
        error_set(err, "\"%s\" is not the URL of a server, such as https://192.0.2.1:6443", text);
        return NULL;
    }
    size_t length = strlen(authority);
    while (length > 0 && authority[length - 1] == '/')
        length--;
    return xasprintf("%s%.*s", scheme, (int)length, authority);
}
