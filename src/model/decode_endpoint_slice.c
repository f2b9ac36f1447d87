/* SPDX-License-Identifier: GPL-2.0-or-later */
/* EndpointSlice: the fields of docs/behaviour.md 1.3 that are used. */
#include "field.h"

#include "kube-nftd/base.h"
#include "kube-nftd/model.h"
#include "kube-nftd/values.h"

#include <string.h>

static int slice_service(struct decoder *d, const struct json_value *json)
{
    struct field_path metadata_path = {NULL, "metadata", 0},
                      labels_path = {&metadata_path, "labels", 0};
    const struct json_value *labels;
    const char *name;
    if (field_object(d, json_member(json, "metadata"), &metadata_path, "labels", &labels) ||
        field_string(d, labels, &labels_path, "kubernetes.io/service-name", &name))
        return -1;
    if (name && *name) {
        size_t namespace_length = (size_t)(strchr(d->out->id, '/') - d->out->id);
        d->out->slice->service_id = object_id(d->out->id, namespace_length, name);
    }
    return 0;
}

/* Of no use to rules (docs/behaviour.md 1.3): what cannot be read is no error. */
static void slice_trigger_time(struct decoder *d, const struct json_value *json)
{
    const struct json_value *annotations =
        json_member(json_member(json, "metadata"), "annotations");
    const struct json_value *time =
        json_member(annotations, "endpoints.kubernetes.io/last-change-trigger-time");
    if (json_is(time, JSON_STRING))
        clock_parse_rfc3339(time->string, &d->out->trigger_time);
}

static int slice_add_port(struct decoder *d, const struct json_value *json,
                          const struct field_path *path, void *ctx)
{
    struct endpoint_slice *slice = ctx;
    struct slice_port port = {0};
    const char *name;
    if (field_string(d, json, path, "name", &name) ||
        field_protocol(d, json, path, &port.protocol) ||
        field_port(d, json, path, "port", 0, &port.port))
        return -1;
    if (port.port == 0)
        return 0;
    port.name = intern(name ? name : "");
    vec_push(&slice->ports, port);
    return 0;
}

/* The members of an endpoint that are used, found in one walk, as those of its conditions are: of
 * endpoints there are many. */
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

static int endpoint_conditions(struct decoder *d, const struct json_value *json,
                               const struct field_path *path, uint8_t *flags)
{
    const struct json_value *conditions, *ready = NULL, *serving = NULL, *terminating = NULL;
    struct field_path up = {path, "conditions", 0};
    if (field_as_object(d, json, path, "conditions", &conditions))
        return -1;
    json_each (conditions, member) {
        if (json_has_key(member, "ready"))
            ready = member;
        else if (json_has_key(member, "serving"))
            serving = member;
        else if (json_has_key(member, "terminating"))
            terminating = member;
    }
    if (field_as_flag(d, ready, &up, "ready", true, ENDPOINT_READY, flags) ||
        field_as_flag(d, serving, &up, "serving", true, ENDPOINT_SERVING, flags) ||
        field_as_flag(d, terminating, &up, "terminating", false, ENDPOINT_TERMINATING, flags))
        return -1;
    return 0;
}

typedef VEC(const char *) name_vec;

static int take_hint(struct decoder *d, const struct json_value *entry,
                     const struct field_path *path, void *ctx)
{
    name_vec *names = ctx;
    const char *name;
    if (field_string(d, entry, path, "name", &name))
        return -1;
    if (names->n == UINT16_MAX)
        return field_bad(d, path, "more than %d hints", UINT16_MAX);
    vec_push(names, name ? name : ""); /* the empty name is that of no node and no zone */
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

static int endpoint_hints(struct decoder *d, const struct json_value *json,
                          const struct field_path *path, struct endpoint_hints **out)
{
    struct field_path up = {path, "hints", 0};
    const struct json_value *object;
    name_vec names = {0};
    *out = NULL;
    if (field_as_object(d, json, path, "hints", &object))
        return -1;
    if (!object)
        return 0;
    int result = field_each_object(d, object, &up, "forNodes", take_hint, &names);
    size_t n_nodes = names.n;
    if (result == 0)
        result = field_each_object(d, object, &up, "forZones", take_hint, &names);
    if (result == 0)
        *out = hints_of(&names, n_nodes);
    vec_free(&names);
    return result;
}

/* Only the first address is used (docs/behaviour.md 1.3). @found is false if there is none of the
 * slice's own family. */
static int endpoint_address(struct decoder *d, const struct json_value *json,
                            const struct field_path *path, struct address *out, bool *found)
{
    struct field_path up = {path, "addresses", 0}, first = {&up, NULL, 0};
    const struct json_value *addresses;
    enum family family;
    *found = false;
    if (field_as_list(d, json, path, "addresses", &addresses))
        return -1;
    if (json_is_empty(addresses))
        return 0;
    const struct json_value *address = addresses + 1;
    if (!json_is(address, JSON_STRING))
        return field_is_not(d, address, &first, "a string");
    if (!address_parse(address->string, &family, out))
        return field_bad(d, &first, "\"%s\" is not an IP address", address->string);
    *found = family == d->out->slice->family;
    return 0;
}

static int slice_add_endpoint(struct decoder *d, const struct json_value *json,
                              const struct field_path *path, void *ctx)
{
    struct endpoint_slice *slice = ctx;
    struct slice_endpoint endpoint = {0};
    struct endpoint_members members = endpoint_members(json);
    const char *node_name, *zone;
    bool has_address;
    if (field_as_string(d, members.node_name, path, "nodeName", &node_name) ||
        field_as_string(d, members.zone, path, "zone", &zone) ||
        endpoint_conditions(d, members.conditions, path, &endpoint.flags) ||
        endpoint_address(d, members.addresses, path, &endpoint.address, &has_address))
        return -1;
    if (!has_address)
        return 0;
    if (endpoint_hints(d, members.hints, path, &endpoint.hints))
        return -1;
    endpoint.node_name = intern(node_name);
    endpoint.zone = zone_number(zone);
    vec_push(&slice->endpoints, endpoint);
    return 0;
}

static int slice_address_type(struct decoder *d, const struct json_value *json)
{
    const char *type;
    if (field_string(d, json, NULL, "addressType", &type))
        return -1;
    if (!type)
        return field_bad(d, &(struct field_path){NULL, "addressType", 0}, "missing");
    for (int family = 0; family < FAMILY_COUNT; family++) {
        if (strcmp(type, family_name((enum family)family)) == 0) {
            d->out->slice->has_family = true;
            d->out->slice->family = (enum family)family;
        }
    }
    return 0;
}

int decode_endpoint_slice(struct decoder *d, const struct json_value *json)
{
    struct endpoint_slice *slice = d->out->slice = xcalloc(1, sizeof(*slice));
    slice->id = xstrdup(d->out->id);
    slice_trigger_time(d, json);
    vec_make_room(&slice->ports, json_count(json_member(json, "ports")));
    if (slice_service(d, json) || slice_address_type(d, json) ||
        field_each_object(d, json, NULL, "ports", slice_add_port, slice))
        return -1;
    endpoint_slice_sort_ports(slice);
    vec_trim(&slice->ports);
    if (!slice->has_family)
        return 0;
    vec_make_room(&slice->endpoints, json_count(json_member(json, "endpoints")));
    if (field_each_object(d, json, NULL, "endpoints", slice_add_endpoint, slice))
        return -1;
    vec_trim(&slice->endpoints);
    return 0;
}
