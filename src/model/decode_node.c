/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Node: the fields used (docs/behaviour.md 1.4), and taint patterns. */
#include "decode.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#define NAME_LIMIT 63
#define PREFIX_LIMIT 253

static int node_metadata(struct decoder *d, struct node *node)
{
    const struct json_value *labels;
    const struct json_value *deletion = json_find(d->metadata, "deletionTimestamp");
    const char *zone;
    int64_t time;
    if (field_time(d, deletion, &time) ||
        field_object(d, json_find(d->metadata, "labels"), &labels) ||
        field_string(d, json_find(labels, "topology.kubernetes.io/zone"), &zone))
        return -1;
    node->deleting = !json_is_absent(deletion);
    uid_parse(json_string(json_member(d->metadata, "uid")), &node->uid);
    if (zone && *zone)
        node->zone = xstrdup(zone);
    return 0;
}

/* The time for the caller to free; NULL if invalid. */
static char *time_text(const struct json_value *value)
{
    char text[CLOCK_RFC3339_SIZE];
    if (json_is(value, JSON_TIME))
        return clock_format((double)value->seconds, 0, text) ? xstrdup(text) : NULL;
    return json_string(value) ? xstrdup(json_string(value)) : NULL;
}

static int take_taint(struct decoder *d, const struct json_value *entry, void *ctx)
{
    struct node *node = ctx;
    const char *key, *value, *effect;
    if (field_string(d, json_find(entry, "key"), &key) ||
        field_string(d, json_find(entry, "value"), &value) ||
        field_string(d, json_find(entry, "effect"), &effect))
        return -1;
    if (key && strcmp(key, "ToBeDeletedByClusterAutoscaler") == 0)
        node->to_be_deleted = true;
    vec_push(&node->taints, (struct taint){xstrdup(key ? key : ""), xstrdup(value ? value : ""),
                                           xstrdup(effect ? effect : ""),
                                           time_text(json_member(entry, "timeAdded"))});
    return 0;
}

static int take_pod_cidr(struct decoder *d, const struct json_value *entry, void *ctx)
{
    struct node *node = ctx;
    return field_cidr(d, entry, node->has_pod_cidr, node->pod_cidr);
}

struct address_search {
    struct node *node;
    const char *type;
};

static int take_address(struct decoder *d, const struct json_value *entry, void *ctx)
{
    const struct address_search *search = ctx;
    struct node *node = search->node;
    const char *type, *text;
    enum family family;
    struct address address;
    if (field_string(d, json_find(entry, "type"), &type) ||
        field_string(d, json_find(entry, "address"), &text))
        return -1;
    if (!type || strcmp(type, search->type) != 0 || !text ||
        !address_parse(text, &family, &address) || node->has_ip[family])
        return 0;
    node->has_ip[family] = true;
    node->ip[family] = address;
    return 0;
}

int decode_node(struct decoder *d)
{
    struct node *node = d->out->node = xcalloc(1, sizeof(*node));
    struct address_search internal = {node, "InternalIP"}, external = {node, "ExternalIP"};
    const struct json_value *spec, *status;
    if (node_metadata(d, node) || field_object(d, json_find(d->json, "spec"), &spec) ||
        field_each(d, json_find(spec, "taints"), JSON_OBJECT, take_taint, node) ||
        field_each(d, json_find(spec, "podCIDRs"), JSON_STRING, take_pod_cidr, node) ||
        field_object(d, json_find(d->json, "status"), &status))
        return -1;
    const struct json_value *addresses = json_find(status, "addresses");
    return field_each(d, addresses, JSON_OBJECT, take_address, &internal) ||
                   field_each(d, addresses, JSON_OBJECT, take_address, &external)
               ? -1
               : 0;
}

/* ---- taints ---- */

void taint_clear(struct taint *taint)
{
    free(taint->key);
    free(taint->value);
    free(taint->effect);
    free(taint->time_added);
    *taint = (struct taint){0};
}

/* Whether @text consists of letters, digits and, in between, characters of @between. */
static bool is_name(const char *text, size_t length, const char *between, size_t limit)
{
    if (length == 0 || length > limit || !isalnum((unsigned char)text[0]) ||
        !isalnum((unsigned char)text[length - 1]))
        return false;
    for (size_t i = 0; i < length; i++)
        if (!isalnum((unsigned char)text[i]) && !strchr(between, text[i]))
            return false;
    return true;
}

static bool is_key(const char *text)
{
    const char *slash = strchr(text, '/');
    if (slash && !is_name(text, (size_t)(slash - text), "-.", PREFIX_LIMIT))
        return false;
    const char *name = slash ? slash + 1 : text;
    return is_name(name, strlen(name), "-_.", NAME_LIMIT);
}

static bool is_value(const char *text)
{
    return !*text || is_name(text, strlen(text), "-_.", NAME_LIMIT);
}

static bool is_effect(const char *text)
{
    return strcmp(text, "NoSchedule") == 0 || strcmp(text, "PreferNoSchedule") == 0 ||
           strcmp(text, "NoExecute") == 0;
}

static int check(const char *text, const struct taint *pattern, struct error *err)
{
    if (pattern->effect && !is_effect(pattern->effect))
        return error_set(
            err, "\"%s\": the effect is none of NoSchedule, PreferNoSchedule and NoExecute", text);
    if (!is_key(pattern->key))
        return error_set(err, "\"%s\" does not begin with a taint's key", text);
    if (pattern->value && !is_value(pattern->value))
        return error_set(err, "\"%s\": \"%s\" cannot be the value of a taint", text,
                         pattern->value);
    return 0;
}

int taint_parse(const char *text, struct taint *pattern, struct error *err)
{
    const char *colon = strrchr(text, ':'), *end = colon ? colon : text + strlen(text);
    const char *equals = memchr(text, '=', (size_t)(end - text));
    const char *key_end = equals ? equals : end;
    *pattern = (struct taint){
        .key = xstrndup(text, (size_t)(key_end - text)),
        .value = equals ? xstrndup(equals + 1, (size_t)(end - equals - 1)) : NULL,
        .effect = colon ? xstrdup(colon + 1) : NULL,
    };
    if (check(text, pattern, err) == 0)
        return 0;
    taint_clear(pattern);
    return -1;
}

static bool same(const char *expected, const char *text)
{
    return !expected || strcmp(expected, text) == 0;
}

bool taint_matches(const struct taint *pattern, const struct taint *taint)
{
    return same(pattern->key, taint->key) && same(pattern->value, taint->value) &&
           same(pattern->effect, taint->effect);
}
