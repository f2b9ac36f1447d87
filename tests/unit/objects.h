/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * API objects from words and back, so that a test reads as a table.
 *
 *     addresses   "10.96.0.1 fd00::1"
 *     CIDRs       "10.0.0.0/8 fd00::/64"
 *     ports       "http/TCP:80+30080 /UDP:53"              name/protocol:number+node port
 *     endpoints   "10.0.0.1 10.0.0.2=st 10.0.0.3=rs@n1"    address=conditions@node
 *                 "10.0.0.1~n1,n2^z1"                      address~hinted nodes^hinted zones
 *     a Node      "zone=a 192.0.2.7 fd00::7 pods=10.244.1.0/24 deleting tainted"
 *
 * Conditions are letters: r ready, s serving, t terminating, - none; left out they are "rs".
 */
#ifndef KUBE_NFTD_TESTS_OBJECTS_H
#define KUBE_NFTD_TESTS_OBJECTS_H

#include "kube-nftd/base.h"
#include "kube-nftd/cache.h"
#include "kube-nftd/model.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Runs the statement with @word naming each word of the string @text in turn. */
#define each_word(text, word)                                                                      \
    for (char *copy_ = xstrdup(text), *rest_, *word = strtok_r(copy_, " ", &rest_);                \
         word || (free(copy_), false); word = strtok_r(NULL, " ", &rest_))

/* Frees @actual, which must be @expected. */
static inline void expect_text(char *actual, const char *expected)
{
    ck_assert_str_eq(actual, expected);
    free(actual);
}

/* ---- from words ---- */

static inline struct address make_address(const char *text, enum family *family)
{
    struct address address;
    if (!address_parse(text, family,
                       &address)) /* a ck_assert() makes a system call when all is well */
        ck_abort_msg("%s", text);
    return address;
}

/* "10.0.0.1:80", "[fd00::1]:80" */
static inline struct backend make_backend(const char *word, enum family *family)
{
    const char *colon = strrchr(word, ':');
    const size_t bracket = *word == '[';
    char *address = xstrndup(word + bracket, (size_t)(colon - word) - 2 * bracket);
    const struct backend backend = {make_address(address, family), (uint16_t)atoi(colon + 1)};
    free(address);
    return backend;
}

static inline struct cidr make_cidr(const char *text, enum family *family)
{
    struct cidr cidr;
    if (!cidr_parse(text, family, &cidr))
        ck_abort_msg("%s", text);
    return cidr;
}

static inline struct service_port make_port(const char *word)
{
    const char *slash = strchr(word, '/'), *colon = strchr(word, ':'), *plus = strchr(word, '+');
    struct service_port port = {.port = (uint16_t)atoi(colon + 1),
                                .node_port = plus ? (uint16_t)atoi(plus + 1) : 0};
    char *protocol = xstrndup(slash + 1, (size_t)(colon - slash - 1));
    char *name = xstrndup(word, (size_t)(slash - word));
    port.name = intern(name);
    free(name);
    port.protocol = protocol_parse(protocol);
    if (port.protocol == 0)
        ck_abort_msg("%s", word);
    free(protocol);
    return port;
}

static inline void add_address(struct service *service, const char *word)
{
    enum family family;
    struct address address = make_address(word, &family);
    service->has_cluster_ip[family] = true;
    service->cluster_ip[family] = address;
}

/* A Service created at second 1. */
static inline struct service *make_service(const char *id, const char *addresses, const char *ports)
{
    struct service *service = xcalloc(1, sizeof(*service));
    service->id = xstrdup(id);
    service->created = 1;
    each_word(addresses, word) add_address(service, word);
    each_word(ports, word) vec_push(&service->ports, make_port(word));
    return service;
}

/* Appends them to those of their families. */
static inline void add_addresses(address_vec to[FAMILY_COUNT], const char *addresses)
{
    each_word(addresses, word)
    {
        enum family family;
        struct address address = make_address(word, &family);
        vec_push(&to[family], address);
    }
}

/* They go on to what the Service has. */
static inline void add_external_ips(struct service *service, const char *addresses)
{
    add_addresses(service_make_outside(service)->external_ips, addresses);
}

static inline void add_load_balancer_ips(struct service *service, const char *addresses)
{
    add_addresses(service_make_outside(service)->load_balancer_ips, addresses);
}

