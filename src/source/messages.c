/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "messages.h"

#include "kube-nftd/model.h"

#include <string.h>

/* Defines a message by its fields' numbers. */
#define MESSAGE(name, ...)                                                                         \
    static const struct proto_field name##_fields[] = {__VA_ARGS__};                               \
    static const struct proto_message name = {name##_fields,                                       \
                                              sizeof(name##_fields) / sizeof(*name##_fields)};     \
    _Static_assert(sizeof(name##_fields) / sizeof(*name##_fields) <= PROTO_FIELD_MOST + 1,         \
                   "a field's number is too large")

#define FIELD(name, kind, ...)                                                                     \
    {                                                                                              \
        .key = (name), .key_length = sizeof(name) - 1, .type = PROTO_##kind, __VA_ARGS__           \
    }
/* Without a key: its contents belong to the enclosing object. */
#define NAMELESS(kind, ...)                                                                        \
    {                                                                                              \
        .type = PROTO_##kind, __VA_ARGS__                                                          \
    }
#define STRING(name) FIELD(name, STRING)
#define NUMBER(name) FIELD(name, NUMBER)
#define BOOL(name) FIELD(name, BOOL)
#define TIME(name) FIELD(name, TIME, .message = &time_of)
#define MAP(name) FIELD(name, MAP, .message = &map_entry, .list = true)
#define STRINGS(name) FIELD(name, STRING, .list = true)
#define OBJECT(name, of) FIELD(name, OBJECT, .message = &(of))
#define OBJECTS(name, of) FIELD(name, OBJECT, .message = &(of), .list = true)
/* A pointer in Go, or a field that JSON contains even if zero. */
#define OWN_STRING(name) FIELD(name, STRING, .has_presence = true)
#define OWN_NUMBER(name) FIELD(name, NUMBER, .has_presence = true)

/* ---- k8s.io.apimachinery.pkg.apis.meta.v1 ---- */

MESSAGE(time_of, [1] = NAMELESS(SECONDS));
MESSAGE(map_entry, [1] = NAMELESS(KEY), [2] = NAMELESS(STRING, .has_presence = true));

/* The fields of ObjectMeta used for every kind. A bookmark may have the annotation that ends the
 * initial events. */
#define OBJECT_META                                                                                \
    [1] = STRING("name"), [3] = STRING("namespace"), [5] = STRING("uid"),                          \
    [6] = STRING("resourceVersion"), [12] = MAP("annotations")

MESSAGE(list_meta, [2] = STRING("resourceVersion"), [3] = STRING("continue"));

MESSAGE(status_cause, [1] = STRING("reason"));
MESSAGE(status_details, [4] = OBJECTS("causes", status_cause), [5] = NUMBER("retryAfterSeconds"));
MESSAGE(status, [3] = STRING("message"), [4] = STRING("reason"),
        [5] = OBJECT("details", status_details), [6] = NUMBER("code"));

/* ---- k8s.io.api.core.v1 ---- */

MESSAGE(service_port, [1] = STRING("name"), [2] = STRING("protocol"), [3] = OWN_NUMBER("port"),
        [5] = NUMBER("nodePort"));
MESSAGE(client_ip_config, [1] = OWN_NUMBER("timeoutSeconds"));
MESSAGE(session_affinity_config, [1] = OBJECT("clientIP", client_ip_config));
MESSAGE(
    service_spec, [1] = OBJECTS("ports", service_port), [3] = STRING("clusterIP"),
    [4] = STRING("type"), [5] = STRINGS("externalIPs"), [7] = STRING("sessionAffinity"),
    [9] = STRINGS("loadBalancerSourceRanges"), [11] = STRING("externalTrafficPolicy"),
    [12] = NUMBER("healthCheckNodePort"),
    [14] = OBJECT("sessionAffinityConfig", session_affinity_config), [18] = STRINGS("clusterIPs"),
    [19] = STRINGS("ipFamilies"), [22] = OWN_STRING("internalTrafficPolicy"));
MESSAGE(load_balancer_ingress, [1] = STRING("ip"), [2] = STRING("hostname"),
        [3] = OWN_STRING("ipMode"));
MESSAGE(load_balancer_status, [1] = OBJECTS("ingress", load_balancer_ingress));
MESSAGE(service_status, [1] = OBJECT("loadBalancer", load_balancer_status));
MESSAGE(service_meta, OBJECT_META, [8] = TIME("creationTimestamp"));
MESSAGE(service, [1] = OBJECT("metadata", service_meta), [2] = OBJECT("spec", service_spec),
        [3] = OBJECT("status", service_status));

MESSAGE(taint, [1] = OWN_STRING("key"), [2] = STRING("value"), [3] = OWN_STRING("effect"),
        [4] = TIME("timeAdded"));
MESSAGE(node_spec, [5] = OBJECTS("taints", taint), [7] = STRINGS("podCIDRs"));
MESSAGE(node_address, [1] = OWN_STRING("type"), [2] = OWN_STRING("address"));
MESSAGE(node_status, [5] = OBJECTS("addresses", node_address));
MESSAGE(node_meta, OBJECT_META, [9] = TIME("deletionTimestamp"), [11] = MAP("labels"));
MESSAGE(node, [1] = OBJECT("metadata", node_meta), [2] = OBJECT("spec", node_spec),
        [3] = OBJECT("status", node_status));

/* ---- k8s.io.api.discovery.v1 ---- */

MESSAGE(endpoint_conditions, [1] = BOOL("ready"), [2] = BOOL("serving"), [3] = BOOL("terminating"));
MESSAGE(hint, [1] = OWN_STRING("name"));
MESSAGE(endpoint_hints, [1] = OBJECTS("forZones", hint), [2] = OBJECTS("forNodes", hint));
MESSAGE(
    endpoint, [1] = STRINGS("addresses"), [2] = OBJECT("conditions", endpoint_conditions),
    [6] = OWN_STRING("nodeName"), [7] = OWN_STRING("zone"), [8] = OBJECT("hints", endpoint_hints));
MESSAGE(endpoint_port, [1] = OWN_STRING("name"), [2] = OWN_STRING("protocol"),
        [3] = OWN_NUMBER("port"));
MESSAGE(slice_meta, OBJECT_META, [11] = MAP("labels"));
MESSAGE(endpoint_slice, [1] = OBJECT("metadata", slice_meta), [2] = OBJECTS("endpoints", endpoint),
        [3] = OBJECTS("ports", endpoint_port), [4] = OWN_STRING("addressType"));

/* ---- k8s.io.api.networking.v1 ---- */

MESSAGE(service_cidr_spec, [1] = STRINGS("cidrs"));
MESSAGE(service_cidr_meta, OBJECT_META);
MESSAGE(service_cidr, [1] = OBJECT("metadata", service_cidr_meta),
        [2] = OBJECT("spec", service_cidr_spec));

/* ---- lists ---- */

#define LIST(name, of)                                                                             \
    MESSAGE(name, [1] = OBJECT("metadata", list_meta),                                             \
            [2] = FIELD("items", ITEMS, .message = &(of), .list = true))

LIST(service_list, service);
LIST(node_list, node);
LIST(endpoint_slice_list, endpoint_slice);
LIST(service_cidr_list, service_cidr);

static const struct proto_message *const objects[KIND_COUNT] = {
    [KIND_SERVICE] = &service,
    [KIND_ENDPOINTSLICE] = &endpoint_slice,
    [KIND_SERVICECIDR] = &service_cidr,
    [KIND_NODE] = &node,
};
static const struct proto_message *const lists[KIND_COUNT] = {
    [KIND_SERVICE] = &service_list,
    [KIND_ENDPOINTSLICE] = &endpoint_slice_list,
    [KIND_SERVICECIDR] = &service_cidr_list,
    [KIND_NODE] = &node_list,
};

/* ---- k8s.io.apimachinery.pkg.runtime and envelopes ---- */

/* The reader of the values checks for the expected kind and apiVersion. */
static const struct proto_message *body_of(const char *kind)
{
    for (int i = 0; i < KIND_COUNT; i++)
        if (strcmp(object_kind_name((enum object_kind)i), kind) == 0)
            return objects[i];
    int of_list = object_kind_of_list(kind);
    if (of_list >= 0)
        return lists[of_list];
    return strcmp(kind, "Status") == 0 ? &status : NULL;
}

MESSAGE(type_meta, [1] = STRING("apiVersion"), [2] = STRING("kind"));
MESSAGE(unknown, [1] = NAMELESS(OBJECT, .message = &type_meta), [2] = NAMELESS(BODY),
        [3] = NAMELESS(EMPTY));
MESSAGE(raw_extension, [1] = NAMELESS(ENVELOPE, .message = &unknown));
MESSAGE(watch_event, [1] = STRING("type"), [2] = OBJECT("object", raw_extension));

const struct proto_format message_body = {.root = &unknown, .body = body_of};
const struct proto_format message_watch = {.frames = true, .root = &watch_event, .body = body_of};
