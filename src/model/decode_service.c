/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Service and ServiceCIDR: the fields of docs/behaviour.md 1.2 and 1.5 that are used. */
#include "field.h"

#include "kube-nftd/base.h"
#include "kube-nftd/values.h"

#include <stdlib.h>
#include <string.h>

/* kube-proxy's; the API server always fills it in. */
#define AFFINITY_TIMEOUT 10800
#define AFFINITY_TIMEOUT_MOST 86400

static int service_created(struct decoder *d, const struct json_value *json)
{
    struct field_path path = {NULL, "metadata", 0};
    d->out->service->created = INT64_MAX;
    return field_time(d, json_member(json, "metadata"), &path, "creationTimestamp",
                      &d->out->service->created);
}

static int service_type(struct decoder *d, const struct json_value *spec,
                        const struct field_path *up, enum service_type *out)
{
    const char *text;
    *out = TYPE_CLUSTER_IP;
    if (field_string(d, spec, up, "type", &text))
        return -1;
    for (int type = 0; text && type <= TYPE_EXTERNAL_NAME; type++) {
        if (strcmp(service_type_name((enum service_type)type), text) == 0) {
            *out = (enum service_type)type;
            return 0;
        }
    }
    if (text)
        field_warn(d, &(struct field_path){up, "type", 0}, "\"%s\" is unknown, taken for ClusterIP",
                   text);
    return 0;
}

/* ---- cluster IPs ---- */

static int service_cluster_ip(struct decoder *d, const char *text, const struct field_path *path,
                              const char *wanted_family)
{
    struct service *service = d->out->service;
    enum family family;
    struct address address;
    if (!address_parse(text, &family, &address))
        return field_bad(d, path, "\"%s\" is not an IP address", text);
    /* An address of another family than its entry in ipFamilies is skipped, never fatal. */
    if (wanted_family && strcmp(wanted_family, family_name(family)) != 0)
        return 0;
    service->has_cluster_ip[family] = true;
    service->cluster_ip[family] = address;
    return 0;
}

static int check_family(struct decoder *d, const struct json_value *json,
                        const struct field_path *path)
{
    if (!json_is(json, JSON_STRING))
        return field_is_not(d, json, path, "a string");
    for (int family = 0; family < FAMILY_COUNT; family++)
        if (strcmp(json->string, family_name((enum family)family)) == 0)
            return 0;
    return field_bad(d, path, "\"%s\" is not IPv4 or IPv6", json->string);
}

/* Each family that ipFamilies lists has the address at the same place of clusterIPs; where that
 * list is absent, the first one has clusterIP. */
static int listed_cluster_ips(struct decoder *d, const struct json_value *spec,
                              const struct field_path *up, const struct json_value *families,
                              const char *cluster_ip)
{
    const struct json_value *addresses;
    if (field_list(d, spec, up, "clusterIPs", &addresses))
        return -1;
    bool alone = json_is_empty(addresses);
    struct field_path families_path = {up, "ipFamilies", 0}, addresses_path = {up, "clusterIPs", 0},
                      alone_path = {up, "clusterIP", 0};
    int i = 0;
    const struct json_value *address = addresses ? addresses + 1 : NULL;
    const struct json_value *end = addresses ? addresses + addresses->size : NULL;
    json_each (families, family) {
        struct field_path path = {&addresses_path, NULL, i};
        if (check_family(d, family, &(struct field_path){&families_path, NULL, i}))
            return -1;
        if (address == end)
            address = NULL;
        if (address && !json_is(address, JSON_STRING))
            return field_is_not(d, address, &path, "a string");
        const char *text = address ? address->string : alone && i == 0 ? cluster_ip : NULL;
        if (text && service_cluster_ip(d, text, alone ? &alone_path : &path, family->string))
            return -1;
        address = address ? address + address->size : NULL;
        i++;
    }
    return 0;
}

