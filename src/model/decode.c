/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What is said of a bad field: "Service shop/web: spec.ports[1].port: 70000 is not
 * within 1..65535". The way to a field is a chain of struct path on the stack, turned into text
 * only for an error.
 */
#include "kube-nftd/model/decode.h"

#include "kube-nftd/base/intern.h"
#include "kube-nftd/base/json.h"

#include <math.h>
#include <stdarg.h>
#include <string.h>
#include <time.h>

struct path {
    const struct path *up;
    const char *key; /* NULL: the element @index of a list */
    int index;
};

struct decoder {
    struct object *out;
    struct error *err;
};

static char *path_text(const struct path *path)
{
    if (!path)
        return xstrdup("");
    char *up = path_text(path->up);
    char *text = path->key ? xasprintf("%s%s%s", up, *up ? "." : "", path->key)
                           : xasprintf("%s[%d]", up, path->index);
    free(up);
    return text;
}

__attribute__((format(printf, 3, 4))) static int bad(struct decoder *d, const struct path *path,
                                                     const char *format, ...)
{
    va_list args;
    va_start(args, format);
    char *what = xvasprintf(format, args);
    va_end(args);
    char *where = path_text(path);
    error_set(d->err, "%s %s: %s: %s", object_kind_name(d->out->kind),
              d->out->id ? d->out->id : "(no name)", where, what);
    free(where);
    free(what);
    return -1;
}

static int get_string(struct decoder *d, const cJSON *object, const struct path *up,
                      const char *key, const char **out)
{
    const cJSON *value = json_member(object, key);
    *out = NULL;
    if (!value)
        return 0;
    if (!cJSON_IsString(value))
        return bad(d, &(struct path){up, key, 0}, "not a string");
    *out = value->valuestring;
    return 0;
}

static int get_container(struct decoder *d, const cJSON *object, const struct path *up,
                         const char *key, bool list, const cJSON **out)
{
    const cJSON *value = json_member(object, key);
    *out = NULL;
    if (!value)
        return 0;
    if (list ? !cJSON_IsArray(value) : !cJSON_IsObject(value))
        return bad(d, &(struct path){up, key, 0}, list ? "not a list" : "not an object");
    *out = value;
    return 0;
}

static int get_list(struct decoder *d, const cJSON *object, const struct path *up, const char *key,
                    const cJSON **out)
{
    return get_container(d, object, up, key, true, out);
}

static int get_object(struct decoder *d, const cJSON *object, const struct path *up,
                      const char *key, const cJSON **out)
{
    return get_container(d, object, up, key, false, out);
}

/* A port number; absent ones are 0. @min is 0 where the API takes 0 for absent. */
static int get_port(struct decoder *d, const cJSON *object, const struct path *up, const char *key,
                    int min, uint16_t *out)
{
    const cJSON *value = json_member(object, key);
    struct path path = {up, key, 0};
    *out = 0;
    if (!value)
        return min > 0 ? bad(d, &path, "missing") : 0;
    if (!cJSON_IsNumber(value))
        return bad(d, &path, "not a number");
    double number = value->valuedouble;
    if (number != floor(number) || number < min || number > UINT16_MAX)
        return bad(d, &path, "%.15g is not within %d..65535", number, min);
    *out = (uint16_t)number;
    return 0;
}

static int get_protocol(struct decoder *d, const cJSON *object, const struct path *up, uint8_t *out)
{
    const char *name;
    if (get_string(d, object, up, "protocol", &name))
        return -1;
    *out = protocol_parse(name ? name : "TCP");
    if (!*out)
        return bad(d, &(struct path){up, "protocol", 0}, "\"%s\" is not TCP, UDP or SCTP", name);
    return 0;
}

/* @flag is set in @flags if the boolean @key is true, or absent and @absent_means. */
static int get_flag(struct decoder *d, const cJSON *object, const struct path *up, const char *key,
                    bool absent_means, uint8_t flag, uint8_t *flags)
{
    const cJSON *value = json_member(object, key);
    if (value && !cJSON_IsBool(value))
        return bad(d, &(struct path){up, key, 0}, "not true or false");
    if (value ? cJSON_IsTrue(value) : absent_means)
        *flags |= flag;
    return 0;
}

/* ---- Service (spec 1.2) ---- */

static int service_cluster_ip(struct decoder *d, const char *text, const struct path *path,
                              const char *wanted_family)
{
    struct service *service = d->out->service;
    enum family family;
    struct address address;
    if (!address_parse(text, &family, &address))
        return bad(d, path, "\"%s\" is not an IP address", text);
    /* An address of another family than its entry in ipFamilies is skipped, never fatal. */
    if (wanted_family && strcmp(wanted_family, family_name(family)) != 0)
        return 0;
    service->has_cluster_ip[family] = true;
    service->cluster_ip[family] = address;
    return 0;
}

