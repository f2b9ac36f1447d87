/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Service and ServiceCIDR: the fields used (docs/behaviour.md 1.2 and 1.5). */
#include "decode.h"

#include <stdlib.h>
#include <string.h>

/* kube-proxy's default; the API server always sets one. */
#define AFFINITY_TIMEOUT 10800
#define AFFINITY_TIMEOUT_MOST 86400

static int service_type(struct decoder *d, const struct json_value *value, enum service_type *out)
{
    const char *text;
    *out = TYPE_CLUSTER_IP;
    if (field_string(d, value, &text))
        return -1;
    for (int type = 0; text && type <= TYPE_EXTERNAL_NAME; type++) {
        if (strcmp(service_type_name((enum service_type)type), text) == 0) {
            *out = (enum service_type)type;
            return 0;
        }
    }
    if (text)
        field_warn(d, value, NULL, "\"%s\" is unknown, taken for ClusterIP", text);
    return 0;
}

/* ---- cluster IPs ---- */

/* @value: the string, which is absent or listed with a family. */
static int service_cluster_ip(struct decoder *d, const struct json_value *value,
                              const char *listed_family)
{
    struct service *service = d->out->service;
    enum family family;
    struct address address;
    if (!address_parse(value->string, &family, &address))
        return field_bad(d, value, NULL, "\"%s\" is not an IP address", value->string);
    /* An address of another family than its ipFamilies entry is skipped, never an error. */
    if (listed_family && strcmp(listed_family, family_name(family)) != 0)
        return 0;
    service->has_cluster_ip[family] = true;
    service->cluster_ip[family] = address;
    return 0;
}

static int check_family(struct decoder *d, const struct json_value *value)
{
    if (!json_is(value, JSON_STRING))
        return field_is_not(d, value, "a string");
    for (int family = 0; family < FAMILY_COUNT; family++)
        if (strcmp(value->string, family_name((enum family)family)) == 0)
            return 0;
    return field_bad(d, value, NULL, "\"%s\" is not IPv4 or IPv6", value->string);
}

/* Each family in ipFamilies has the address at its index in clusterIPs; if that list is absent, the
 * first family has clusterIP. */
static int listed_cluster_ips(struct decoder *d, const struct json_value *spec,
                              const struct json_value *families,
                              const struct json_value *cluster_ip)
{
    const struct json_value *addresses;
    if (field_container(d, json_find(spec, "clusterIPs"), JSON_ARRAY, &addresses))
        return -1;
    bool is_list = !json_is_empty(addresses);
    const struct json_value *next = is_list ? addresses + 1 : cluster_ip;
    const struct json_value *end = is_list ? addresses + addresses->size : next + 1;
    json_each (families, family) {
        if (check_family(d, family))
            return -1;
        if (next == end)
            continue;
        if (!json_is(next, JSON_STRING))
            return field_is_not(d, next, "a string");
        if (service_cluster_ip(d, next, family->string))
            return -1;
        next += next->size;
    }
    return 0;
}

/* Decodes the cluster IPs, or marks the Service as skipped. */
static int cluster_ips(struct decoder *d, const struct json_value *spec, enum service_type type)
{
    const struct json_value *value = json_find(spec, "clusterIP"), *families;
    const char *text;
    if (field_string(d, value, &text) ||
        field_container(d, json_find(spec, "ipFamilies"), JSON_ARRAY, &families))
        return -1;
    if (type == TYPE_EXTERNAL_NAME || !text || !*text || strcmp(text, "None") == 0) {
        d->out->service->skipped = true;
        return 0;
    }
    return json_is_empty(families) ? service_cluster_ip(d, value, NULL)
                                   : listed_cluster_ips(d, spec, families, value);
}

/* ---- ports ---- */

static int add_port(struct decoder *d, const struct json_value *entry, void *ctx)
{
    struct service *service = ctx;
    struct service_port port = {0};
    const char *name;
    if (field_string(d, json_find(entry, "name"), &name) ||
        field_protocol(d, json_find(entry, "protocol"), &port.protocol) ||
        field_port(d, entry, "port", 1, &port.port) ||
        field_port(d, entry, "nodePort", 0, &port.node_port))
        return -1;
    port.name = intern(name ? name : "");
    vec_push(&service->ports, port);
    return 0;
}

/* A number used by a port as an integer that sorts duplicates side by side in port order: protocol,
 * whether it is a NodePort, number, and the port's index. */
static uint64_t number_key(const struct service_port *port, bool node, size_t index)
{
    uint64_t number = node ? port->node_port : port->port;
    return ((uint64_t)port->protocol << 17 | (uint64_t)node << 16 | number) << 32 | (uint32_t)index;
}

static int compare_keys(const void *a, const void *b)
{
    uint64_t first = *(const uint64_t *)a, second = *(const uint64_t *)b;
    return (first > second) - (first < second);
}

