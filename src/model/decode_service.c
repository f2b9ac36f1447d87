/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Service: the fields of spec 1.2 that are used. */
#include "kube-nftd/model/field.h"

#include "kube-nftd/base/json.h"

#include <string.h>
#include <time.h>

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

static int check_family(struct decoder *d, const cJSON *json, const struct field_path *path)
{
    if (!cJSON_IsString(json))
        return field_bad(d, path, "not a string");
    for (int family = 0; family < FAMILY_COUNT; family++)
        if (strcmp(json->valuestring, family_name((enum family)family)) == 0)
            return 0;
    return field_bad(d, path, "\"%s\" is not IPv4 or IPv6", json->valuestring);
}

/* Each family that ipFamilies lists has the address at the same place of clusterIPs; where that
 * list is absent, the first one has clusterIP. */
static int service_cluster_ips(struct decoder *d, const cJSON *spec, const struct field_path *up,
                               const cJSON *families, const char *cluster_ip)
{
    const cJSON *addresses;
    if (field_list(d, spec, up, "clusterIPs", &addresses))
        return -1;
    bool alone = cJSON_GetArraySize(addresses) == 0;
    struct field_path families_path = {up, "ipFamilies", 0}, addresses_path = {up, "clusterIPs", 0},
                      alone_path = {up, "clusterIP", 0};
    int i = 0;
    const cJSON *family;
    cJSON_ArrayForEach (family, families) {
        struct field_path path = {&addresses_path, NULL, i};
        const cJSON *address = cJSON_GetArrayItem(addresses, i);
        if (check_family(d, family, &(struct field_path){&families_path, NULL, i}))
            return -1;
        if (address && !cJSON_IsString(address))
            return field_bad(d, &path, "not a string");
        const char *text = address ? address->valuestring : alone && i == 0 ? cluster_ip : NULL;
        if (text && service_cluster_ip(d, text, alone ? &alone_path : &path, family->valuestring))
            return -1;
        i++;
    }
    return 0;
}

static int service_addresses(struct decoder *d, const cJSON *spec, const struct field_path *up)
{
    const char *type, *cluster_ip;
    const cJSON *families;
    if (field_string(d, spec, up, "type", &type) ||
        field_string(d, spec, up, "clusterIP", &cluster_ip) ||
        field_list(d, spec, up, "ipFamilies", &families))
        return -1;
    if ((type && strcmp(type, "ExternalName") == 0) || !cluster_ip || !*cluster_ip ||
        strcmp(cluster_ip, "None") == 0) {
        d->out->service->skipped = true;
        return 0;
    }
    if (cJSON_GetArraySize(families) > 0)
        return service_cluster_ips(d, spec, up, families, cluster_ip);
    return service_cluster_ip(d, cluster_ip, &(struct field_path){up, "clusterIP", 0}, NULL);
}

static int service_add_port(struct decoder *d, const cJSON *json, const struct field_path *path)
{
    struct service *service = d->out->service;
    struct service_port port = {0};
    const char *name;
    if (!cJSON_IsObject(json))
        return field_bad(d, path, "not an object");
    if (field_string(d, json, path, "name", &name) ||
        field_protocol(d, json, path, &port.protocol) ||
        field_port(d, json, path, "port", 1, &port.port))
        return -1;
    vec_each (&service->ports, other) {
        if (other->port == port.port && other->protocol == port.protocol)
            return field_bad(d, path, "%s port %u is there twice", protocol_name(port.protocol),
                             port.port);
    }
    port.name = xstrdup(name ? name : "");
    vec_push(&service->ports, port);
    return 0;
}

static int service_ports(struct decoder *d, const cJSON *spec, const struct field_path *up)
{
    const cJSON *ports, *port;
    if (field_list(d, spec, up, "ports", &ports))
        return -1;
    struct field_path path = {up, "ports", 0};
    if (cJSON_GetArraySize(ports) == 0 && !d->out->service->skipped)
        return field_bad(d, &path, "missing");
    int i = 0;
    cJSON_ArrayForEach (port, ports) {
        if (service_add_port(d, port, &(struct field_path){&path, NULL, i++}))
            return -1;
    }
    return 0;
}

/* Opened only for type LoadBalancer with externalTrafficPolicy Local (spec 1.2). */
static int service_health_check(struct decoder *d, const cJSON *spec, const struct field_path *up)
{
    const char *type, *policy;
    uint16_t port;
    if (field_string(d, spec, up, "type", &type) ||
        field_string(d, spec, up, "externalTrafficPolicy", &policy) ||
        field_port(d, spec, up, "healthCheckNodePort", 0, &port))
        return -1;
    if (type && strcmp(type, "LoadBalancer") == 0 && policy && strcmp(policy, "Local") == 0)
        d->out->service->health_check_node_port = port;
    return 0;
}

static int service_created(struct decoder *d, const cJSON *json)
{
    struct field_path metadata_path = {NULL, "metadata", 0};
    const char *text;
    if (field_string(d, json_member(json, "metadata"), &metadata_path, "creationTimestamp", &text))
        return -1;
    d->out->service->created = INT64_MAX;
    if (!text)
        return 0;
    struct tm tm = {0};
    const char *end = strptime(text, "%Y-%m-%dT%H:%M:%S%z", &tm);
    if (!end || *end)
        return field_bad(d, &(struct field_path){&metadata_path, "creationTimestamp", 0},
                         "\"%s\" is not a time of RFC 3339 in whole seconds", text);
    long offset = tm.tm_gmtoff; /* timegm() clears it */
    d->out->service->created = timegm(&tm) - offset;
    return 0;
}

int decode_service(struct decoder *d, const cJSON *json)
{
    const cJSON *spec;
    struct field_path path = {NULL, "spec", 0};
    d->out->service = xcalloc(1, sizeof(*d->out->service));
    d->out->service->id = xstrdup(d->out->id);
    if (service_created(d, json))
        return -1;
    if (field_object(d, json, NULL, "spec", &spec))
        return -1;
    if (!spec)
        return field_bad(d, &path, "missing");
    if (service_addresses(d, spec, &path) || service_ports(d, spec, &path) ||
        service_health_check(d, spec, &path))
        return -1;
    return 0;
}
