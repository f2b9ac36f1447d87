/* SPDX-License-Identifier: GPL-2.0-or-later */
/* EndpointSlice: the fields used (docs/behaviour.md 1.3), and the order of its ports. */
#include "decode.h"

#include <stdlib.h>
#include <string.h>

static int slice_service(struct decoder *d)
{
    const struct json_value *labels;
    const char *name;
    if (field_object(d, json_find(d->metadata, "labels"), &labels) ||
        field_string(d, json_find(labels, "kubernetes.io/service-name"), &name))
        return -1;
    if (name && *name) {
        size_t namespace_length = (size_t)(strchr(d->out->id, '/') - d->out->id);
        d->out->slice->service_id = object_id(d->out->id, namespace_length, name);
    }
    return 0;
}

/* Rules do not depend on it, so an invalid time is ignored (docs/behaviour.md 1.3). */
static void slice_trigger_time(struct decoder *d)
{
    const struct json_value *time = json_member(json_member(d->metadata, "annotations"),
                                                "endpoints.kubernetes.io/last-change-trigger-time");
    int64_t seconds;
    double fraction;
    if (json_is(time, JSON_STRING) && clock_parse(time->string, &seconds, &fraction))
        d->out->trigger_time = (double)seconds + fraction;
}

static int slice_add_port(struct decoder *d, const struct json_value *entry, void *ctx)
{
    struct endpoint_slice *slice = ctx;
    struct slice_port port = {0};
    const char *name;
    if (field_string(d, json_find(entry, "name"), &name) ||
        field_protocol(d, json_find(entry, "protocol"), &port.protocol) ||
        field_port(d, entry, "port", 0, &port.port))
        return -1;
    if (port.port == 0)
        return 0;
    port.name = intern(name ? name : "");
    vec_push(&slice->ports, port);
    return 0;
}

static int endpoint_conditions(struct decoder *d, const struct json_value *value, uint8_t *flags)
{
    const struct json_value *conditions, *ready = NULL, *serving = NULL, *terminating = NULL;
    if (field_object(d, value, &conditions))
        return -1;
    json_each (conditions, member) {
        if (json_has_key(member, "ready"))
            ready = member;
        else if (json_has_key(member, "serving"))
            serving = member;
        else if (json_has_key(member, "terminating"))
            terminating = member;
    }
    if (field_flag(d, ready, true, ENDPOINT_READY, flags) ||
        field_flag(d, serving, true, ENDPOINT_SERVING, flags) ||
        field_flag(d, terminating, false, ENDPOINT_TERMINATING, flags))
        return -1;
    return 0;
}

typedef VEC(const char *) name_vec;

static int take_hint(struct decoder *d, const struct json_value *entry, void *ctx)
{
    name_vec *names = ctx;
    const char *name;
    if (field_string(d, json_find(entry, "name"), &name))
        return -1;
    if (names->n == UINT16_MAX)
        return field_bad(d, entry, NULL, "more than %d hints", UINT16_MAX);
    vec_push(names, name ? name : ""); /* "" matches no node and no zone */
    return 0;
}

static int endpoint_hints(struct decoder *d, const struct json_value *value,
                          struct endpoint_hints **out)
{
    const struct json_value *hints;
    name_vec names = {0};
    if (field_object(d, value, &hints))
        return -1;
    if (!hints)
        return 0;
    int result = field_each(d, json_find(hints, "forNodes"), JSON_OBJECT, take_hint, &names);
    size_t n_nodes = names.n;
    if (result == 0)
        result = field_each(d, json_find(hints, "forZones"), JSON_OBJECT, take_hint, &names);
    if (result == 0 && names.n > 0) {
        *out = xcalloc(1, sizeof(**out) + names.n * sizeof(*(*out)->names));
        (*out)->n_nodes = (uint16_t)n_nodes;
        (*out)->n_zones = (uint16_t)(names.n - n_nodes);
        for (size_t i = 0; i < names.n; i++)
            (*out)->names[i] = intern(names.v[i]);
    }
    vec_free(&names);
    return result;
}

/* Only the first address is used (docs/behaviour.md 1.3). @found: it is of the slice's family. */
static int endpoint_address(struct decoder *d, const struct json_value *value, struct address *out,
                            bool *found)
{
    enum family family;
    *found = false;
    if (field_container(d, value, JSON_ARRAY, &value))
        return -1;
    if (json_is_empty(value))
        return 0;
    const char *text = json_string(value + 1);
    if (!text)
        return field_is_not(d, value + 1, "a string");
    if (!address_parse(text, &family, out))
        return field_bad(d, value + 1, NULL, "\"%s\" is not an IP address", text);
    *found = family == d->out->slice->family;
    return 0;
}