/* The key of the first port that reuses a number of an earlier port; 0: none. Sorts, so that an
 * object with many ports does not delay all others. */
static uint64_t find_doubled(const struct service *service)
{
    size_t n = 0;
    uint64_t doubled = 0, *keys = xreallocarray(NULL, 2 * service->ports.n, sizeof(*keys));
    for (size_t i = 0; i < service->ports.n; i++) {
        const struct service_port *port = &service->ports.v[i];
        keys[n++] = number_key(port, false, i);
        if (port->node_port)
            keys[n++] = number_key(port, true, i);
    }
    qsort(keys, n, sizeof(*keys), compare_keys);
    for (size_t i = 1; i < n; i++)
        if (keys[i - 1] >> 32 == keys[i] >> 32 &&
            (!doubled || (uint32_t)keys[i] < (uint32_t)doubled))
            doubled = keys[i];
    free(keys);
    return doubled;
}

static int check_numbers(struct decoder *d, const struct json_value *ports)
{
    const struct service *service = d->out->service;
    uint64_t doubled = service->ports.n > 1 ? find_doubled(service) : 0;
    if (!doubled)
        return 0;
    bool node = doubled >> 48 & 1;
    const struct json_value *port = ports + 1;
    for (uint32_t i = (uint32_t)doubled; i > 0; i--)
        port += port->size;
    return field_bad(d, port, NULL, "%s %s %u is a duplicate",
                     protocol_name((uint8_t)(doubled >> 49)), node ? "node port" : "port",
                     (unsigned)(doubled >> 32 & UINT16_MAX));
}

static int service_ports(struct decoder *d, const struct json_value *spec)
{
    struct service *service = d->out->service;
    const struct json_value *ports = json_find(spec, "ports");
    vec_make_room(&service->ports, json_count(ports));
    if (field_each(d, ports, JSON_OBJECT, add_port, service) || check_numbers(d, ports))
        return -1;
    vec_trim(&service->ports);
    if (service->ports.n == 0 && !service->skipped)
        return field_bad(d, spec, "ports", "missing");
    return 0;
}

/* ---- external addresses and allowed sources ---- */

/* Adds an address to the list of its family. Users and other programs write it, so an invalid
 * address costs only itself. */
static void add_address(struct decoder *d, const struct json_value *value,
                        address_vec lists[FAMILY_COUNT])
{
    const char *text = value->string;
    enum family family;
    struct address address;
    if (!*text)
        return;
    if (!address_parse(text, &family, &address))
        field_warn(d, value, NULL, "\"%s\" is not an IP address", text);
    else if (d->out->service->has_cluster_ip[family])
        vec_push(&lists[family], address);
}

/* A special address would capture the host's own traffic. API servers reject external IPs of that
 * kind, but not those of load balancers. */
static int take_outside_address(struct decoder *d, const struct json_value *entry, void *ctx)
{
    const char *text = entry->string;
    enum family family;
    struct address address;
    const char *special =
        address_parse(text, &family, &address) ? address_special(family, &address) : NULL;
    if (special)
        field_warn(d, entry, NULL, "\"%s\" is %s", text, special);
    else
        add_address(d, entry, ctx);
    return 0;
}

/* In modes other than VIP, the balancer delivers to the nodes itself (docs/behaviour.md 1.2). */
static int take_ingress(struct decoder *d, const struct json_value *entry, void *ctx)
{
    const struct json_value *ip = json_find(entry, "ip"), *name = json_find(entry, "hostname");
    struct service *service = d->out->service;
    const char *text, *mode;
    if (field_string(d, ip, &text) || field_string(d, json_find(entry, "ipMode"), &mode))
        return -1;
    bool is_ours = !mode || strcmp(mode, "VIP") == 0;
    service->by_hostname |= !text && json_is(name, JSON_STRING) && *name->string;
    service->by_proxy |= text && !is_ours;
    return text && is_ours ? take_outside_address(d, ip, ctx) : 0;
}

/* A range of /0 allows every source of its family, which makes its other ranges moot. */
struct source_search {
    range_vec *ranges;
    bool everybody[FAMILY_COUNT];
};

static int take_source_range(struct decoder *d, const struct json_value *entry, void *ctx)
{
    struct source_search *search = ctx;
    enum family family;
    struct cidr cidr;
    char *text = xstrdup(entry->string);
    text_trim(text);
    if (!cidr_parse(text, &family, &cidr)) {
        if (*text)
            field_warn(d, entry, NULL, "\"%s\" is not a CIDR", text);
    } else if (cidr.length == 0) {
        search->everybody[family] = true;
    } else {
        vec_push(&search->ranges[family], cidr_range(family, &cidr));
    }
    free(text);
    return 0;
}

static int source_ranges(struct decoder *d, const struct json_value *list,
                         range_vec lists[FAMILY_COUNT])
{
    struct source_search search = {.ranges = lists};
    if (field_each(d, list, JSON_STRING, take_source_range, &search))
        return -1;
    for (int family = 0; family < FAMILY_COUNT; family++) {
        if (search.everybody[family])
            vec_free(&search.ranges[family]);
        ranges_normalize((enum family)family, &search.ranges[family]);
    }
    return 0;
}

