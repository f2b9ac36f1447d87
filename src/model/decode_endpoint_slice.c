/* SPDX-License-Identifier: GPL-2.0-or-later */
/* EndpointSlice: the fields of spec 1.3 that are used. */
#include "kube-nftd/model/field.h"

#include "kube-nftd/base/intern.h"
#include "kube-nftd/base/json.h"

#include <string.h>

static int slice_service(struct decoder *d, const cJSON *json)
{
    struct field_path metadata_path = {NULL, "metadata", 0},
                      labels_path = {&metadata_path, "labels", 0};
    const cJSON *labels;
    const char *name;
    if (field_object(d, json_member(json, "metadata"), &metadata_path, "labels", &labels) ||
        field_string(d, labels, &labels_path, "kubernetes.io/service-name", &name))
        return -1;
    if (name && *name) {
        size_t namespace_length = (size_t)(strchr(d->out->id, '/') - d->out->id);
        d->out->slice->service_id = xasprintf("%.*s/%s", (int)namespace_length, d->out->id, name);
    }
    return 0;
}

static int slice_add_port(struct decoder *d, const cJSON *json, const struct field_path *path)
{
    struct slice_port port = {0};
    const char *name;
    if (!cJSON_IsObject(json))
        return field_bad(d, path, "not an object");
    if (field_string(d, json, path, "name", &name) ||
        field_protocol(d, json, path, &port.protocol) ||
        field_port(d, json, path, "port", 0, &port.port))
        return -1;
    if (port.port == 0)
        return 0;
    port.name = xstrdup(name ? name : "");
    vec_push(&d->out->slice->ports, port);
    return 0;
}

static int endpoint_conditions(struct decoder *d, const cJSON *json, const struct field_path *path,
                               uint8_t *flags)
{
    const cJSON *conditions;
    struct field_path up = {path, "conditions", 0};
    if (field_object(d, json, path, "conditions", &conditions) ||
        field_flag(d, conditions, &up, "ready", true, ENDPOINT_READY, flags) ||
        field_flag(d, conditions, &up, "serving", true, ENDPOINT_SERVING, flags) ||
        field_flag(d, conditions, &up, "terminating", false, ENDPOINT_TERMINATING, flags))
        return -1;
    return 0;
}

static int slice_add_endpoint(struct decoder *d, const cJSON *json, const struct field_path *path)
{
    struct endpoint_slice *slice = d->out->slice;
    struct slice_endpoint endpoint = {0};
    const cJSON *addresses;
    const char *node_name;
    if (!cJSON_IsObject(json))
        return field_bad(d, path, "not an object");
    if (field_list(d, json, path, "addresses", &addresses) ||
        field_string(d, json, path, "nodeName", &node_name) ||
        endpoint_conditions(d, json, path, &endpoint.flags))
        return -1;
    /* Only the first address is used (spec 1.3). */
    const cJSON *address = cJSON_GetArrayItem(addresses, 0);
    if (!address)
        return 0;
    struct field_path addresses_path = {path, "addresses", 0}, first = {&addresses_path, NULL, 0};
    enum family family;
    if (!cJSON_IsString(address))
        return field_bad(d, &first, "not a string");
    if (!address_parse(address->valuestring, &family, &endpoint.address))
        return field_bad(d, &first, "\"%s\" is not an IP address", address->valuestring);
    if (family != slice->family)
        return 0;
    endpoint.node_name = intern(node_name);
    vec_push(&slice->endpoints, endpoint);
    return 0;
}

static int slice_address_type(struct decoder *d, const cJSON *json)
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

typedef int (*add_fn)(struct decoder *d, const cJSON *json, const struct field_path *path);

static int slice_each(struct decoder *d, const cJSON *json, const char *key, add_fn add)
{
    const cJSON *list, *entry;
    struct field_path path = {NULL, key, 0};
    if (field_list(d, json, NULL, key, &list))
        return -1;
    int i = 0;
    cJSON_ArrayForEach (entry, list) {
        if (add(d, entry, &(struct field_path){&path, NULL, i++}))
            return -1;
    }
    return 0;
}

int decode_endpoint_slice(struct decoder *d, const cJSON *json)
{
    struct endpoint_slice *slice = d->out->slice = xcalloc(1, sizeof(*slice));
    slice->id = xstrdup(d->out->id);
    if (slice_service(d, json) || slice_address_type(d, json) ||
        slice_each(d, json, "ports", slice_add_port))
        return -1;
    if (!slice->has_family)
        return 0;
    if (slice_each(d, json, "endpoints", slice_add_endpoint))
        return -1;
    /* A slice is kept for long: give back what the growing array took too much. */
    slice->endpoints.v =
        xreallocarray(slice->endpoints.v, slice->endpoints.n, sizeof(*slice->endpoints.v));
    slice->endpoints.cap = slice->endpoints.n;
    return 0;
}
