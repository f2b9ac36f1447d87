/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "kube-nftd/serve/explain_query.h"

#include "kube-nftd/base/alloc.h"

#include <ctype.h>
#include <string.h>

/* Longer than any name of a Service with its namespace and a port. */
#define TEXT_MAX 512

static const char forms[] = "it is neither ADDRESS:PORT[/PROTOCOL] nor NAMESPACE/SERVICE[:PORT]";

void explain_query_clear(struct explain_query *query)
{
    free(query->text);
    free(query->service_id);
    free(query->port_name);
    memset(query, 0, sizeof(*query));
}

static bool parse_number(const char *text, uint16_t *number)
{
    unsigned value = 0;
    const char *s = text;
    for (; isdigit((unsigned char)*s) && value <= UINT16_MAX; s++)
        value = value * 10 + (unsigned)(*s - '0');
    if (s == text || *s || value == 0 || value > UINT16_MAX)
        return false;
    *number = (uint16_t)value;
    return true;
}

/* ---- ADDRESS:PORT[/PROTOCOL] ---- */

static int parse_protocol(const char *text, struct explain_query *query, struct error *err)
{
    char upper[8] = "";
    for (size_t i = 0; text[i] && i + 1 < sizeof(upper); i++)
        upper[i] = (char)toupper((unsigned char)text[i]);
    query->protocol = strlen(text) < sizeof(upper) ? protocol_parse(upper) : 0;
    return query->protocol ? 0 : error_set(err, "the protocol is none of TCP, UDP and SCTP");
}

/* Cuts @text, which is changed: where the port begins, or NULL if there is none. */
static char *split_port(char *text, char **host)
{
    char *end = *text == '[' ? strchr(text, ']') : NULL;
    *host = end ? text + 1 : text;
    char *colon = end ? end + 1 : strrchr(text, ':');
    if (end)
        *end = '\0';
    if (!colon || *colon != ':')
        return NULL;
    *colon = '\0';
    return colon + 1;
}

static int parse_place(char *text, struct explain_query *query, struct error *err)
{
    char *slash = strchr(text, '/'), *host;
    if (slash) {
        *slash = '\0';
        if (parse_protocol(slash + 1, query, err))
            return -1;
    }
    char *port = split_port(text, &host);
    if (!address_parse(host, &query->family, &query->address))
        return error_set(err, "%s", forms);
    if (!port)
        return error_set(err, "it has no port: ADDRESS:PORT, or [IPv6]:PORT");
    if (!parse_number(port, &query->port))
        return error_set(err, "the port is no number from 1 to 65535");
    return 0;
}

/* ---- NAMESPACE/SERVICE[:PORT] ---- */

static bool is_name(const char *text, size_t length)
{
    for (size_t i = 0; i < length; i++)
        if (!islower((unsigned char)text[i]) && !isdigit((unsigned char)text[i]) &&
            text[i] != '-' && text[i] != '.')
            return false;
    return length > 0 && length <= 253;
}

static int parse_service(const char *text, struct explain_query *query, struct error *err)
{
    const char *slash = strchr(text, '/');
    size_t length = strcspn(text, ":");
    const char *port = text[length] ? text + length + 1 : NULL;
    if (!slash || slash > text + length || !is_name(text, (size_t)(slash - text)) ||
        !is_name(slash + 1, (size_t)(text + length - slash - 1)) ||
        (port && !is_name(port, strlen(port))))
        return error_set(err, "%s", forms);
    query->service_id = xstrndup(text, length);
    query->port_name = xstrdup(port);
    return 0;
}

/* ---- both ---- */

/* A name cannot begin as one of these does: what is before the first ':' or '/', or in brackets, is
 * an address. A bare IPv6 address is one that lacks its port. */
static bool begins_with_address(const char *text)
{
    enum family family;
    struct address address;
    char *host = xstrndup(text, strcspn(text, ":/"));
    char *whole = xstrndup(text, strcspn(text, "/"));
    bool result = *text == '[' || address_parse(host, &family, &address) ||
                  address_parse(whole, &family, &address);
    free(host);
    free(whole);
    return result;
}

/* A bare IPv6 address would lose its last group to the port. */
static bool is_bare_address(const char *text)
{
    enum family family;
    struct address address;
    return address_parse(text, &family, &address);
}

int explain_query_parse(const char *text, struct explain_query *query, struct error *err)
{
    memset(query, 0, sizeof(*query));
    if (strlen(text) > TEXT_MAX)
        return error_set(err, "it is too long");
    char *copy = xstrdup(text);
    int result;
    if (is_bare_address(text))
        result = error_set(err, "it has no port: ADDRESS:PORT, or [IPv6]:PORT");
    else if (begins_with_address(text))
        result = parse_place(copy, query, err);
    else
        result = parse_service(text, query, err);
    free(copy);
    if (result)
        explain_query_clear(query);
    else
        query->text = xstrdup(text);
    return result;
}
