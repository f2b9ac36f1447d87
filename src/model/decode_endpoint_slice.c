/* SPDX-License-Identifier: GPL-2.0-or-later */
/* EndpointSlice: the fields used (docs/behaviour.md 1.3), and the order of its ports. */
#include "decode.h"

#include <stdlib.h>
#include <string.h>

static int slice_service(struct decoder *d, const struct field *json)
{
    struct field metadata, labels;
    const char *name;
    if (field_object(d, json, "metadata", &metadata) ||
        field_object(d, &metadata, "labels", &labels) ||
        field_string(d, &labels, "kubernetes.io/service-name", &name))
        return -1;
    if (name && *name) {
        size_t namespace_length = (size_t)(strchr(d->out->id, '/') - d->out->id);
        d->out->slice->service_id = object_id(d->out->id, namespace_length, name);
    }
    return 0;
}

/* Rules do not depend on it, so an invalid time is ignored (docs/behaviour.md 1.3). */
static void slice_trigger_time(struct decoder *d, const struct field *json)
{
    const struct json_value *annotations =
        json_member(json_member(json->value, "metadata"), "annotations");
    const struct json_value *time =
        json_member(annotations, "endpoints.kubernetes.io/last-change-trigger-time");
    int64_t seconds;
    double fraction;
    if (json_is(time, JSON_STRING) && clock_parse(time->string, &seconds, &fraction))
        d->out->trigger_time = (double)seconds + fraction;
}

static int slice_add_port(struct decoder *d, const struct field *entry, void *ctx)
{
    struct endpoint_slice *slice = ctx;
    struct slice_port port = {0};
    const char *name;
    if (field_string(d, entry, "name", &name) || field_protocol(d, entry, &port.protocol) ||
        field_port(d, entry, "port", 0, &port.port))
        return -1;
    if (port.port == 0)
        return 0;
    port.name = intern(name ? name : "");
    vec_push(&slice->ports, port);
    return 0;
}

/* The used members of an endpoint, found in one walk, as those of its conditions are: endpoints are
 * numerous. */
struct endpoint_members {
    const struct json_value *addresses, *conditions, *hints, *node_name, *zone; /* NULL: absent */
};

static struct endpoint_members endpoint_members(const struct json_value *json)
{
    struct endpoint_members members = {0};
    json_each (json, member) {
        if (json_has_key(member, "addresses"))
            members.addresses = member;
        else if (json_has_key(member, "conditions"))
            members.conditions = member;
        else if (json_has_key(member, "nodeName"))
            members.node_name = member;
        else if (json_has_key(member, "zone"))
            members.zone = member;
        else if (json_has_key(member, "hints"))
            members.hints = member;
    }
    return members;
}

static int endpoint_conditions(struct decoder *d, const struct field *endpoint,
                               const struct json_value *value, uint8_t *flags)
{
    const struct json_value *ready = NULL, *serving = NULL, *terminating = NULL;
    struct field conditions;
    if (field_as(d, endpoint, "conditions", value, JSON_OBJECT, &conditions))
        return -1;
    json_each (conditions.value, member) {
        if (json_has_key(member, "ready"))
            ready = member;
        else if (json_has_key(member, "serving"))
            serving = member;
        else if (json_has_key(member, "terminating"))
            terminating = member;
    }
    if (field_as_flag(d, &conditions, "ready", ready, true, ENDPOINT_READY, flags) ||
        field_as_flag(d, &conditions, "serving", serving, true, ENDPOINT_SERVING, flags) ||
        field_as_flag(d, &conditions, "terminating", terminating, false, ENDPOINT_TERMINATING,
                      flags))
        return -1;
    return 0;
}

typedef VEC(const char *) name_vec;

static int take_hint(struct decoder *d, const struct field *entry, void *ctx)
{
    name_vec *names = ctx;
    const char *name;
    if (field_string(d, entry, "name", &name))
        return -1;
    if (names->n == UINT16_MAX)
        return field_bad(d, entry, "more than %d hints", UINT16_MAX);
    vec_push(names, name ? name : ""); /* "" matches no node and no zone */
    return 0;
}

static struct endpoint_hints *hints_of(const name_vec *names, size_t n_nodes)
{
    struct endpoint_hints *hints;
    if (names->n == 0)
        return NULL;
    hints = xcalloc(1, sizeof(*hints) + names->n * sizeof(*hints->names));
    hints->n_nodes = (uint16_t)n_nodes;
    hints->n_zones = (uint16_t)(names->n - n_nodes);
    for (size_t i = 0; i < names->n; i++)
        hints->names[i] = intern(names->v[i]);
    return hints;
}

static int endpoint_hints(struct decoder *d, const struct field *endpoint,
                          const struct json_value *value, struct endpoint_hints **out)
{
    struct field hints;
    name_vec names = {0};
    *out = NULL;
    if (field_as(d, endpoint, "hints", value, JSON_OBJECT, &hints))
        return -1;
    if (!hints.value)
        return 0;
    int result = field_each(d, &hints, "forNodes", JSON_OBJECT, take_hint, &names);
    size_t n_nodes = names.n;
    if (result == 0)
        result = field_each(d, &hints, "forZones", JSON_OBJECT, take_hint, &names);
    if (result == 0)
        *out = hints_of(&names, n_nodes);
    vec_free(&names);
    return result;
}

