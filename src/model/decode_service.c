/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Service and ServiceCIDR: the fields used (docs/behaviour.md 1.2 and 1.5). */
#include "decode.h"

#include <stdlib.h>
#include <string.h>

/* kube-proxy's default; the API server always sets one. */
#define AFFINITY_TIMEOUT 10800
#define AFFINITY_TIMEOUT_MOST 86400

static int service_type(struct decoder *d, const struct field *spec, enum service_type *out)
{
    const char *text;
    *out = TYPE_CLUSTER_IP;
    if (field_string(d, spec, "type", &text))
        return -1;
    for (int type = 0; text && type <= TYPE_EXTERNAL_NAME; type++) {
        if (strcmp(service_type_name((enum service_type)type), text) == 0) {
            *out = (enum service_type)type;
            return 0;
        }
    }
    if (text)
        field_warn(d, FIELD(spec, "type"), "\"%s\" is unknown, taken for ClusterIP", text);
    return 0;
}

/* ---- cluster IPs ---- */

static int service_cluster_ip(struct decoder *d, const char *text, const struct field *field,
                              const char *listed_family)
{
    struct service *service = d->out->service;
    enum family family;
    struct address address;
    if (!address_parse(text, &family, &address))
        return field_bad(d, field, "\"%s\" is not an IP address", text);
    /* An address of another family than its ipFamilies entry is skipped, never an error. */
    if (listed_family && strcmp(listed_family, family_name(family)) != 0)
        return 0;
    service->has_cluster_ip[family] = true;
    service->cluster_ip[family] = address;
    return 0;
}

static int check_family(struct decoder *d, const struct field *field)
{
    const struct json_value *value = field->value;
    if (!json_is(value, JSON_STRING))
        return field_is_not(d, field, "a string");
    for (int family = 0; family < FAMILY_COUNT; family++)
        if (strcmp(value->string, family_name((enum family)family)) == 0)
            return 0;
    return field_bad(d, field, "\"%s\" is not IPv4 or IPv6", value->string);
}

/* Each family in ipFamilies has the address at its index in clusterIPs; if that list is absent, the
 * first family has clusterIP. */
static int listed_cluster_ips(struct decoder *d, const struct field *spec,
                              const struct field *families, const char *cluster_ip)
{
    struct field addresses;
    if (field_list(d, spec, "clusterIPs", &addresses))
        return -1;
    bool alone = json_is_empty(addresses.value);
    int i = 0;
    const struct json_value *next = alone ? NULL : addresses.value + 1;
    const struct json_value *end = alone ? NULL : addresses.value + addresses.value->size;
    json_each (families->value, family) {
        struct field address = {&addresses, NULL, i, next < end ? next : NULL};
        if (check_family(d, &(struct field){families, NULL, i, family}))
            return -1;
        if (address.value && !json_is(address.value, JSON_STRING))
            return field_is_not(d, &address, "a string");
        const char *text = alone && i == 0 ? cluster_ip : json_string(address.value);
        if (text && service_cluster_ip(d, text, alone ? FIELD(spec, "clusterIP") : &address,
                                       family->string))
            return -1;
        next = address.value ? next + next->size : end;
        i++;
    }
    return 0;
}

/* Decodes the cluster IPs, or marks the Service as skipped. */
static int cluster_ips(struct decoder *d, const struct field *spec, enum service_type type)
{
    const char *cluster_ip;
    struct field families;
    if (field_string(d, spec, "clusterIP", &cluster_ip) ||
        field_list(d, spec, "ipFamilies", &families))
        return -1;
    if (type == TYPE_EXTERNAL_NAME || !cluster_ip || !*cluster_ip ||
        strcmp(cluster_ip, "None") == 0) {
        d->out->service->skipped = true;
        return 0;
    }
    if (!json_is_empty(families.value))
        return listed_cluster_ips(d, spec, &families, cluster_ip);
    return service_cluster_ip(d, cluster_ip, FIELD(spec, "clusterIP"), NULL);
}

/* ---- ports ---- */