static inline void add_source_ranges(struct service *service, const char *cidrs)
{
    each_word(cidrs, word)
    {
        enum family family;
        struct cidr cidr = make_cidr(word, &family);
        vec_push(&service_make_outside(service)->source_ranges[family], cidr_range(family, &cidr));
    }
    for (int i = 0; i < FAMILY_COUNT; i++)
        ranges_normalize((enum family)i, &service_make_outside(service)->source_ranges[i]);
}

static inline struct service_cidr *make_service_cidr(const char *id, const char *cidrs)
{
    struct service_cidr *made = xcalloc(1, sizeof(*made));
    made->id = xstrdup(id);
    each_word(cidrs, word)
    {
        enum family family;
        struct cidr cidr = make_cidr(word, &family);
        made->has_cidr[family] = true;
        made->cidr[family] = cidr;
    }
    return made;
}

/* Puts the names behind @mark, "a,b", into @hints, which has room. Returns how many. */
static inline uint16_t add_hints(struct endpoint_hints *hints, size_t at, const char *mark)
{
    uint16_t n = 0;
    while (mark) {
        size_t length = strcspn(mark + 1, ",~^");
        char *name = xstrndup(mark + 1, length);
        hints->names[at + n++] = intern(name);
        free(name);
        mark = mark[length + 1] == ',' ? mark + length + 1 : NULL;
    }
    return n;
}

static inline struct endpoint_hints *make_hints(const char *word)
{
    const char *nodes = strchr(word, '~'), *zones = strchr(word, '^');
    struct endpoint_hints *hints;
    if (!nodes && !zones)
        return NULL;
    hints = xcalloc(1, sizeof(*hints) + strlen(word) * sizeof(*hints->names));
    hints->n_nodes = add_hints(hints, 0, nodes);
    hints->n_zones = add_hints(hints, hints->n_nodes, zones);
    return hints;
}

static inline uint8_t make_flags(const char *letters)
{
    uint8_t flags = 0;
    for (; *letters && !strchr("@~^", *letters); letters++)
        flags |= *letters == 'r'   ? ENDPOINT_READY
                 : *letters == 's' ? ENDPOINT_SERVING
                 : *letters == 't' ? ENDPOINT_TERMINATING
                 : *letters == 'v' ? ENDPOINT_SERVICE_ADDRESS
                                   : 0;
    return flags;
}

static inline struct slice_endpoint make_endpoint(const char *word, enum family family)
{
    const char *flags = strchr(word, '='), *node = strchr(word, '@');
    char *address = xstrndup(word, strcspn(word, "=@~^"));
    char *node_name = node ? xstrndup(node + 1, strcspn(node + 1, "~^")) : NULL;
    enum family own;
    struct slice_endpoint endpoint = {.address = make_address(address, &own)};
    if (own != family)
        ck_abort_msg("%s", word);
    endpoint.flags = make_flags(flags ? flags + 1 : "rs");
    endpoint.node_name = intern(node_name);
    endpoint.hints = make_hints(word);
    free(node_name);
    free(address);
    return endpoint;
}

static inline void add_slice_port(struct endpoint_slice *slice, const char *word)
{
    struct service_port port = make_port(word);
    vec_push(&slice->ports, (struct slice_port){port.name, port.protocol, port.port});
}

/* A slice of the Service @service_id, which may be NULL. */
static inline struct endpoint_slice *make_slice(const char *id, const char *service_id,
                                                enum family family, const char *ports,
                                                const char *endpoints)
{
    struct endpoint_slice *slice = xcalloc(1, sizeof(*slice));
    slice->id = xstrdup(id);
    slice->service_id = xstrdup(service_id);
    slice->has_family = true;
    slice->family = family;
    each_word(ports, word) add_slice_port(slice, word);
    endpoint_slice_sort_ports(slice);
    each_word(endpoints, word) vec_push(&slice->endpoints, make_endpoint(word, family));
    return slice;
}

