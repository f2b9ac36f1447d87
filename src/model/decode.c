/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Field access with errors that name the field, and what all kinds share: kind and id. */
#include "decode.h"

#include <math.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

/* ---- kinds ---- */

static const struct kind {
    const char *name, *list_name, *api_version;
    bool namespaced;
    int (*decode)(struct decoder *d);
} kinds[KIND_COUNT] = {
    [KIND_SERVICE] = {"Service", "ServiceList", "v1", true, decode_service},
    [KIND_ENDPOINTSLICE] = {"EndpointSlice", "EndpointSliceList", "discovery.k8s.io/v1", true,
                            decode_endpoint_slice},
    [KIND_SERVICECIDR] = {"ServiceCIDR", "ServiceCIDRList", "networking.k8s.io/v1", false,
                          decode_service_cidr},
    [KIND_NODE] = {"Node", "NodeList", "v1", false, decode_node},
};

const char *object_kind_name(enum object_kind kind)
{
    return kinds[kind].name;
}

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

/* The kind of the object: @expected if it states none, -1 if unused. */
static int kind_of(const struct json_value *json, int expected)
{
    const struct json_value *kind = json_member(json, "kind"),
                            *version = json_member(json, "apiVersion");
    if (!kind && !version)
        return expected;
    if (!kind || !version || !json_is(kind, JSON_STRING) || !json_is(version, JSON_STRING))
        return -1;
    if (expected >= 0 && is_of(&kinds[expected], kind->string, version->string))
        return expected; /* the common case */
    for (int i = 0; i < KIND_COUNT; i++)
        if (is_of(&kinds[i], kind->string, version->string))
            return i;
    return -1;
}

bool object_may_be(const struct json_value *json, enum object_kind kind)
{
    return kind_of(json, (int)kind) == (int)kind;
}

/* ---- errors and warnings ---- */

#define WARNINGS_NAMED 5

/* Bytes of a value quoted in an error. */
#define QUOTED_LIMIT 80
/* Bytes of an id in an error: above the API's limits for a namespace (63) and a name (253). */
#define ID_LIMIT 400

/* The path of a value of the object: "spec.ports[1]". */
static char *path_of(const struct json_value *json, const struct json_value *value)
{
    char *path = xstrdup("");
    while (json != value) {
        const struct json_value *inner = json + 1;
        size_t index = 0;
        for (; value >= inner + inner->size; inner += inner->size)
            index++;
        char *longer = inner->key ? xasprintf("%s%s%s", path, *path ? "." : "", inner->key)
                                  : xasprintf("%s[%zu]", path, index);
        free(path);
        path = longer;
        json = inner;
    }
    return path;
}

/* Truncates a quoted value at the start of @text in place: it may be megabytes long. Its closing
 * quote is the last one in @text. */
static void cut_quoted(char *text)
{
    static const char dots[] = "...";
    char *end = strrchr(text, '"');
    if (*text != '"' || end - text - 1 <= QUOTED_LIMIT + (ptrdiff_t)strlen(dots))
        return;
    char *cut = text + 1 + utf8_cut(text + 1, strlen(text + 1), QUOTED_LIMIT);
    memmove(stpcpy(cut, dots), end, strlen(end) + 1);
}

/* "spec.ports[1].port: 70000 is not within 1..65535" */
__attribute__((format(printf, 4, 0))) static char *complaint(const struct decoder *d,
                                                             const struct json_value *up,
                                                             const char *key, const char *format,
                                                             va_list args)
{
    char *what = xvasprintf(format, args), *where = path_of(d->json, up ? up : d->json);
    cut_quoted(what);
    char *text = xasprintf("%s%s%s%s%s", where, *where && key ? "." : "", key ? key : "",
                           *where || key ? ": " : "", what);
    free(where);
    free(what);
    return text;
}

int field_bad(struct decoder *d, const struct json_value *up, const char *key, const char *format,
              ...)
{
    va_list args;
    va_start(args, format);
    char *text = complaint(d, up, key, format, args);
    va_end(args);
    error_set(d->err, "%s %.*s: %s", object_kind_name(d->out->kind), ID_LIMIT,
              d->out->id ? d->out->id : "(no name)", text);
    free(text);
    return -1;
}

