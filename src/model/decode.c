/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What every object has: its kind and its id. The rest is left to the decoder of the kind. */
#include "kube-nftd/model.h"

#include "field.h"
#include "kube-nftd/values.h"

#include <stdlib.h>
#include <string.h>

static const struct kind {
    const char *name, *list_name, *api_version;
    bool namespaced;
    int (*decode)(struct decoder *d, const struct json_value *json);
} kinds[KIND_COUNT] = {
    [KIND_SERVICE] = {"Service", "ServiceList", "v1", true, decode_service},
    [KIND_ENDPOINTSLICE] = {"EndpointSlice", "EndpointSliceList", "discovery.k8s.io/v1", true,
                            decode_endpoint_slice},
    [KIND_SERVICECIDR] = {"ServiceCIDR", "ServiceCIDRList", "networking.k8s.io/v1", false,
                          decode_service_cidr},
    [KIND_NODE] = {"Node", "NodeList", "v1", false, decode_node},
};

int object_kind_of_list(const char *list_kind)
{
    for (int kind = 0; kind < KIND_COUNT; kind++)
        if (strcmp(kinds[kind].list_name, list_kind) == 0)
            return kind;
    return -1;
}

static bool is_of(const struct kind *kind, const char *name, const char *api_version)
{
    return strcmp(kind->name, name) == 0 && strcmp(kind->api_version, api_version) == 0;
}

/* The kind that the object says it is, @expected if it says nothing, -1 if it is none of ours. */
static int kind_of(const struct json_value *json, int expected)
{
    const struct json_value *kind = json_member(json, "kind"),
                            *version = json_member(json, "apiVersion");
    if (!kind && !version)
        return expected;
    if (!kind || !version || !json_is(kind, JSON_STRING) || !json_is(version, JSON_STRING))
        return -1;
    if (expected >= 0 && is_of(&kinds[expected], kind->string, version->string))
        return expected; /* as nearly all are */
    for (int i = 0; i < KIND_COUNT; i++)
        if (is_of(&kinds[i], kind->string, version->string))
            return i;
    return -1;
}

bool object_may_be(const struct json_value *json, enum object_kind kind)
{
    return kind_of(json, (int)kind) == (int)kind;
}

/* What cannot be a resourceVersion is no error: nothing is looked up by it here. */
static void decode_version(struct decoder *d, const struct json_value *metadata)
{
    const char *text = json_string(json_member(metadata, "resourceVersion"));
    bool fits = text && strlen(text) <= RESOURCE_VERSION_LIMIT;
    object_version_set(&d->out->version, fits ? text : NULL);
}

static int decode_id(struct decoder *d, const struct json_value *json, bool namespaced)
{
    struct field_path path = {NULL, "metadata", 0};
    const struct json_value *metadata;
    const char *name, *ns;
    if (field_object(d, json, NULL, "metadata", &metadata) ||
        field_string(d, metadata, &path, "name", &name) ||
        field_string(d, metadata, &path, "namespace", &ns))
        return -1;
    if (!name || !*name)
        return field_bad(d, &(struct field_path){&path, "name", 0}, "missing");
    if (strchr(name, '/'))
        return field_bad(d, &(struct field_path){&path, "name", 0}, "\"%s\" has a slash", name);
    if (ns && strchr(ns, '/'))
        return field_bad(d, &(struct field_path){&path, "namespace", 0}, "\"%s\" has a slash", ns);
    if (!ns || !*ns)
        ns = "default";
    d->out->id = namespaced ? object_id(ns, strlen(ns), name) : xstrdup(name);
    decode_version(d, metadata);
    return 0;
}

/* What was decoded belongs to the payload, or to the object itself where that is bad. */
static void hand_over(struct object *object)
{
    if (object->kind == KIND_SERVICE)
        object_version_move(&object->service->version, &object->version);
    else if (object->kind == KIND_ENDPOINTSLICE)
        object_version_move(&object->slice->version, &object->version);
    else
        object_version_clear(&object->version);
}

static void drop_payload(struct object *object)
{
    struct object broken = *object;
    memset(object, 0, sizeof(*object));
    object->kind = broken.kind;
    object->id = broken.id;
    object->version = broken.version;
    if (broken.kind == KIND_ENDPOINTSLICE && broken.slice) {
        object->owner = broken.slice->service_id;
        broken.slice->service_id = NULL;
    }
    broken.id = NULL;
    broken.version = (struct object_version){0};
    object_clear(&broken);
}

/* What is no UUID is as good as none: nothing depends on it but what events are about. */
static bool decode_uid(const struct json_value *json, struct uid *uid)
{
    return uid_parse(json_string(json_member(json_member(json, "metadata"), "uid")), uid);
}

/* Of an object that cannot be read. */
static struct uid *decode_own_uid(const struct json_value *json)
{
    struct uid uid;
    if (!decode_uid(json, &uid))
        return NULL;
    struct uid *copy = xcalloc(1, sizeof(*copy));
    *copy = uid;
    return copy;
}

enum decode_result object_decode(const struct json_value *json, int expected, struct object *out,
                                 struct error *err)
{
    if (!json_is(json, JSON_OBJECT))
        return DECODE_OTHER;
    int kind = kind_of(json, expected);
    if (kind < 0)
        return DECODE_OTHER;
    memset(out, 0, sizeof(*out));
    out->kind = (enum object_kind)kind;
    struct decoder d = {.out = out, .err = err};
    if (decode_id(&d, json, kinds[kind].namespaced)) {
        if (json_fault(json))
            field_bad(&d, NULL, "%s", json_fault(json));
        return DECODE_BAD;
    }
    int result = kinds[kind].decode(&d, json);
    if (json_fault(json))
        result = field_bad(&d, NULL, "%s", json_fault(json));
    free(d.warnings);
    if (result == 0 && kind == KIND_SERVICE)
        decode_uid(json, &out->service->uid);
    if (result) {
        drop_payload(out);
        out->uid = decode_own_uid(json);
        return DECODE_BAD;
    }
    hand_over(out);
    return DECODE_OK;
}