/* Finds the members in one walk, as endpoint_conditions() does: endpoints are numerous. */
static int slice_add_endpoint(struct decoder *d, const struct json_value *entry, void *ctx)
{
    struct endpoint_slice *slice = ctx;
    struct slice_endpoint endpoint = {0};
    const struct json_value *addresses = NULL, *conditions = NULL, *hints = NULL, *node = NULL,
                            *zone = NULL;
    const char *node_name, *zone_name;
    bool has_address;
    json_each (entry, member) {
        if (json_has_key(member, "addresses"))
            addresses = member;
        else if (json_has_key(member, "conditions"))
            conditions = member;
        else if (json_has_key(member, "nodeName"))
            node = member;
        else if (json_has_key(member, "zone"))
            zone = member;
        else if (json_has_key(member, "hints"))
            hints = member;
    }
    if (field_string(d, node, &node_name) || field_string(d, zone, &zone_name) ||
        endpoint_conditions(d, conditions, &endpoint.flags) ||
        endpoint_address(d, addresses, &endpoint.address, &has_address))
        return -1;
    if (!has_address)
        return 0;
    if (endpoint_hints(d, hints, &endpoint.hints))
        return -1;
    endpoint.node_name = intern(node_name);
    endpoint.zone = zone_number(zone_name);
    vec_push(&slice->endpoints, endpoint);
    return 0;
}

static int slice_address_type(struct decoder *d)
{
    const char *type;
    if (field_string(d, json_find(d->json, "addressType"), &type))
        return -1;
    if (!type)
        return field_bad(d, NULL, "addressType", "missing");
    for (int family = 0; family < FAMILY_COUNT; family++) {
        if (strcmp(type, family_name((enum family)family)) == 0) {
            d->out->slice->has_family = true;
            d->out->slice->family = (enum family)family;
        }
    }
    return 0;
}

int decode_endpoint_slice(struct decoder *d)
{
    struct endpoint_slice *slice = d->out->slice = xcalloc(1, sizeof(*slice));
    const struct json_value *ports = json_find(d->json, "ports"),
                            *endpoints = json_find(d->json, "endpoints");
    slice_trigger_time(d);
    vec_make_room(&slice->ports, json_count(ports));
    if (slice_service(d) || slice_address_type(d) ||
        field_each(d, ports, JSON_OBJECT, slice_add_port, slice))
        return -1;
    endpoint_slice_sort_ports(slice);
    vec_trim(&slice->ports);
    if (!slice->has_family)
        return 0;
    vec_make_room(&slice->endpoints, json_count(endpoints));
    if (field_each(d, endpoints, JSON_OBJECT, slice_add_endpoint, slice))
        return -1;
    vec_trim(&slice->endpoints);
    return 0;
}

/* ---- the order of ports ----
 *
 * A slice may contain tens of thousands of ports in any order. */

static int compare_keys(const struct slice_port *a, const struct slice_port *b)
{
    if (a->protocol != b->protocol)
        return (int)a->protocol - (int)b->protocol;
    return a->name == b->name ? 0 : strcmp(a->name, b->name);
}

static int compare_slice_ports(const void *a, const void *b)
{
    const struct slice_port *p = a, *q = b;
    int order = compare_keys(p, q);
    return order ? order : (int)p->port - (int)q->port;
}

static bool is_sorted(const struct endpoint_slice *slice)
{
    for (size_t i = 1; i < slice->ports.n; i++)
        if (compare_slice_ports(&slice->ports.v[i - 1], &slice->ports.v[i]) >= 0)
            return false;
    return true;
}

void endpoint_slice_sort_ports(struct endpoint_slice *slice)
{
    size_t kept = 1;
    if (is_sorted(slice))
        return;
    vec_sort(&slice->ports, compare_slice_ports);
    for (size_t i = 1; i < slice->ports.n; i++) {
        if (compare_slice_ports(&slice->ports.v[kept - 1], &slice->ports.v[i]) == 0)
            intern_release(slice->ports.v[i].name);
        else
            slice->ports.v[kept++] = slice->ports.v[i];
    }
    slice->ports.n = kept;
}

/* The index of @port, or where to insert it. */
static size_t place_of_port(const struct endpoint_slice *slice, const struct slice_port *port)
{
    size_t low = 0, high = slice->ports.n;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (compare_slice_ports(&slice->ports.v[middle], port) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

struct slice_ports endpoint_slice_ports(const struct endpoint_slice *slice, const char *name,
                                        uint8_t protocol)
{
    const struct slice_port key = {name, protocol, 0};
    size_t first = place_of_port(slice, &key), n = 0;
    while (first + n < slice->ports.n && compare_keys(&slice->ports.v[first + n], &key) == 0)
        n++;
    return n ? (struct slice_ports){&slice->ports.v[first], n} : (struct slice_ports){0};
}