static int check_family(struct decoder *d, const cJSON *json, const struct path *path)
{
    if (!cJSON_IsString(json))
        return bad(d, path, "not a string");
    for (int family = 0; family < FAMILY_COUNT; family++)
        if (strcmp(json->valuestring, family_name((enum family)family)) == 0)
            return 0;
    return bad(d, path, "\"%s\" is not IPv4 or IPv6", json->valuestring);
}

/* Each family that ipFamilies lists has the address at the same place of clusterIPs; where that
 * list is absent, the first one has clusterIP. */
static int service_cluster_ips(struct decoder *d, const cJSON *spec, const struct path *up,
                               const cJSON *families, const char *cluster_ip)
{
    const cJSON *addresses;
    if (get_list(d, spec, up, "clusterIPs", &addresses))
        return -1;
    bool alone = cJSON_GetArraySize(addresses) == 0;
    struct path families_path = {up, "ipFamilies", 0}, addresses_path = {up, "clusterIPs", 0},
                alone_path = {up, "clusterIP", 0};
    int i = 0;
    const cJSON *family;
    cJSON_ArrayForEach (family, families) {
        struct path path = {&addresses_path, NULL, i};
        const cJSON *address = cJSON_GetArrayItem(addresses, i);
        if (check_family(d, family, &(struct path){&families_path, NULL, i}))
            return -1;
        if (address && !cJSON_IsString(address))
            return bad(d, &path, "not a string");
        const char *text = address ? address->valuestring : alone && i == 0 ? cluster_ip : NULL;
        if (text && service_cluster_ip(d, text, alone ? &alone_path : &path, family->valuestring))
            return -1;
        i++;
    }
    return 0;
}

static int service_addresses(struct decoder *d, const cJSON *spec, const struct path *up)
{
    const char *type, *cluster_ip;
    const cJSON *families;
    if (get_string(d, spec, up, "type", &type) ||
        get_string(d, spec, up, "clusterIP", &cluster_ip) ||
        get_list(d, spec, up, "ipFamilies", &families))
        return -1;
    if ((type && strcmp(type, "ExternalName") == 0) || !cluster_ip || !*cluster_ip ||
        strcmp(cluster_ip, "None") == 0) {
        d->out->service->skipped = true;
        return 0;
    }
    if (cJSON_GetArraySize(families) > 0)
        return service_cluster_ips(d, spec, up, families, cluster_ip);
    return service_cluster_ip(d, cluster_ip, &(struct path){up, "clusterIP", 0}, NULL);
}

static int service_add_port(struct decoder *d, const cJSON *json, const struct path *path)
{
    struct service *service = d->out->service;
    struct service_port port = {0};
    const char *name;
    if (!cJSON_IsObject(json))
        return bad(d, path, "not an object");
    if (get_string(d, json, path, "name", &name) || get_protocol(d, json, path, &port.protocol) ||
        get_port(d, json, path, "port", 1, &port.port))
        return -1;
    vec_each (&service->ports, other) {
        if (other->port == port.port && other->protocol == port.protocol)
            return bad(d, path, "%s port %u is there twice", protocol_name(port.protocol),
                       port.port);
    }
    port.name = xstrdup(name ? name : "");
    vec_push(&service->ports, port);
    return 0;
}

static int service_ports(struct decoder *d, const cJSON *spec, const struct path *up)
{
    const cJSON *ports, *port;
    if (get_list(d, spec, up, "ports", &ports))
        return -1;
    struct path path = {up, "ports", 0};
    if (cJSON_GetArraySize(ports) == 0 && !d->out->service->skipped)
        return bad(d, &path, "missing");
    int i = 0;
    cJSON_ArrayForEach (port, ports) {
        if (service_add_port(d, port, &(struct path){&path, NULL, i++}))
            return -1;
    }
    return 0;
}

/* Opened only for type LoadBalancer with externalTrafficPolicy Local (spec 1.2). */
static int service_health_check(struct decoder *d, const cJSON *spec, const struct path *up)
{
    const char *type, *policy;
    uint16_t port;
    if (get_string(d, spec, up, "type", &type) ||
        get_string(d, spec, up, "externalTrafficPolicy", &policy) ||
        get_port(d, spec, up, "healthCheckNodePort", 0, &port))
        return -1;
    if (type && strcmp(type, "LoadBalancer") == 0 && policy && strcmp(policy, "Local") == 0)
        d->out->service->health_check_node_port = port;
    return 0;
}