static inline void add_node_word(struct node *node, const char *word)
{
    enum family family;
    if (strncmp(word, "zone=", 5) == 0) {
        node->zone = xstrdup(word + 5);
    } else if (strncmp(word, "pods=", 5) == 0) {
        struct cidr cidr = make_cidr(word + 5, &family);
        node->has_pod_cidr[family] = true;
        node->pod_cidr[family] = cidr;
    } else if (strcmp(word, "deleting") == 0) {
        node->deleting = true;
    } else if (strcmp(word, "tainted") == 0) {
        node->to_be_deleted = true;
    } else {
        struct address address = make_address(word, &family);
        node->has_ip[family] = true;
        node->ip[family] = address;
    }
}

static inline struct node *make_node(const char *id, const char *words)
{
    struct node *node = xcalloc(1, sizeof(*node));
    node->id = xstrdup(id);
    each_word(words, word) add_node_word(node, word);
    return node;
}

/* Of one family, in ascending order. The caller frees it. */
static inline address_vec make_addresses(const char *words)
{
    address_vec addresses = {0};
    each_word(words, word)
    {
        enum family family;
        vec_push(&addresses, make_address(word, &family));
    }
    return addresses;
}

/* ---- back to words; the caller frees them ---- */

static inline void write_address(FILE *out, enum family family, const struct address *address)
{
    char text[ADDRESS_TEXT_SIZE];
    fputs(address_format(family, address, text), out);
}

/* " 10.0.0.1:80 10.0.0.2:80" */
static inline void write_backends(FILE *out, enum family family, const struct backend *backends,
                                  size_t n)
{
    for (size_t i = 0; i < n; i++) {
        fputc(' ', out);
        write_address(out, family, &backends[i].address);
        fprintf(out, ":%u", backends[i].port);
    }
}

/* To which backends flows may go on. */
static inline char *flows_text(enum family family, const struct backend *serving, size_t n)
{
    char *text;
    size_t length;
    FILE *out = open_memstream(&text, &length);
    fputs("flows", out);
    write_backends(out, family, serving, n);
    fclose(out);
    return text;
}

static inline void write_cidr(FILE *out, enum family family, const struct cidr *cidr)
{
    write_address(out, family, &cidr->address);
    fprintf(out, "/%u", cidr->length);
}

static inline void write_port(FILE *out, const char *name, uint8_t protocol, uint16_t port)
{
    fprintf(out, " %s/%s:%u", name, protocol_name(protocol), port);
}

static inline void write_conditions(FILE *out, uint8_t flags, const char *node_name)
{
    if (flags != (ENDPOINT_READY | ENDPOINT_SERVING))
        fprintf(out, "=%s%s%s%s", flags & ENDPOINT_READY ? "r" : "",
                flags & ENDPOINT_SERVING ? "s" : "", flags & ENDPOINT_TERMINATING ? "t" : "",
                flags ? "" : "-");
    if (node_name)
        fprintf(out, "@%s", node_name);
}

static inline void write_hints(FILE *out, const struct endpoint_hints *hints)
{
    for (int i = 0; hints && i < hints->n_nodes + hints->n_zones; i++)
        fprintf(out, "%c%s",
                i == 0                ? (hints->n_nodes ? '~' : '^')
                : i == hints->n_nodes ? '^'
                                      : ',',
                hints->names[i]);
}

/* "10.0.0.0-10.0.0.255 10.0.2.0-10.0.2.0" */
static inline void write_ranges(FILE *out, enum family family, const range_vec *ranges)
{
    vec_each (ranges, range) {
        fputs(range > ranges->v ? " " : "", out);
        write_address(out, family, &range->first);
        fputs("-", out);
        write_address(out, family, &range->last);
    }
}

/* "10.0.0.1:80 10.0.0.2:80=st@n1" */
static inline void write_endpoints(FILE *out, enum family family, const endpoint_vec *endpoints)
{
    vec_each (endpoints, it) {
        fputs(it > endpoints->v ? " " : "", out);
        fputs(family == FAMILY_IPV6 ? "[" : "", out);
        write_address(out, family, &it->address);
        fprintf(out, "%s:%u", family == FAMILY_IPV6 ? "]" : "", it->port);
        write_conditions(out, it->flags, it->node_name);
        write_hints(out, it->hints);
    }
}

/* ---- chance, the same in every run ---- */

/* A number below @n. */
static inline unsigned dice(uint64_t *state, unsigned n)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)((*state >> 33) % n);
}

#endif