/* Or that the Service is skipped. */
static int cluster_ips(struct decoder *d, const struct json_value *spec,
                       const struct field_path *up, enum service_type type)
{
    const char *cluster_ip;
    const struct json_value *families;
    if (field_string(d, spec, up, "clusterIP", &cluster_ip) ||
        field_list(d, spec, up, "ipFamilies", &families))
        return -1;
    if (type == TYPE_EXTERNAL_NAME || !cluster_ip || !*cluster_ip ||
        strcmp(cluster_ip, "None") == 0) {
        d->out->service->skipped = true;
        return 0;
    }
    if (!json_is_empty(families))
        return listed_cluster_ips(d, spec, up, families, cluster_ip);
    return service_cluster_ip(d, cluster_ip, &(struct field_path){up, "clusterIP", 0}, NULL);
}

/* ---- ports ---- */

static int add_port(struct decoder *d, const struct json_value *json, const struct field_path *path,
                    void *ctx)
{
    struct service *service = ctx;
    struct service_port port = {0};
    const char *name;
    if (field_string(d, json, path, "name", &name) ||
        field_protocol(d, json, path, &port.protocol) ||
        field_port(d, json, path, "port", 1, &port.port) ||
        field_port(d, json, path, "nodePort", 0, &port.node_port))
        return -1;
    port.name = intern(name ? name : "");
    vec_push(&service->ports, port);
    return 0;
}

/* A number that a port takes, in an integer, so that equal ones sort side by side and in the order
 * of their ports: protocol, whether it is a node port, number, and the place of the port. */
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

/* The key of a number that an earlier port has too, of the first such port; 0 if there is none.
 * By sorting, since an object of many ports must not hold up all others. */
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

/* No two ports of a Service may share a number. */
static int check_numbers(struct decoder *d, const struct field_path *up)
{
    const struct service *service = d->out->service;
    uint64_t doubled = service->ports.n > 1 ? find_doubled(service) : 0;
    if (!doubled)
        return 0;
    const struct field_path list = {up, "ports", 0};
    bool node = doubled >> 48 & 1;
    return field_bad(d, &(struct field_path){&list, NULL, (int)(uint32_t)doubled},
                     "%s %s %u is a duplicate", protocol_name((uint8_t)(doubled >> 49)),
                     node ? "node port" : "port", (unsigned)(doubled >> 32 & UINT16_MAX));
}

static int service_ports(struct decoder *d, const struct json_value *spec,
                         const struct field_path *up)
{
    struct service *service = d->out->service;
    vec_make_room(&service->ports, json_count(json_member(spec, "ports")));
    if (field_each_object(d, spec, up, "ports", add_port, service) || check_numbers(d, up))
        return -1;
    vec_trim(&service->ports);
    if (service->ports.n == 0 && !service->skipped)
        return field_bad(d, &(struct field_path){up, "ports", 0}, "missing");
    return 0;
}

/* ---- addresses for clients outside of the cluster, and which clients ---- */

/* Adds what @text says to the list of its family. Written by hand or by others, so what is no
 * address costs just itself. */
static void add_address(struct decoder *d, const char *text, const struct field_path *path,
                        address_vec lists[FAMILY_COUNT])
{
    enum family family;
    struct address address;
    if (!*text)
        return;
    if (!address_parse(text, &family, &address))
        field_warn(d, path, "\"%s\" is not an IP address", text);
    else if (d->out->service->has_cluster_ip[family])
        vec_push(&lists[family], address);
}

/* An API server refuses such an address; one that a tenant got past it would take the host's own
 * traffic. */
static int take_external_ip(struct decoder *d, const struct json_value *entry,
                            const struct field_path *path, void *ctx)
{
    enum family family;
    struct address address;
    const char *special =
        address_parse(entry->string, &family, &address) ? address_special(family, &address) : NULL;
    if (special)
        field_warn(d, path, "\"%s\" is %s", entry->string, special);
    else
        add_address(d, entry->string, path, ctx);
    return 0;
}