void field_warn(struct decoder *d, const struct json_value *up, const char *key, const char *format,
                ...)
{
    va_list args;
    if (d->n_warnings++ >= WARNINGS_NAMED)
        return;
    va_start(args, format);
    char *text = complaint(d, up, key, format, args), *before = d->warnings;
    va_end(args);
    d->warnings = before ? xasprintf("%s; %s", before, text) : xstrdup(text);
    free(before);
    free(text);
}

/* All warnings as one text, for the caller to free; NULL if none. */
static char *take_warnings(const struct decoder *d)
{
    if (d->n_warnings <= WARNINGS_NAMED)
        return d->warnings;
    char *text = xasprintf("%s; and %u more", d->warnings, d->n_warnings - WARNINGS_NAMED);
    free(d->warnings);
    return text;
}

/* "80.0": a number written with a fraction is not an integer. */
static char *shown_number(const struct json_value *value)
{
    bool whole = value->number == floor(value->number) && fabs(value->number) < 1e15;
    return xasprintf(whole && !value->integer ? "%.1f" : "%.15g", value->number);
}

/* A value of a wrong type for an error, for the caller to free. */
static char *shown(const struct json_value *value)
{
    switch (value->type) {
    case JSON_NUMBER:
        return shown_number(value);
    case JSON_FALSE:
    case JSON_TRUE:
        return xstrdup(value->type == JSON_TRUE ? "true" : "false");
    case JSON_ARRAY:
        return xstrdup("a list");
    case JSON_OBJECT:
        return xstrdup("an object");
    default:
        return json_has_string(value) ? xasprintf("\"%s\"", value->string) : xstrdup("null");
    }
}

int field_is_not(struct decoder *d, const struct json_value *value, const char *what)
{
    if (json_is(value, JSON_BAD_STRING))
        return field_bad(d, value, NULL, "\"%s\" %s", value->string,
                         strstr(value->string, "\xc0\x80") ? "has a NUL" : "is not UTF-8");
    char *text = shown(value);
    field_bad(d, value, NULL, "%s is not %s", text, what);
    free(text);
    return -1;
}

/* ---- fields ---- */

int field_each(struct decoder *d, const struct json_value *list, enum json_type type,
               int (*take)(struct decoder *d, const struct json_value *entry, void *ctx), void *ctx)
{
    if (field_container(d, list, JSON_ARRAY, &list))
        return -1;
    json_each (list, entry) {
        if (!json_is(entry, type))
            return field_is_not(d, entry, type == JSON_OBJECT ? "an object" : "a string");
        if (take(d, entry, ctx))
            return -1;
    }
    return 0;
}

int field_integer(struct decoder *d, const struct json_value *value, uint32_t min, uint32_t max,
                  uint32_t *out)
{
    if (json_is_absent(value))
        return 0;
    if (!json_is(value, JSON_NUMBER))
        return field_is_not(d, value, "a number");
    if (!value->integer || !isfinite(value->number)) /* too many digits */
        return field_is_not(d, value, "an integer");
    if (value->number < min || value->number > max)
        return field_bad(d, value, NULL, "%.15g is not within %u..%u", value->number, min, max);
    *out = (uint32_t)value->number;
    return 0;
}

int field_time(struct decoder *d, const struct json_value *value, int64_t *out)
{
    const char *text;
    if (json_is(value, JSON_TIME)) {
        *out = value->seconds;
        return 0;
    }
    if (field_string(d, value, &text))
        return -1;
    if (text && !clock_parse(text, out, NULL))
        return field_bad(d, value, NULL, "\"%s\" is not a time of RFC 3339 in whole seconds", text);
    return 0;
}

int field_choice(struct decoder *d, const struct json_value *value, const char *usual,
                 const char *special, bool *out)
{
    const char *text;
    if (field_string(d, value, &text))
        return -1;
    *out = text && strcmp(text, special) == 0;
    if (text && !*out && strcmp(text, usual) != 0)
        field_warn(d, value, NULL, "\"%s\" is not %s or %s, taken for %s", text, usual, special,
                   usual);
    return 0;
}

