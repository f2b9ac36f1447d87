/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "server_url.h"

#include "kube-nftd/net.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* ---- hosts and ports ---- */

/* "host", "host:port", "[address]" or "[address]:port", parsed. */
struct authority {
    char *host; /* without brackets; owned */
    char *port; /* owned; NULL: no colon */
    bool is_address;
    enum family family;
    struct address address;
};

/* The caller clears the result. */
static struct authority authority_parse(const char *text, size_t length)
{
    const char *end = text + length;
    const char *colon = memrchr(text, ':', length);
    const char *bracket = memrchr(text, ']', length);
    bool many = colon && memchr(text, ':', (size_t)(colon - text));
    if (colon && ((bracket && bracket > colon) || (!bracket && many)))
        colon = NULL; /* part of an IPv6 address */
    const char *host_end = colon ? colon : end;
    struct authority result = {0};
    if (*text == '[' && bracket && host_end == bracket + 1)
        result.host = xstrndup(text + 1, (size_t)(bracket - text - 1));
    else
        result.host = xstrndup(text, (size_t)(host_end - text));
    if (colon)
        result.port = xstrndup(colon + 1, (size_t)(end - colon - 1));
    result.is_address = address_parse(result.host, &result.family, &result.address);
    return result;
}

static void authority_clear(struct authority *authority)
{
    free(authority->host);
    free(authority->port);
}

char *server_url_parse(const char *text, struct error *err)
{
    static const char *const schemes[] = {"https://", "http://"};
    size_t i = 0;
    uint16_t number;
    while (i < COUNT(schemes) && strncasecmp(text, schemes[i], strlen(schemes[i])) != 0)
        i++;
    if (i == COUNT(schemes)) {
        error_set(err, "\"%s\" does not start with https:// or http://", text);
        return NULL;
    }
    const char *rest = text + strlen(schemes[i]);
    struct authority server = authority_parse(rest, strcspn(rest, "/"));
    bool valid = *rest == '[' ? server.is_address && server.family == FAMILY_IPV6
                              : *server.host && !strpbrk(server.host, "[]@:");
    valid = valid && (!server.port || port_parse(server.port, strlen(server.port), &number));
    authority_clear(&server);
    for (const char *s = text; *s; s++)
        valid = valid && isgraph((unsigned char)*s) && !strchr("?#\"<>\\^`{|}", *s);
    if (!valid) {
        error_set(err, "\"%s\" is not the URL of a server, such as https://192.0.2.1:6443", text);
        return NULL;
    }
    size_t length = strlen(rest);
    while (length > 0 && rest[length - 1] == '/')
        length--;
    return xasprintf("%s%.*s", schemes[i], (int)length, rest);
}

/* ---- the proxy ---- */

/*
 * libcurl's rules for these variables differ from Go's: it reads ALL_PROXY, sends loopback
 * addresses to the proxy, knows no ports in NO_PROXY, and lets NO_PROXY override a configured
 * proxy. Users of kube-proxy expect Go's rules, which these are.
 */

static const char *variable(const char *large, const char *small)
{
    const char *value = getenv(large);
    return value && *value ? value : getenv(small);
}

bool proxy_url_is_good(const char *url)
{
    static const char *const schemes[] = {"http://", "https://", "socks5://"};
    for (size_t i = 0; i < COUNT(schemes); i++) {
        size_t length = strlen(schemes[i]);
        if (strncasecmp(url, schemes[i], length) == 0)
            return url[length] != '\0' && url[length] != '/';
    }
    return false;
}

/* "example" matches itself and "*.example"; ".example" and "*.example" match only the latter. */
static bool domain_matches(const char *name, const char *host)
{
    name += strncmp(name, "*.", 2) == 0;
    size_t n = strlen(name), length = strlen(host);
    if (n == 0 || length < n || strcasecmp(host + length - n, name) != 0)
        return false;
    return *name == '.' ? length > n : length == n || host[length - n - 1] == '.';
}

/* Whether the entry @text of NO_PROXY matches @server: "*", a CIDR, or an address or name with an
 * optional port. */
static bool entry_matches(const char *text, const struct authority *server)
{
    enum family family;
    struct cidr cidr;
    if (strcmp(text, "*") == 0)
        return true;
    if (cidr_parse(text, &family, &cidr))
        return server->is_address && family == server->family &&
               cidr_contains(&cidr, &server->address);
    struct authority entry = authority_parse(text, strlen(text));
    bool matches = entry.is_address == server->is_address;
    if (matches && entry.is_address)
        matches = entry.family == server->family &&
                  memcmp(&entry.address, &server->address, sizeof(entry.address)) == 0;
    else if (matches)
        matches = domain_matches(entry.host, server->host);
    if (entry.port && *entry.port)
        matches = matches && strcmp(entry.port, server->port) == 0;
    authority_clear(&entry);
    return matches;
}

static bool is_exempt(const struct authority *server)
{
    const char *list = variable("NO_PROXY", "no_proxy");
    if (server->is_address ? address_is_loopback(server->family, &server->address)
                           : strcasecmp(server->host, "localhost") == 0)
        return true;
    char *copy = xstrdup(list ? list : ""), *rest = copy, *entry;
    bool exempt = false;
    while (!exempt && (entry = strsep(&rest, ","))) {
        text_trim(entry);
        exempt = entry_matches(entry, server);
    }
    free(copy);
    return exempt;
}

int proxy_from_environment(const char *url, char **proxy, struct error *err)
{
    bool https = strncmp(url, "https://", 8) == 0;
    const char *name = https ? "HTTPS_PROXY" : "HTTP_PROXY";
    const char *value = variable(name, https ? "https_proxy" : "http_proxy");
    *proxy = NULL;
    if (!value || !*value)
        return 0;
    url = strstr(url, "://") + 3;
    struct authority server = authority_parse(url, strcspn(url, "/"));
    if (!server.port)
        server.port = xstrdup(https ? "443" : "80");
    bool exempt = is_exempt(&server);
    authority_clear(&server);
    if (exempt)
        return 0;
    *proxy = strstr(value, "://") ? xstrdup(value) : xasprintf("http://%s", value);
    if (proxy_url_is_good(*proxy))
        return 0;
    free(*proxy);
    *proxy = NULL;
    return error_set(err, "%s is not an http, https or socks5 URL", name);
}