/* Of any mode but VIP, the balancer delivers to the nodes itself (docs/behaviour.md 1.2). */
static int take_ingress(struct decoder *d, const struct json_value *entry,
                        const struct field_path *path, void *ctx)
{
    const char *ip, *mode;
    if (field_string(d, entry, path, "ip", &ip) || field_string(d, entry, path, "ipMode", &mode))
        return -1;
    if (ip && (!mode || strcmp(mode, "VIP") == 0))
        add_address(d, ip, &(struct field_path){path, "ip", 0}, ctx);
    return 0;
}

static int load_balancer_ips(struct decoder *d, const struct json_value *json,
                             address_vec lists[FAMILY_COUNT])
{
    struct field_path status_path = {NULL, "status", 0}, path = {&status_path, "loadBalancer", 0};
    const struct json_value *status, *balancer;
    if (field_object(d, json, NULL, "status", &status) ||
        field_object(d, status, &status_path, "loadBalancer", &balancer) ||
        field_each_object(d, balancer, &path, "ingress", take_ingress, lists))
        return -1;
    return 0;
}

/* @text without the blanks around it; the caller frees it. */
static char *trimmed(const char *text)
{
    static const char blanks[] = " \t\r\n\v\f";
    text += strspn(text, blanks);
    size_t length = strlen(text);
    while (length > 0 && strchr(blanks, text[length - 1]))
        length--;
    return xstrndup(text, length);
}

/* Everybody of a family may connect once a range is /0, so there is nothing to compare with. */
struct source_search {
    range_vec *ranges;
    bool everybody[FAMILY_COUNT];
};

static int take_source_range(struct decoder *d, const struct json_value *entry,
                             const struct field_path *path, void *ctx)
{
    struct source_search *search = ctx;
    enum family family;
    struct cidr cidr;
    char *text = trimmed(entry->string);
    if (!cidr_parse(text, &family, &cidr)) {
        if (*text)
            field_warn(d, path, "\"%s\" is not a CIDR", text);
    } else if (cidr.length == 0) {
        search->everybody[family] = true;
    } else {
        vec_push(&search->ranges[family], cidr_range(family, &cidr));
    }
    free(text);
    return 0;
}

static int source_ranges(struct decoder *d, const struct json_value *spec,
                         const struct field_path *up, range_vec lists[FAMILY_COUNT])
{
    struct source_search search = {.ranges = lists};
    if (field_each_string(d, spec, up, "loadBalancerSourceRanges", take_source_range, &search))
        return -1;
    for (int family = 0; family < FAMILY_COUNT; family++) {
        if (search.everybody[family])
            vec_free(&search.ranges[family]);
        ranges_normalize((enum family)family, &search.ranges[family]);
    }
    return 0;
}

/* Behind the cluster IPs: only their families count. */
static int external_addresses(struct decoder *d, const struct json_value *json,
                              const struct json_value *spec, const struct field_path *up)
{
    struct outside outside = {0};
    bool bad =
        field_each_string(d, spec, up, "externalIPs", take_external_ip, outside.external_ips) ||
        load_balancer_ips(d, json, outside.load_balancer_ips) ||
        source_ranges(d, spec, up, outside.source_ranges);
    for (int family = 0; family < FAMILY_COUNT; family++) {
        addresses_normalize(&outside.external_ips[family]);
        addresses_normalize(&outside.load_balancer_ips[family]);
    }
    service_take_outside(d->out->service, &outside);
    return bad ? -1 : 0;
}

/* ---- how its traffic is to be treated ---- */

/* Whether externalTrafficPolicy means anything (docs/behaviour.md 1.2). */
static bool has_outside(const struct json_value *spec, enum service_type type)
{
    return type != TYPE_CLUSTER_IP || !json_is_empty(json_member(spec, "externalIPs"));
}

