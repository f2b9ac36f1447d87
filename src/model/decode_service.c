/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Service: the fields of docs/behaviour.md 1.2 that are used. */
#include "service_fields.h"

#include "kube-nftd/base/intern.h"
#include "kube-nftd/base/json.h"

#include <stdlib.h>
#include <string.h>

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
    if (service_type(d, spec, &path, &type) || decode_cluster_ips(d, spec, type) ||
        service_ports(d, spec, &path))
        return -1;
    service->type = (uint8_t)type;
    if (!service->skipped &&
        (decode_external_addresses(d, json, spec) || decode_service_policies(d, spec, type)))
        return -1;
    service->warnings = field_take_warnings(d);
    return 0;
}