int field_port(struct decoder *d, const struct json_value *up, const char *key, int min,
               uint16_t *out)
{
    const struct json_value *value = json_member(up, key);
    uint32_t port = 0;
    if (min > 0 && !value)
        return field_bad(d, up, key, "missing");
    if (field_integer(d, value, (uint32_t)min, UINT16_MAX, &port))
        return -1;
    *out = (uint16_t)port;
    return 0;
}

int field_cidr(struct decoder *d, const struct json_value *value, bool has_cidr[FAMILY_COUNT],
               struct cidr cidrs[FAMILY_COUNT])
{
    enum family family;
    struct cidr cidr;
    if (!cidr_parse(value->string, &family, &cidr))
        return field_bad(d, value, NULL, "\"%s\" is not a CIDR", value->string);
    if (!has_cidr[family])
        cidrs[family] = cidr;
    has_cidr[family] = true;
    return 0;
}

int field_protocol(struct decoder *d, const struct json_value *value, uint8_t *out)
{
    const char *name;
    if (field_string(d, value, &name))
        return -1;
    *out = protocol_parse(name ? name : "TCP");
    return *out ? 0 : field_bad(d, value, NULL, "\"%s\" is not TCP, UDP or SCTP", name);
}

/* ---- objects ---- */

/* Sets the id, and the version if it is not too long. */
static int decode_id(struct decoder *d, bool namespaced)
{
    const char *name, *ns;
    if (field_object(d, json_find(d->json, "metadata"), &d->metadata) ||
        field_string(d, json_find(d->metadata, "name"), &name) ||
        field_string(d, json_find(d->metadata, "namespace"), &ns))
        return -1;
    if (!name || !*name)
        return field_bad(d, NULL, "metadata.name", "missing");
    if (strchr(name, '/'))
        return field_bad(d, d->metadata, "name", "\"%s\" has a slash", name);
    if (ns && strchr(ns, '/'))
        return field_bad(d, d->metadata, "namespace", "\"%s\" has a slash", ns);
    if (!ns || !*ns)
        ns = "default";
    d->out->id = namespaced ? object_id(ns, strlen(ns), name) : xstrdup(name);
    const char *version = json_string(json_member(d->metadata, "resourceVersion"));
    bool fits = version && strlen(version) <= RESOURCE_VERSION_LIMIT;
    object_version_set(&d->out->version, fits ? version : NULL);
    return 0;
}

/* Moves the id and the version to the payload of a decoded object. */
static void complete_payload(struct object *object)
{
    switch (object->kind) {
    case KIND_SERVICE:
        object->service->id = object->id;
        object_version_move(&object->service->version, &object->version);
        break;
    case KIND_ENDPOINTSLICE:
        object->slice->id = object->id;
        object_version_move(&object->slice->version, &object->version);
        break;
    case KIND_SERVICECIDR:
        object->service_cidr->id = object->id;
        break;
    default:
        object->node->id = object->id;
    }
    object_version_clear(&object->version);
}

static void drop_payload(struct object *object)
{
    struct object kept = {.kind = object->kind, .id = object->id, .version = object->version};
    if (object->kind == KIND_ENDPOINTSLICE && object->slice) {
        kept.owner = object->slice->service_id;
        object->slice->service_id = NULL;
    }
    object->id = NULL;
    object->version = (struct object_version){0};
    object_clear(object);
    *object = kept;
}

/* Ignores invalid UUIDs: only events use the uid. */
static bool decode_uid(const struct decoder *d, struct uid *uid)
{
    return uid_parse(json_string(json_member(d->metadata, "uid")), uid);
}

/* The uid of an undecodable object. */
static struct uid *decode_own_uid(const struct decoder *d)
{
    struct uid uid;
    if (!decode_uid(d, &uid))
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
    struct decoder d = {.json = json, .out = out, .err = err};
    const char *fault = json_fault(json);
    int result = decode_id(&d, kinds[kind].namespaced);
    if (result == 0)
        result = kinds[kind].decode(&d);
    if (fault)
        result = field_bad(&d, NULL, NULL, "%s", fault);
    if (result < 0) {
        free(d.warnings);
        drop_payload(out);
        out->uid = decode_own_uid(&d);
        return DECODE_BAD;
    }
    if (kind == KIND_SERVICE) {
        decode_uid(&d, &out->service->uid);
        out->service->warnings = take_warnings(&d);
    }
    complete_payload(out);
    return DECODE_OK;
}