static int health_check(struct decoder *d, const struct json_value *spec,
                        const struct field_path *up, enum service_type type)
{
    struct service *service = d->out->service;
    uint16_t port;
    if (field_port(d, spec, up, "healthCheckNodePort", 0, &port))
        return -1;
    if (type != TYPE_LOAD_BALANCER || !service->external_local)
        return 0;
    if (port == 0)
        field_warn(d, &(struct field_path){up, "healthCheckNodePort", 0},
                   "missing, so no health check is answered");
    service->health_check_node_port = port;
    return 0;
}

static int session_affinity(struct decoder *d, const struct json_value *spec,
                            const struct field_path *up)
{
    struct field_path config_path = {up, "sessionAffinityConfig", 0},
                      client_path = {&config_path, "clientIP", 0};
    uint32_t timeout = AFFINITY_TIMEOUT;
    const struct json_value *config, *client;
    bool affine;
    if (field_choice(d, spec, up, "sessionAffinity", "None", "ClientIP", &affine) ||
        field_object(d, spec, up, "sessionAffinityConfig", &config) ||
        field_object(d, config, &config_path, "clientIP", &client) ||
        field_integer(d, client, &client_path, "timeoutSeconds", 1, AFFINITY_TIMEOUT_MOST,
                      &timeout))
        return -1;
    d->out->service->affinity_timeout = affine ? timeout : 0;
    return 0;
}

/* A policy that is unknown is taken for the usual one, so that the Service goes on working with a
 * daemon that is older than the policy. */
static int policies(struct decoder *d, const struct json_value *spec, const struct field_path *up,
                    enum service_type type)
{
    struct service *service = d->out->service;
    bool external_local;
    if (field_choice(d, spec, up, "externalTrafficPolicy", "Cluster", "Local", &external_local) ||
        field_choice(d, spec, up, "internalTrafficPolicy", "Cluster", "Local",
                     &service->internal_local))
        return -1;
    service->external_local = external_local && has_outside(spec, type);
    return health_check(d, spec, up, type) || session_affinity(d, spec, up) ? -1 : 0;
}

/* ---- the whole ---- */

int decode_service(struct decoder *d, const struct json_value *json)
{
    struct service *service = d->out->service = xcalloc(1, sizeof(*service));
    struct field_path path = {NULL, "spec", 0};
    const struct json_value *spec;
    enum service_type type;
    service->id = xstrdup(d->out->id);
    if (service_created(d, json) || field_object(d, json, NULL, "spec", &spec))
        return -1;
    if (!spec)
        return field_bad(d, &path, "missing");
    if (service_type(d, spec, &path, &type) || cluster_ips(d, spec, &path, type) ||
        service_ports(d, spec, &path))
        return -1;
    service->type = (uint8_t)type;
    if (!service->skipped &&
        (external_addresses(d, json, spec, &path) || policies(d, spec, &path, type)))
        return -1;
    service->warnings = field_take_warnings(d);
    return 0;
}

/* ---- ServiceCIDR ---- */

static int add_cidr(struct decoder *d, const struct json_value *entry,
                    const struct field_path *path, void *ctx)
{
    struct service_cidr *service_cidr = ctx;
    return field_cidr(d, entry, path, service_cidr->has_cidr, service_cidr->cidr);
}

int decode_service_cidr(struct decoder *d, const struct json_value *json)
{
    struct service_cidr *service_cidr = d->out->service_cidr = xcalloc(1, sizeof(*service_cidr));
    struct field_path spec_path = {NULL, "spec", 0};
    const struct json_value *spec;
    service_cidr->id = xstrdup(d->out->id);
    if (field_object(d, json, NULL, "spec", &spec) ||
        field_each_string(d, spec, &spec_path, "cidrs", add_cidr, service_cidr))
        return -1;
    if (json_is_empty(json_member(spec, "cidrs")))
        return field_bad(d, &(struct field_path){&spec_path, "cidrs", 0}, "missing");
    return 0;
}