static int service_created(struct decoder *d, const cJSON *json)
{
    struct path metadata_path = {NULL, "metadata", 0};
    const char *text;
    if (get_string(d, json_member(json, "metadata"), &metadata_path, "creationTimestamp", &text))
        return -1;
    d->out->service->created = INT64_MAX;
    if (!text)
        return 0;
    struct tm tm = {0};
    const char *end = strptime(text, "%Y-%m-%dT%H:%M:%S%z", &tm);
    if (!end || *end)
        return bad(d, &(struct path){&metadata_path, "creationTimestamp", 0},
                   "\"%s\" is not a time of RFC 3339 in whole seconds", text);
    long offset = tm.tm_gmtoff; /* timegm() clears it */
    d->out->service->created = timegm(&tm) - offset;
    return 0;
}

static int decode_service(struct decoder *d, const cJSON *json)
{
    const cJSON *spec;
    struct path path = {NULL, "spec", 0};
    d->out->service = xcalloc(1, sizeof(*d->out->service));
    d->out->service->id = xstrdup(d->out->id);
    if (service_created(d, json))
        return -1;
    if (get_object(d, json, NULL, "spec", &spec))
        return -1;
    if (!spec)
        return bad(d, &path, "missing");
    if (service_addresses(d, spec, &path) || service_ports(d, spec, &path) ||
        service_health_check(d, spec, &path))
        return -1;
    return 0;
}

/* ---- EndpointSlice (spec 1.3) ---- */

static int slice_service(struct decoder *d, const cJSON *json)
{
    struct path metadata_path = {NULL, "metadata", 0}, labels_path = {&metadata_path, "labels", 0};
    const cJSON *labels;
    const char *name;
    if (get_object(d, json_member(json, "metadata"), &metadata_path, "labels", &labels) ||
        get_string(d, labels, &labels_path, "kubernetes.io/service-name", &name))
        return -1;
    if (name && *name) {
        size_t namespace_length = (size_t)(strchr(d->out->id, '/') - d->out->id);
        d->out->slice->service_id = xasprintf("%.*s/%s", (int)namespace_length, d->out->id, name);
    }
    return 0;
}

static int slice_add_port(struct decoder *d, const cJSON *json, const struct path *path)
{
    struct slice_port port = {0};
    const char *name;
    if (!cJSON_IsObject(json))
        return bad(d, path, "not an object");
    if (get_string(d, json, path, "name", &name) || get_protocol(d, json, path, &port.protocol) ||
        get_port(d, json, path, "port", 0, &port.port))
        return -1;
    if (port.port == 0)
        return 0;
    port.name = xstrdup(name ? name : "");
    vec_push(&d->out->slice->ports, port);
    return 0;
}

static int endpoint_conditions(struct decoder *d, const cJSON *json, const struct path *path,
                               uint8_t *flags)
{
    const cJSON *conditions;
    struct path up = {path, "conditions", 0};
    if (get_object(d, json, path, "conditions", &conditions) ||
        get_flag(d, conditions, &up, "ready", true, ENDPOINT_READY, flags) ||
        get_flag(d, conditions, &up, "serving", true, ENDPOINT_SERVING, flags) ||
        get_flag(d, conditions, &up, "terminating", false, ENDPOINT_TERMINATING, flags))
        return -1;
    return 0;
}

static int slice_add_endpoint(struct decoder *d, const cJSON *json, const struct path *path)
{
    struct endpoint_slice *slice = d->out->slice;
    struct slice_endpoint endpoint = {0};
    const cJSON *addresses;
    const char *node_name;
    if (!cJSON_IsObject(json))
        return bad(d, path, "not an object");
    if (get_list(d, json, path, "addresses", &addresses) ||
        get_string(d, json, path, "nodeName", &node_name) ||
        endpoint_conditions(d, json, path, &endpoint.flags))
        return -1;
    /* Only the first address is used (spec 1.3). */
    const cJSON *address = cJSON_GetArrayItem(addresses, 0);
    if (!address)
        return 0;
    struct path addresses_path = {path, "addresses", 0}, first = {&addresses_path, NULL, 0};
    enum family family;
    if (!cJSON_IsString(address))
        return bad(d, &first, "not a string");
    if (!address_parse(address->valuestring, &family, &endpoint.address))
        return bad(d, &first, "\"%s\" is not an IP address", address->valuestring);
    if (family != slice->family)
        return 0;
    endpoint.node_name = intern(node_name);
    vec_push(&slice->endpoints, endpoint);
    return 0;
}

static int slice_address_type(struct decoder *d, const cJSON *json)
{
    const char *type;
    if (get_string(d, json, NULL, "addressType", &type))
        return -1;
    if (!type)
        return bad(d, &(struct path){NULL, "addressType", 0}, "missing");
    for (int family = 0; family < FAMILY_COUNT; family++) {
        if (strcmp(type, family_name((enum family)family)) == 0) {
            d->out->slice->has_family = true;
            d->out->slice->family = (enum family)family;
        }
    }
    return 0;
}

typedef int (*add_fn)(struct decoder *d, const cJSON *json, const struct path *path);