static int add_port(struct decoder *d, const struct field *entry, void *ctx)
{
    struct service *service = ctx;
    struct service_port port = {0};
    const char *name;
    if (field_string(d, entry, "name", &name) || field_protocol(d, entry, &port.protocol) ||
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

static int check_numbers(struct decoder *d, const struct field *spec)
{
    const struct service *service = d->out->service;
    uint64_t doubled = service->ports.n > 1 ? find_doubled(service) : 0;
    if (!doubled)
        return 0;
    bool node = doubled >> 48 & 1;
    return field_bad(d, &(struct field){FIELD(spec, "ports"), NULL, (int)(uint32_t)doubled, NULL},
                     "%s %s %u is a duplicate", protocol_name((uint8_t)(doubled >> 49)),
                     node ? "node port" : "port", (unsigned)(doubled >> 32 & UINT16_MAX));
}

static int service_ports(struct decoder *d, const struct field *spec)
{
    struct service *service = d->out->service;
    vec_make_room(&service->ports, json_count(json_member(spec->value, "ports")));
    if (field_each(d, spec, "ports", JSON_OBJECT, add_port, service) || check_numbers(d, spec))
        return -1;
    vec_trim(&service->ports);
    if (service->ports.n == 0 && !service->skipped)
        return field_bad(d, FIELD(spec, "ports"), "missing");
    return 0;
}

/* ---- external addresses and allowed sources ---- */

/* Adds address @text to the list of its family. Users and other programs write it, so an invalid
 * address costs only itself. */
static void add_address(struct decoder *d, const char *text, const struct field *field,
                        address_vec lists[FAMILY_COUNT])
{
    enum family family;
    struct address address;
    if (!*text)
        return;
    if (!address_parse(text, &family, &address))
        field_warn(d, field, "\"%s\" is not an IP address", text);
    else if (d->out->service->has_cluster_ip[family])
        vec_push(&lists[family], address);
}

/* API servers reject special addresses; one that slips through would capture the host's own
 * traffic. */
static int take_external_ip(struct decoder *d, const struct field *entry, void *ctx)
{
    const char *text = entry->value->string;
    enum family family;
    struct address address;
    const char *special =
        address_parse(text, &family, &address) ? address_special(family, &address) : NULL;
    if (special)
        field_warn(d, entry, "\"%s\" is %s", text, special);
    else
        add_address(d, text, entry, ctx);
    return 0;
}

/* In modes other than VIP, the balancer delivers to the nodes itself (docs/behaviour.md 1.2). */
static int take_ingress(struct decoder *d, const struct field *entry, void *ctx)
{
    const char *ip, *mode;
    if (field_string(d, entry, "ip", &ip) || field_string(d, entry, "ipMode", &mode))
        return -1;
    if (ip && (!mode || strcmp(mode, "VIP") == 0))
        add_address(d, ip, FIELD(entry, "ip"), ctx);
    return 0;
}

static int load_balancer_ips(struct decoder *d, const struct field *json,
                             address_vec lists[FAMILY_COUNT])
{
    struct field status, balancer;
    if (field_object(d, json, "status", &status) ||
        field_object(d, &status, "loadBalancer", &balancer) ||
        field_each(d, &balancer, "ingress", JSON_OBJECT, take_ingress, lists))
        return -1;
    return 0;
}

/* @text trimmed, for the caller to free. */
static char *trimmed(const char *text)
{
    static const char blanks[] = " \t\r\n\v\f";
    text += strspn(text, blanks);
    size_t length = strlen(text);
    while (length > 0 && strchr(blanks, text[length - 1]))
        length--;
    return xstrndup(text, length);
}

/* A range of /0 allows every source of its family, which makes its other ranges moot. */
struct source_search {
    range_vec *ranges;
    bool everybody[FAMILY_COUNT];
};

static int take_source_range(struct decoder *d, const struct field *entry, void *ctx)
{
    struct source_search *search = ctx;
    enum family family;
    struct cidr cidr;
    char *text = trimmed(entry->value->string);
    if (!cidr_parse(text, &family, &cidr)) {
        if (*text)
            field_warn(d, entry, "\"%s\" is not a CIDR", text);
    } else if (cidr.length == 0) {
        search->everybody[family] = true;
    } else {
        vec_push(&search->ranges[family], cidr_range(family, &cidr));
    }
    free(text);
    return 0;
}

static int source_ranges(struct decoder *d, const struct field *spec, range_vec lists[FAMILY_COUNT])
{
    struct source_search search = {.ranges = lists};
    if (field_each(d, spec, "loadBalancerSourceRanges", JSON_STRING, take_source_range, &search))
        return -1;
    for (int family = 0; family < FAMILY_COUNT; family++) {
        if (search.everybody[family])
            vec_free(&search.ranges[family]);
        ranges_normalize((enum family)family, &search.ranges[family]);
    }
    return 0;
}

/* Must follow the cluster IPs: only their families are used. */
static int external_addresses(struct decoder *d, const struct field *json, const struct field *spec)
{
    struct outside outside = {0};
    bool bad =
        field_each(d, spec, "externalIPs", JSON_STRING, take_external_ip, outside.external_ips) ||
        load_balancer_ips(d, json, outside.load_balancer_ips) ||
        source_ranges(d, spec, outside.source_ranges);
    for (int family = 0; family < FAMILY_COUNT; family++) {
        addresses_normalize(&outside.external_ips[family]);
        addresses_normalize(&outside.load_balancer_ips[family]);
    }
    service_take_outside(d->out->service, &outside);
    return bad ? -1 : 0;
}

/* ---- traffic policies and affinity ---- */

static int health_check(struct decoder *d, const struct field *spec, enum service_type type)
{
    struct service *service = d->out->service;
    uint16_t port;
    if (field_port(d, spec, "healthCheckNodePort", 0, &port))
        return -1;
    if (type != TYPE_LOAD_BALANCER || !service->external_local)
        return 0;
    if (port == 0)
        field_warn(d, FIELD(spec, "healthCheckNodePort"),
                   "missing, so no health check is answered");
    service->health_check_node_port = port;
    return 0;
}

static int session_affinity(struct decoder *d, const struct field *spec)
{
    uint32_t timeout = AFFINITY_TIMEOUT;
    struct field config, client;
    bool affine;
    if (field_choice(d, spec, "sessionAffinity", "None", "ClientIP", &affine) ||
        field_object(d, spec, "sessionAffinityConfig", &config) ||
        field_object(d, &config, "clientIP", &client) ||
        field_integer(d, &client, "timeoutSeconds", 1, AFFINITY_TIMEOUT_MOST, &timeout))
        return -1;
    d->out->service->affinity_timeout = affine ? timeout : 0;
    return 0;
}

/* Unknown policies count as the default, so that Services keep working with a daemon older than the
 * policy. externalTrafficPolicy applies only with external addresses (docs/behaviour.md 1.2). */
static int policies(struct decoder *d, const struct field *spec, enum service_type type)
{
    struct service *service = d->out->service;
    bool external_local;
    if (field_choice(d, spec, "externalTrafficPolicy", "Cluster", "Local", &external_local) ||
        field_choice(d, spec, "internalTrafficPolicy", "Cluster", "Local",
                     &service->internal_local))
        return -1;
    service->external_local =
        external_local &&
        (type != TYPE_CLUSTER_IP || !json_is_empty(json_member(spec->value, "externalIPs")));
    return health_check(d, spec, type) || session_affinity(d, spec) ? -1 : 0;
}

/* ---- Service ---- */

int decode_service(struct decoder *d, const struct field *json)
{
    struct service *service = d->out->service = xcalloc(1, sizeof(*service));
    struct field metadata, spec;
    enum service_type type;
    service->id = xstrdup(d->out->id);
    service->created = INT64_MAX;
    if (field_object(d, json, "metadata", &metadata) ||
        field_time(d, &metadata, "creationTimestamp", &service->created) ||
        field_object(d, json, "spec", &spec))
        return -1;
    if (!spec.value)
        return field_bad(d, &spec, "missing");
    if (service_type(d, &spec, &type) || cluster_ips(d, &spec, type) || service_ports(d, &spec))
        return -1;
    service->type = (uint8_t)type;
    if (!service->skipped && (external_addresses(d, json, &spec) || policies(d, &spec, type)))
        return -1;
    service->warnings = field_take_warnings(d);
    return 0;
}

/* ---- ServiceCIDR ---- */

static int add_cidr(struct decoder *d, const struct field *entry, void *ctx)
{
    struct service_cidr *service_cidr = ctx;
    return field_cidr(d, entry, service_cidr->has_cidr, service_cidr->cidr);
}

int decode_service_cidr(struct decoder *d, const struct field *json)
{
    struct service_cidr *service_cidr = d->out->service_cidr = xcalloc(1, sizeof(*service_cidr));
    struct field spec;
    service_cidr->id = xstrdup(d->out->id);
    if (field_object(d, json, "spec", &spec) ||
        field_each(d, &spec, "cidrs", JSON_STRING, add_cidr, service_cidr))
        return -1;
    if (json_is_empty(json_member(spec.value, "cidrs")))
        return field_bad(d, FIELD(&spec, "cidrs"), "missing");
    return 0;
}
