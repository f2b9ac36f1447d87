/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "kube-nftd/serve.h"

#include <linux/in.h>
#include <string.h>

/* Longer than any valid query. */
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

static bool parse_address(const char *text, struct explain_query *query)
{
    return address_parse(strcmp(text, "localhost") == 0 ? "127.0.0.1" : text, &query->family,
                         &query->address);
}

static uint8_t parse_protocol(const char *text)
{
    static const uint8_t all[] = {IPPROTO_TCP, IPPROTO_UDP, IPPROTO_SCTP};
    for (size_t i = 0; i < sizeof(all); i++)
        if (strcasecmp(text, protocol_name(all[i])) == 0)
            return all[i];
    return 0;
}

/* Splits "HOST:PORT" or "[HOST]:PORT"; returns the port, NULL if there is none. */
static char *cut_port(char *text, char **host)
{
    char *end = *text == '[' ? strchr(text, ']') : NULL;
    char *colon = end ? end + 1 : strrchr(text, ':');
    *host = end ? text + 1 : text;
    if (end && *colon && *colon != ':')
        return NULL; /* the bracket stays, so parsing the host fails */
    if (end)
        *end = '\0';
    if (!colon || !*colon)
        return NULL;
    *colon = '\0';
    return colon + 1;
}

/* Parses ADDRESS[:PORT[/PROTOCOL]] or PORT[/PROTOCOL]; modifies @text. Returns 1 for any other
 * form, to be parsed as a Service. (A Service "tcp" in a namespace "80" is taken for a port.) */
static int parse_place(char *text, struct explain_query *query, struct error *err)
{
    char *protocol = text, *host, *place = strsep(&protocol, "/"), *port = place;
    size_t digits = strspn(place, DIGITS);
    query->protocol = protocol ? parse_protocol(protocol) : 0;
    if (digits && !place[digits]) {
        if (protocol && !query->protocol)
            return 1;
    } else if (parse_address(place, query)) {
        port = NULL; /* a bare IPv6 address would lose its last group */
        query->has_address = true;
    } else {
        port = cut_port(place, &host);
        query->has_address = parse_address(host, query);
        if (!query->has_address)
            return 1;
    }
    if (protocol && !query->protocol)
        return error_set(err, "the protocol is not TCP, UDP or SCTP");
    if (protocol && !port)
        return error_set(err, "a protocol needs a port: ADDRESS:PORT/PROTOCOL");
    if (port && !port_parse(port, strlen(port), &query->port))
        return error_set(err, "the port is not a number from 1 to 65535");
    return 0;
}

static bool is_name(const char *text)
{
    size_t length = strlen(text);
    return length > 0 && length <= NAME_LENGTH_MAX &&
           strspn(text, DIGITS "abcdefghijklmnopqrstuvwxyz-.") == length;
}

/* Parses NAMESPACE/SERVICE[:PORT] or SERVICE.NAMESPACE[.svc[.DOMAIN]][:PORT]; modifies @text. */
static int parse_service(char *text, struct explain_query *query, struct error *err)
{
    char *port = text, *name = strsep(&port, ":"), *domain = NULL, *namespace, *service;
    if (strchr(name, '/')) {
        service = name;
        namespace = strsep(&service, "/");
    } else {
        domain = name;
        service = strsep(&domain, ".");
        namespace = strsep(&domain, ".");
    }
    if (!namespace || !is_name(namespace) || !is_name(service) || (port && !is_name(port)) ||
        (domain && strcmp(domain, "svc") != 0 && strncmp(domain, "svc.", 4) != 0))
        return error_set(err, "%s", forms);
    query->service_id = xasprintf("%s/%s", namespace, service);
    query->port_name = xstrdup(port);
    return 0;
}

int explain_query_parse(const char *text, struct explain_query *query, struct error *err)
{
    memset(query, 0, sizeof(*query));
    if (strlen(text) > TEXT_MAX)
        return error_set(err, "it is too long");
    char *place = xstrdup(text), *service = xstrdup(text);
    int result = parse_place(place, query, err);
    if (result > 0) {
        memset(query, 0, sizeof(*query));
        result = parse_service(service, query, err);
    }
    free(place);
    free(service);
    if (result)
        explain_query_clear(query);
    else
        query->text = xstrdup(text);
    return result;
}