static int slice_each(struct decoder *d, const cJSON *json, const char *key, add_fn add)
{
    const cJSON *list, *entry;
    struct path path = {NULL, key, 0};
    if (get_list(d, json, NULL, key, &list))
        return -1;
    int i = 0;
    cJSON_ArrayForEach (entry, list) {
        if (add(d, entry, &(struct path){&path, NULL, i++}))
            return -1;
    }
    return 0;
}

static int decode_endpoint_slice(struct decoder *d, const cJSON *json)
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

/* ---- Node (spec 1.4) ---- */

static int decode_node(struct decoder *d, const cJSON *json)
{
    struct node *node = d->out->node = xcalloc(1, sizeof(*node));
    struct path metadata_path = {NULL, "metadata", 0}, spec_path = {NULL, "spec", 0},
                taints_path = {&spec_path, "taints", 0};
    const cJSON *spec, *taints, *taint;
    const char *deletion, *key;
    node->id = xstrdup(d->out->id);
    if (get_string(d, json_member(json, "metadata"), &metadata_path, "deletionTimestamp",
                   &deletion) ||
        get_object(d, json, NULL, "spec", &spec) ||
        get_list(d, spec, &spec_path, "taints", &taints))
        return -1;
    node->deleting = deletion != NULL;
    int i = 0;
    cJSON_ArrayForEach (taint, taints) {
        struct path path = {&taints_path, NULL, i++};
        if (!cJSON_IsObject(taint))
            return bad(d, &path, "not an object");
        if (get_string(d, taint, &path, "key", &key))
            return -1;
        if (key && strcmp(key, "ToBeDeletedByClusterAutoscaler") == 0)
            node->to_be_deleted = true;
    }
    return 0;
}

/* ---- any object ---- */

static const struct kind {
    const char *name, *list_name, *api_version;
    bool namespaced;
    int (*decode)(struct decoder *d, const cJSON *json);
} kinds[KIND_COUNT] = {
    [KIND_SERVICE] = {"Service", "ServiceList", "v1", true, decode_service},
    [KIND_ENDPOINTSLICE] = {"EndpointSlice", "EndpointSliceList", "discovery.k8s.io/v1", true,
                            decode_endpoint_slice},
    [KIND_NODE] = {"Node", "NodeList", "v1", false, decode_node},
};

int object_kind_of_list(const char *list_kind)
{
    for (int kind = 0; kind < KIND_COUNT; kind++)
        if (strcmp(kinds[kind].list_name, list_kind) == 0)
            return kind;
    return -1;
}

/* The kind that the object says it is, @expected if it says nothing, -1 if it is none of ours. */
static int kind_of(const cJSON *json, int expected)
{
    const cJSON *kind = json_member(json, "kind"), *version = json_member(json, "apiVersion");
    if (!kind && !version)
        return expected;
    if (!kind || !version || !cJSON_IsString(kind) || !cJSON_IsString(version))
        return -1;
    for (int i = 0; i < KIND_COUNT; i++)
        if (strcmp(kinds[i].name, kind->valuestring) == 0 &&
            strcmp(kinds[i].api_version, version->valuestring) == 0)
            return i;
    return -1;
}

static int decode_id(struct decoder *d, const cJSON *json, bool namespaced)
{
    struct path path = {NULL, "metadata", 0};
    const cJSON *metadata;
    const char *name, *ns;
    if (get_object(d, json, NULL, "metadata", &metadata) ||
        get_string(d, metadata, &path, "name", &name) ||
        get_string(d, metadata, &path, "namespace", &ns))
        return -1;
    if (!name || !*name)
        return bad(d, &(struct path){&path, "name", 0}, "missing");
    if (strchr(name, '/'))
        return bad(d, &(struct path){&path, "name", 0}, "has a slash");
    if (ns && strchr(ns, '/'))
        return bad(d, &(struct path){&path, "namespace", 0}, "has a slash");
    if (!ns || !*ns)
        ns = "default";
    d->out->id = namespaced ? xasprintf("%s/%s", ns, name) : xstrdup(name);
    return 0;
}

enum decode_result object_decode(const cJSON *json, int expected, struct object *out,
                                 struct error *err)
{
    if (!cJSON_IsObject(json))
        return DECODE_OTHER;
    int kind = kind_of(json, expected);
    if (kind < 0)
        return DECODE_OTHER;
    memset(out, 0, sizeof(*out));
    out->kind = (enum object_kind)kind;
    struct decoder d = {out, err};
    if (decode_id(&d, json, kinds[kind].namespaced))
        return DECODE_BAD;
    if (kinds[kind].decode(&d, json)) {
        struct object broken = *out;
        memset(out, 0, sizeof(*out));
        out->kind = broken.kind;
        out->id = broken.id;
        broken.id = NULL;
        object_clear(&broken);
        return DECODE_BAD;
    }
    return DECODE_OK;
}
