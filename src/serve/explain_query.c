/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "kube-nftd/serve.h"

#include "kube-nftd/base.h"

#include <ctype.h>
#include <string.h>

/* Longer than any name of a Service with its namespace and a port. */
#define TEXT_MAX 512
#define NAME_LENGTH_MAX 253
#define DIGITS "0123456789"

static const char forms[] = "not one of ADDRESS[:PORT[/PROTOCOL]], PORT[/PROTOCOL] (a node port), "
                            "NAMESPACE/SERVICE[:PORT] or SERVICE.NAMESPACE[.svc][:PORT]";

void explain_query_clear(struct explain_query *query)
{
    free(query->text);
    free(query->service_id);
    free(query->port_name);
    memset(query, 0, sizeof(*query));
}

/* ---- ADDRESS[:PORT[/PROTOCOL]], PORT[/PROTOCOL] ---- */

static bool parse_address(const char *text, struct explain_query *query)
{
    query->has_address = address_parse(strcmp(text, "localhost") == 0 ? "127.0.0.1" : text,
                                       &query->family, &query->address);
    return query->has_address;
}

static int parse_port(const char *text, struct explain_query *query, struct error *err)
{
    return port_parse(text, strlen(text), &query->port)
               ? 0
               : error_set(err, "the port is not a number from 1 to 65535");
}

static uint8_t protocol_of(const char *text)
{
    char upper[8] = "";
    for (size_t i = 0; text[i] && i + 1 < sizeof(upper); i++)
        upper[i] = (char)toupper((unsigned char)text[i]);
    return strlen(text) < sizeof(upper) ? protocol_parse(upper) : 0;
}

/* Cuts "HOST:PORT" or "[HOST]:PORT"; returns the port, NULL if there is none. */
static char *cut_port(char *text, char **host)
{
    char *end = *text == '[' ? strchr(text, ']') : NULL;
    char *colon = end ? end + 1 : strrchr(text, ':');
    *host = end ? text + 1 : text;
    if (end && *colon && *colon != ':')
        return NULL; /* with the bracket left, it is no address */
    if (end)
        *end = '\0';
    if (!colon || !*colon)
        return NULL;
    *colon = '\0';
    return colon + 1;
}

static int parse_place(char *text, struct explain_query *query, struct error *err)
{
    char *slash = strchr(text, '/'), *host, *port = text;
    if (slash)
        *slash = '\0';
    if (slash && !(query->protocol = protocol_of(slash + 1)))
        return error_set(err, "the protocol is not TCP, UDP or SCTP");
    /* A bare IPv6 address would lose its last group to the port. */
    if (parse_address(text, query))
        port = NULL;
    else if (text[strspn(text, DIGITS)] || !*text) {
        port = cut_port(text, &host);
        if (!parse_address(host, query))
            return error_set(err, "%s", forms);
    }
    if (slash && !port)
        return error_set(err, "a protocol needs a port: ADDRESS:PORT/PROTOCOL");
    return port ? parse_port(port, query, err) : 0;
}

/* ---- NAMESPACE/SERVICE[:PORT], SERVICE.NAMESPACE[.svc[.DOMAIN]][:PORT] ---- */

static bool is_name(const char *text)
{
    size_t length = strlen(text);
    return length > 0 && length <= NAME_LENGTH_MAX &&
           strspn(text, DIGITS "abcdefghijklmnopqrstuvwxyz-.") == length;
}

static int parse_service(char *text, struct explain_query *query, struct error *err)
{
    char *colon = strchr(text, ':'), *port = colon ? colon + 1 : NULL;
    if (colon)
        *colon = '\0';
    char *slash = strchr(text, '/'), *cut = slash ? slash : strchr(text, '.'), *domain = NULL;
    if (!cut)
        return error_set(err, "%s", forms);
    *cut = '\0';
    const char *namespace = slash ? text : cut + 1, *service = slash ? cut + 1 : text;
    if (!slash && (domain = strchr(cut + 1, '.')))
        *domain++ = '\0';
    if (!is_name(namespace) || !is_name(service) || (port && !is_name(port)) ||
        (domain && strcmp(domain, "svc") != 0 && strncmp(domain, "svc.", 4) != 0))
        return error_set(err, "%s", forms);
    query->service_id = xasprintf("%s/%s", namespace, service);
    query->port_name = xstrdup(port);
    return 0;
}

/* ---- all of them ---- */

/* No name of a Service begins as these do. (A Service "tcp" in a namespace "80" would.) */
static bool begins_with_place(const char *text)
{
    struct explain_query unused;
    size_t digits = strspn(text, DIGITS);
    if (*text == '[' || (digits && !text[digits]) ||
        (digits && text[digits] == '/' && protocol_of(text + digits + 1)))
        return true;
    char *host = xstrndup(text, strcspn(text, ":/")), *whole = xstrndup(text, strcspn(text, "/"));
    bool result = parse_address(host, &unused) || parse_address(whole, &unused);
    free(host);
    free(whole);
    return result;
}

int explain_query_parse(const char *text, struct explain_query *query, struct error *err)
{
    memset(query, 0, sizeof(*query));
    if (strlen(text) > TEXT_MAX)
        return error_set(err, "it is too long");
    char *copy = xstrdup(text);
    int result =
        begins_with_place(text) ? parse_place(copy, query, err) : parse_service(copy, query, err);
    free(copy);
    if (result)
        explain_query_clear(query);
    else
        query->text = xstrdup(text);
    return result;
}