/* Only the first address is used (docs/behaviour.md 1.3). @found: it is of the slice's family. */
static int endpoint_address(struct decoder *d, const struct field *endpoint,
                            const struct json_value *value, struct address *out, bool *found)
{
    struct field addresses;
    enum family family;
    *found = false;
    if (field_as(d, endpoint, "addresses", value, JSON_ARRAY, &addresses))
        return -1;
    if (json_is_empty(addresses.value))
        return 0;
    const struct field first = {&addresses, NULL, 0, addresses.value + 1};
    const char *text = json_string(first.value);
    if (!text)
        return field_is_not(d, &first, "a string");
    if (!address_parse(text, &family, out))
        return field_bad(d, &first, "\"%s\" is not an IP address", text);
    *found = family == d->out->slice->family;
    return 0;
}

static int slice_add_endpoint(struct decoder *d, const struct field *entry, void *ctx)
{
    struct endpoint_slice *slice = ctx;
    struct slice_endpoint endpoint = {0};
    struct endpoint_members members = endpoint_members(entry->value);
    const char *node_name, *zone;
    bool has_address;
    if (field_as_string(d, entry, "nodeName", members.node_name, &node_name) ||
        field_as_string(d, entry, "zone", members.zone, &zone) ||
        endpoint_conditions(d, entry, members.conditions, &endpoint.flags) ||
        endpoint_address(d, entry, members.addresses, &endpoint.address, &has_address))
        return -1;
    if (!has_address)
        return 0;
    if (endpoint_hints(d, entry, members.hints, &endpoint.hints))
        return -1;
    endpoint.node_name = intern(node_name);
    endpoint.zone = zone_number(zone);
    vec_push(&slice->endpoints, endpoint);
    return 0;
}

static int slice_address_type(struct decoder *d, const struct field *json)
{
    const char *type;
    if (field_string(d, json, "addressType", &type))
        return -1;
    if (!type)
        return field_bad(d, FIELD(json, "addressType"), "missing");
    for (int family = 0; family < FAMILY_COUNT; family++) {
        if (strcmp(type, family_name((enum family)family)) == 0) {
            d->out->slice->has_family = true;
            d->out->slice->family = (enum family)family;
        }
    }
    return 0;
}

int decode_endpoint_slice(struct decoder *d, const struct field *json)
{
    struct endpoint_slice *slice = d->out->slice = xcalloc(1, sizeof(*slice));
    slice->id = xstrdup(d->out->id);
    slice_trigger_time(d, json);
    vec_make_room(&slice->ports, json_count(json_member(json->value, "ports")));
    if (slice_service(d, json) || slice_address_type(d, json) ||
        field_each(d, json, "ports", JSON_OBJECT, slice_add_port, slice))
        return -1;
    endpoint_slice_sort_ports(slice);
    vec_trim(&slice->ports);
    if (!slice->has_family)
        return 0;
    vec_make_room(&slice->endpoints, json_count(json_member(json->value, "endpoints")));
    if (field_each(d, json, "endpoints", JSON_OBJECT, slice_add_endpoint, slice))
        return -1;
    vec_trim(&slice->endpoints);
    return 0;
}

/* ---- the order of ports ----
 *
 * A slice may contain tens of thousands of ports in any order. */

int slice_port_compare_keys(const struct slice_port *a, const struct slice_port *b)
{
    if (a->protocol != b->protocol)
        return (int)a->protocol - (int)b->protocol;
    return a->name == b->name ? 0 : strcmp(a->name, b->name);
}

static int compare(const void *a, const void *b)
{
    const struct slice_port *p = a, *q = b;
    int order = slice_port_compare_keys(p, q);
    return order ? order : (int)p->port - (int)q->port;
}

static bool is_sorted(const struct endpoint_slice *slice)
{
    for (size_t i = 1; i < slice->ports.n; i++)
        if (compare(&slice->ports.v[i - 1], &slice->ports.v[i]) >= 0)
            return false;
    return true;
}

void endpoint_slice_sort_ports(struct endpoint_slice *slice)
{
    size_t kept = 1;
    if (is_sorted(slice))
        return;
    qsort(slice->ports.v, slice->ports.n, sizeof(*slice->ports.v), compare);
    for (size_t i = 1; i < slice->ports.n; i++) {
        if (compare(&slice->ports.v[kept - 1], &slice->ports.v[i]) == 0)
            intern_release(slice->ports.v[i].name);
        else
            slice->ports.v[kept++] = slice->ports.v[i];
    }
    slice->ports.n = kept;
}

/* The index of @port, or where to insert it. */
static size_t place_of(const struct endpoint_slice *slice, const struct slice_port *port)
{
    size_t low = 0, high = slice->ports.n;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (compare(&slice->ports.v[middle], port) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

bool endpoint_slice_has_port(const struct endpoint_slice *slice, const struct slice_port *port)
{
    size_t place = place_of(slice, port);
    return place < slice->ports.n && compare(&slice->ports.v[place], port) == 0;
}

struct slice_ports endpoint_slice_ports(const struct endpoint_slice *slice, const char *name,
                                        uint8_t protocol)
{
    const struct slice_port key = {name, protocol, 0};
    size_t place = place_of(slice, &key);
    if (place == slice->ports.n || slice_port_compare_keys(&slice->ports.v[place], &key) != 0)
        return (struct slice_ports){0};
    struct slice_ports rest = {&slice->ports.v[place], slice->ports.n - place};
    return slice_ports_take(&rest);
}

struct slice_ports slice_ports_take(struct slice_ports *rest)
{
    struct slice_ports first = {rest->v, 1};
    while (first.n < rest->n && slice_port_compare_keys(&first.v[first.n], first.v) == 0)
        first.n++;
    rest->v += first.n;
    rest->n -= first.n;
    return first;
}
