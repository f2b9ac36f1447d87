/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Node: the fields of docs/behaviour.md 1.4 that are used. */
#include "field.h"

#include "kube-nftd/base.h"
#include "kube-nftd/values.h"

#include <string.h>

static int node_metadata(struct decoder *d, const struct json_value *json, struct node *node)
{
    struct field_path metadata_path = {NULL, "metadata", 0},
                      labels_path = {&metadata_path, "labels", 0};
    const struct json_value *metadata = json_member(json, "metadata"), *labels;
    const char *zone;
    int64_t deletion;
    if (field_time(d, metadata, &metadata_path, "deletionTimestamp", &deletion) ||
        field_object(d, metadata, &metadata_path, "labels", &labels) ||
        field_string(d, labels, &labels_path, "topology.kubernetes.io/zone", &zone))
        return -1;
    node->deleting = json_member(metadata, "deletionTimestamp");
    uid_parse(json_string(json_member(metadata, "uid")), &node->uid);
    if (zone && *zone)
        node->zone = xstrdup(zone);
    return 0;
}

/* The caller frees it; NULL if it is no time. */
static char *time_text(const struct json_value *value)
{
    char text[CLOCK_RFC3339_SIZE];
    if (json_is(value, JSON_TIME))
        return clock_rfc3339_seconds((double)value->seconds, text) ? xstrdup(text) : NULL;
    return json_string(value) ? xstrdup(json_string(value)) : NULL;
}

static int take_taint(struct decoder *d, const struct json_value *entry,
                      const struct field_path *path, void *ctx)
{
    struct node *node = ctx;
    const char *key, *value, *effect;
    if (field_string(d, entry, path, "key", &key) ||
        field_string(d, entry, path, "value", &value) ||
        field_string(d, entry, path, "effect", &effect))
        return -1;
    if (key && strcmp(key, "ToBeDeletedByClusterAutoscaler") == 0)
        node->to_be_deleted = true;
    vec_push(&node->taints, (struct taint){xstrdup(key ? key : ""), xstrdup(value ? value : ""),
                                           xstrdup(effect ? effect : ""),
                                           time_text(json_member(entry, "timeAdded"))});
    return 0;
}

static int take_pod_cidr(struct decoder *d, const struct json_value *entry,
                         const struct field_path *path, void *ctx)
{
    struct node *node = ctx;
    return field_cidr(d, entry, path, node->has_pod_cidr, node->pod_cidr);
}

static int node_spec(struct decoder *d, const struct json_value *json, struct node *node)
{
    struct field_path path = {NULL, "spec", 0};
    const struct json_value *spec;
    if (field_object(d, json, NULL, "spec", &spec) ||
        field_each_object(d, spec, &path, "taints", take_taint, node) ||
        field_each_string(d, spec, &path, "podCIDRs", take_pod_cidr, node))
        return -1;
    return 0;
}

struct address_search {
    struct node *node;
    const char *type;
};

static int take_address(struct decoder *d, const struct json_value *entry,
                        const struct field_path *path, void *ctx)
{
    const struct address_search *search = ctx;
    struct node *node = search->node;
    const char *type, *text;
    enum family family;
    struct address address;
    if (field_string(d, entry, path, "type", &type) ||
        field_string(d, entry, path, "address", &text))
        return -1;
    if (!type || strcmp(type, search->type) != 0 || !text ||
        !address_parse(text, &family, &address) || node->has_ip[family])
        return 0;
    node->has_ip[family] = true;
    node->ip[family] = address;
    return 0;
}

static int node_status(struct decoder *d, const struct json_value *json, struct node *node)
{
    struct field_path path = {NULL, "status", 0};
    struct address_search internal = {node, "InternalIP"}, external = {node, "ExternalIP"};
    const struct json_value *status;
    if (field_object(d, json, NULL, "status", &status) ||
        field_each_object(d, status, &path, "addresses", take_address, &internal) ||
        field_each_object(d, status, &path, "addresses", take_address, &external))
        return -1;
    return 0;
}

int decode_node(struct decoder *d, const struct json_value *json)
{
    struct node *node = d->out->node = xcalloc(1, sizeof(*node));
    node->id = xstrdup(d->out->id);
    if (node_metadata(d, json, node) || node_spec(d, json, node) || node_status(d, json, node))
        return -1;
    return 0;
}
