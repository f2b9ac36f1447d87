/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "objects.h"

void expect_text(char *actual, const char *expected)
{
    ck_assert_str_eq(actual, expected);
    free(actual);
}

/* ---- from words ---- */

struct address make_address(const char *text, enum family *family)
{
    struct address address;
    if (!address_parse(text, family,
                       &address)) /* a ck_assert() makes a system call when all is well */
        ck_abort_msg("%s", text);
    return address;
}

struct backend make_backend(const char *word, enum family *family)
{
    const char *colon = strrchr(word, ':');
    const size_t bracket = *word == '[';
    char *address = xstrndup(word + bracket, (size_t)(colon - word) - 2 * bracket);
    const struct backend backend = {make_address(address, family), (uint16_t)atoi(colon + 1)};
    free(address);
    return backend;
}

struct cidr make_cidr(const char *text, enum family *family)
{
    struct cidr cidr;
    if (!cidr_parse(text, family, &cidr))
        ck_abort_msg("%s", text);
    return cidr;
}

struct service_port make_port(const char *word)
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

void add_address(struct service *service, const char *word)
{
    enum family family;
    struct address address = make_address(word, &family);
    service->has_cluster_ip[family] = true;
    service->cluster_ip[family] = address;
}

struct service *make_service(const char *id, const char *addresses, const char *ports)
{
    struct service *service = xcalloc(1, sizeof(*service));
    service->id = xstrdup(id);
    service->created = 1;
    each_word(addresses, word) add_address(service, word);
    each_word(ports, word) vec_push(&service->ports, make_port(word));
    return service;
}

void add_addresses(address_vec to[FAMILY_COUNT], const char *addresses)
{
    each_word(addresses, word)
    {
        enum family family;
        struct address address = make_address(word, &family);
        vec_push(&to[family], address);
    }
}

void add_external_ips(struct service *service, const char *addresses)
{
    add_addresses(service_make_outside(service)->external_ips, addresses);
}

void add_load_balancer_ips(struct service *service, const char *addresses)
{
    add_addresses(service_make_outside(service)->load_balancer_ips, addresses);
}

void add_source_ranges(struct service *service, const char *cidrs)
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

struct service_cidr *make_service_cidr(const char *id, const char *cidrs)
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
static uint16_t add_hints(struct endpoint_hints *hints, size_t at, const char *mark)
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

struct endpoint_hints *make_hints(const char *word)
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

uint8_t make_flags(const char *letters)
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

struct slice_endpoint make_endpoint(const char *word, enum family family)
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

void add_slice_port(struct endpoint_slice *slice, const char *word)
{
    struct service_port port = make_port(word);
    vec_push(&slice->ports, (struct slice_port){port.name, port.protocol, port.port});
}

struct endpoint_slice *make_slice(const char *id, const char *service_id, enum family family,
                                  const char *ports, const char *endpoints)
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

static void add_node_word(struct node *node, const char *word)
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

struct node *make_node(const char *id, const char *words)
{
    struct node *node = xcalloc(1, sizeof(*node));
    node->id = xstrdup(id);
    each_word(words, word) add_node_word(node, word);
    return node;
}

address_vec make_addresses(const char *words)
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

void write_address(FILE *out, enum family family, const struct address *address)
{
    char text[ADDRESS_TEXT_SIZE];
    fputs(address_format(family, address, text), out);
}

void write_backends(FILE *out, enum family family, const struct backend *backends, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        fputc(' ', out);
        write_address(out, family, &backends[i].address);
        fprintf(out, ":%u", backends[i].port);
    }
}

char *flows_text(enum family family, const struct backend *serving, size_t n)
{
    char *text;
    size_t length;
    FILE *out = open_memstream(&text, &length);
    fputs("flows", out);
    write_backends(out, family, serving, n);
    fclose(out);
    return text;
}

void write_cidr(FILE *out, enum family family, const struct cidr *cidr)
{
    write_address(out, family, &cidr->address);
    fprintf(out, "/%u", cidr->length);
}

void write_port(FILE *out, const char *name, uint8_t protocol, uint16_t port)
{
    fprintf(out, " %s/%s:%u", name, protocol_name(protocol), port);
}

void write_conditions(FILE *out, uint8_t flags, const char *node_name)
{
    if (flags != (ENDPOINT_READY | ENDPOINT_SERVING))
        fprintf(out, "=%s%s%s%s", flags & ENDPOINT_READY ? "r" : "",
                flags & ENDPOINT_SERVING ? "s" : "", flags & ENDPOINT_TERMINATING ? "t" : "",
                flags ? "" : "-");
    if (node_name)
        fprintf(out, "@%s", node_name);
}

void write_hints(FILE *out, const struct endpoint_hints *hints)
{
    for (int i = 0; hints && i < hints->n_nodes + hints->n_zones; i++)
        fprintf(out, "%c%s",
                i == 0                ? (hints->n_nodes ? '~' : '^')
                : i == hints->n_nodes ? '^'
                                      : ',',
                hints->names[i]);
}

void write_ranges(FILE *out, enum family family, const range_vec *ranges)
{
    vec_each (ranges, range) {
        fputs(range > ranges->v ? " " : "", out);
        write_address(out, family, &range->first);
        fputs("-", out);
        write_address(out, family, &range->last);
    }
}

void write_endpoints(FILE *out, enum family family, const endpoint_vec *endpoints)
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

unsigned dice(uint64_t *state, unsigned n)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)((*state >> 33) % n);
}