/* Must follow the cluster IPs: only their families are used. */
static int external_addresses(struct decoder *d, const struct json_value *spec)
{
    struct outside outside = {0};
    const struct json_value *status, *balancer;
    bool bad = field_each(d, json_find(spec, "externalIPs"), JSON_STRING, take_outside_address,
                          outside.external_ips) ||
               field_object(d, json_find(d->json, "status"), &status) ||
               field_object(d, json_find(status, "loadBalancer"), &balancer) ||
               field_each(d, json_find(balancer, "ingress"), JSON_OBJECT, take_ingress,
                          outside.load_balancer_ips) ||
               source_ranges(d, json_find(spec, "loadBalancerSourceRanges"), outside.source_ranges);
    for (int family = 0; family < FAMILY_COUNT; family++) {
        addresses_normalize(&outside.external_ips[family]);
        addresses_normalize(&outside.load_balancer_ips[family]);
    }
    service_take_outside(d->out->service, &outside);
    return bad ? -1 : 0;
}

/* ---- traffic policies and affinity ---- */

static int health_check(struct decoder *d, const struct json_value *spec, enum service_type type)
{
    struct service *service = d->out->service;
    uint16_t port;
    if (field_port(d, spec, "healthCheckNodePort", 0, &port))
        return -1;
    if (type != TYPE_LOAD_BALANCER || !service->external_local)
        return 0;
    if (port == 0)
        field_warn(d, spec, "healthCheckNodePort", "missing, so no health check is answered");
    service->health_check_node_port = port;
    return 0;
}

static int session_affinity(struct decoder *d, const struct json_value *spec)
{
    uint32_t timeout = AFFINITY_TIMEOUT;
    const struct json_value *config, *client;
    bool affine;
    if (field_choice(d, json_find(spec, "sessionAffinity"), "None", "ClientIP", &affine) ||
        field_object(d, json_find(spec, "sessionAffinityConfig"), &config) ||
        field_object(d, json_find(config, "clientIP"), &client) ||
        field_integer(d, json_find(client, "timeoutSeconds"), 1, AFFINITY_TIMEOUT_MOST, &timeout))
        return -1;
    d->out->service->affinity_timeout = affine ? timeout : 0;
    return 0;
}

/* Unknown policies count as the default, so that Services keep working with a daemon older than the
 * policy. externalTrafficPolicy applies only with external addresses (docs/behaviour.md 1.2). */
static int policies(struct decoder *d, const struct json_value *spec, enum service_type type)
{
    struct service *service = d->out->service;
    bool external_local;
    if (field_choice(d, json_find(spec, "externalTrafficPolicy"), "Cluster", "Local",
                     &external_local) ||
        field_choice(d, json_find(spec, "internalTrafficPolicy"), "Cluster", "Local",
                     &service->internal_local))
        return -1;
    service->external_local = external_local && (type != TYPE_CLUSTER_IP ||
                                                 !json_is_empty(json_find(spec, "externalIPs")));
    return health_check(d, spec, type) || session_affinity(d, spec) ? -1 : 0;
}

/* ---- Service ---- */

int decode_service(struct decoder *d)
{
    struct service *service = d->out->service = xcalloc(1, sizeof(*service));
    const struct json_value *spec;
    enum service_type type;
    service->created = INT64_MAX;
    if (field_time(d, json_find(d->metadata, "creationTimestamp"), &service->created) ||
        field_object(d, json_find(d->json, "spec"), &spec))
        return -1;
    if (!spec)
        return field_bad(d, NULL, "spec", "missing");
    if (service_type(d, json_find(spec, "type"), &type) || cluster_ips(d, spec, type) ||
        service_ports(d, spec))
        return -1;
    service->type = (uint8_t)type;
    if (!service->skipped && (external_addresses(d, spec) || policies(d, spec, type)))
        return -1;
    return 0;
}

/* ---- ServiceCIDR ---- */

static int add_cidr(struct decoder *d, const struct json_value *entry, void *ctx)
{
    struct service_cidr *service_cidr = ctx;
    return field_cidr(d, entry, service_cidr->has_cidr, service_cidr->cidr);
}

int decode_service_cidr(struct decoder *d)
{
    struct service_cidr *service_cidr = d->out->service_cidr = xcalloc(1, sizeof(*service_cidr));
    const struct json_value *spec;
    if (field_object(d, json_find(d->json, "spec"), &spec))
        return -1;
    const struct json_value *cidrs = json_member(spec, "cidrs");
    if (field_each(d, cidrs, JSON_STRING, add_cidr, service_cidr))
        return -1;
    return json_is_empty(cidrs) ? field_bad(d, NULL, "spec.cidrs", "missing") : 0;
}
