/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Field access with errors that name the field, and what all kinds share: kind and id. */
#include "decode.h"

#include <math.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

/* ---- errors and warnings ---- */

#define WARNINGS_NAMED 5

/* Bytes of a value quoted in an error. */
#define QUOTED_LIMIT 80
/* Bytes of an id in an error: above the API's limits for a namespace (63) and a name (253). */
#define ID_LIMIT 400

static char *path_text(const struct field *field)
{
    if (!field->up)
        return xstrdup("");
    char *up = path_text(field->up);
    char *text = field->key ? xasprintf("%s%s%s", up, *up ? "." : "", field->key)
                            : xasprintf("%s[%d]", up, field->index);
    free(up);
    return text;
}

/* Truncates a quoted value at the start of @text in place: it may be megabytes long. Its closing
 * quote is the last one in @text. */
static void cut_quoted(char *text)
{
    static const char dots[] = "...";
    char *end = strrchr(text, '"');
    if (*text != '"' || end - text - 1 <= QUOTED_LIMIT + (ptrdiff_t)strlen(dots))
        return;
    char *cut = text + 1 + QUOTED_LIMIT;
    while (((unsigned char)*cut & 0xc0) == 0x80 && cut > text + 1 + QUOTED_LIMIT - 4)
        cut--; /* to a character boundary */
    for (const char *dot = dots; *dot; dot++)
        *cut++ = *dot;
    memmove(cut, end, strlen(end) + 1);
}

/* "spec.ports[1].port: 70000 is not within 1..65535" */
__attribute__((format(printf, 2, 0))) static char *complaint(const struct field *field,
                                                             const char *format, va_list args)
{
    char *what = xvasprintf(format, args), *where = path_text(field);
    cut_quoted(what);
    char *text = xasprintf("%s%s%s", where, *where ? ": " : "", what);
    free(where);
    free(what);
    return text;
}

int field_bad(struct decoder *d, const struct field *field, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    char *text = complaint(field, format, args);
    va_end(args);
    error_set(d->err, "%s %.*s: %s", object_kind_name(d->out->kind), ID_LIMIT,
              d->out->id ? d->out->id : "(no name)", text);
    free(text);
    return -1;
}

static void add_warning(struct decoder *d, char *text)
{
    char *before = d->warnings;
    d->warnings = before ? xasprintf("%s; %s", before, text) : xstrdup(text);
    free(before);
    free(text);
}

void field_warn(struct decoder *d, const struct field *field, const char *format, ...)
{
    va_list args;
    if (d->n_warnings++ >= WARNINGS_NAMED)
        return;
    va_start(args, format);
    add_warning(d, complaint(field, format, args));
    va_end(args);
}

char *field_take_warnings(struct decoder *d)
{
    if (d->n_warnings > WARNINGS_NAMED)
        add_warning(d, xasprintf("and %u more", d->n_warnings - WARNINGS_NAMED));
    char *text = d->warnings;
    d->warnings = NULL;
    d->n_warnings = 0;
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
    static const char *const words[] = {
        [JSON_NULL] = "null",    [JSON_FALSE] = "false",      [JSON_TRUE] = "true",
        [JSON_ARRAY] = "a list", [JSON_OBJECT] = "an object", [JSON_TIME] = "a time",
    };
    if (json_has_string(value))
        return xasprintf("\"%s\"", value->string);
    return json_is(value, JSON_NUMBER) ? shown_number(value) : xstrdup(words[value->type]);
}

int field_is_not(struct decoder *d, const struct field *field, const char *what)
{
    const struct json_value *value = field->value;
    if (json_is(value, JSON_BAD_STRING))
        return field_bad(d, field, "\"%s\" %s", value->string,
                         strstr(value->string, "\xc0\x80") ? "has a NUL" : "is not UTF-8");
    char *text = shown(value);
    field_bad(d, field, "%s is not %s", text, what);
    free(text);
    return -1;
}

/* ---- fields ---- */

int field_each(struct decoder *d, const struct field *up, const char *key, enum json_type type,
               int (*take)(struct decoder *d, const struct field *entry, void *ctx), void *ctx)
{
    struct field list, entry = {&list, NULL, 0, NULL};
    if (field_list(d, up, key, &list))
        return -1;
    json_each (list.value, value) {
        entry.value = value;
        if (!json_is(value, type))
            return field_is_not(d, &entry, type == JSON_OBJECT ? "an object" : "a string");
        if (take(d, &entry, ctx))
            return -1;
        entry.index++;
    }
    return 0;
}

int field_integer(struct decoder *d, const struct field *up, const char *key, uint32_t min,
                  uint32_t max, uint32_t *out)
{
    struct field field = {up, key, 0, json_member(up->value, key)};
    if (!field.value)
        return 0;
    if (!json_is(field.value, JSON_NUMBER))
        return field_is_not(d, &field, "a number");
    double number = field.value->number;
    if (!field.value->integer || !isfinite(number)) /* too many digits */
        return field_is_not(d, &field, "an integer");
    if (number < min || number > max)
        return field_bad(d, &field, "%.15g is not within %u..%u", number, min, max);
    *out = (uint32_t)number;
    return 0;
}

int field_time(struct decoder *d, const struct field *up, const char *key, int64_t *out)
{
    const struct json_value *value = json_find(up->value, key);
    const char *text;
    if (json_is(value, JSON_TIME)) {
        *out = value->seconds;
        return 0;
    }
    if (field_as_string(d, up, key, value, &text))
        return -1;
    if (text && !clock_parse(text, out, NULL))
        return field_bad(d, FIELD(up, key), "\"%s\" is not a time of RFC 3339 in whole seconds",
                         text);
    return 0;
}

int field_choice(struct decoder *d, const struct field *up, const char *key, const char *usual,
                 const char *special, bool *out)
{
    const char *text;
    if (field_string(d, up, key, &text))
        return -1;
    *out = text && strcmp(text, special) == 0;
    if (text && !*out && strcmp(text, usual) != 0)
        field_warn(d, FIELD(up, key), "\"%s\" is not %s or %s, taken for %s", text, usual, special,
                   usual);
    return 0;
}

int field_port(struct decoder *d, const struct field *up, const char *key, int min, uint16_t *out)
{
    uint32_t port = 0;
    if (min > 0 && !json_member(up->value, key))
        return field_bad(d, FIELD(up, key), "missing");
    if (field_integer(d, up, key, (uint32_t)min, UINT16_MAX, &port))
        return -1;
    *out = (uint16_t)port;
    return 0;
}

int field_cidr(struct decoder *d, const struct field *field, bool has_cidr[FAMILY_COUNT],
               struct cidr cidrs[FAMILY_COUNT])
{
    enum family family;
    struct cidr cidr;
    if (!cidr_parse(field->value->string, &family, &cidr))
        return field_bad(d, field, "\"%s\" is not a CIDR", field->value->string);
    if (!has_cidr[family])
        cidrs[family] = cidr;
    has_cidr[family] = true;
    return 0;
}

int field_protocol(struct decoder *d, const struct field *up, uint8_t *out)
{
    const char *name;
    if (field_string(d, up, "protocol", &name))
        return -1;
    *out = protocol_parse(name ? name : "TCP");
    if (!*out)
        return field_bad(d, FIELD(up, "protocol"), "\"%s\" is not TCP, UDP or SCTP", name);
    return 0;
}

/* ---- objects ---- */

static const struct kind {
    const char *name, *list_name, *api_version;
    bool namespaced;
    int (*decode)(struct decoder *d, const struct field *json);
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

/* Sets the id, and the version if it is not too long. */
static int decode_id(struct decoder *d, const struct field *json, bool namespaced)
{
    struct field metadata;
    const char *name, *ns;
    if (field_object(d, json, "metadata", &metadata) || field_string(d, &metadata, "name", &name) ||
        field_string(d, &metadata, "namespace", &ns))
        return -1;
    if (!name || !*name)
        return field_bad(d, FIELD(&metadata, "name"), "missing");
    if (strchr(name, '/'))
        return field_bad(d, FIELD(&metadata, "name"), "\"%s\" has a slash", name);
    if (ns && strchr(ns, '/'))
        return field_bad(d, FIELD(&metadata, "namespace"), "\"%s\" has a slash", ns);
    if (!ns || !*ns)
        ns = "default";
    d->out->id = namespaced ? object_id(ns, strlen(ns), name) : xstrdup(name);
    const char *version = json_string(json_member(metadata.value, "resourceVersion"));
    bool fits = version && strlen(version) <= RESOURCE_VERSION_LIMIT;
    object_version_set(&d->out->version, fits ? version : NULL);
    return 0;
}

/* Moves the version to the payload of a decoded object. */
static void move_version(struct object *object)
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

/* Ignores invalid UUIDs: only events use the uid. */
static bool decode_uid(const struct json_value *json, struct uid *uid)
{
    return uid_parse(json_string(json_member(json_member(json, "metadata"), "uid")), uid);
}

/* The uid of an undecodable object. */
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
    const struct field root = {.value = json};
    if (decode_id(&d, &root, kinds[kind].namespaced)) {
        if (json_fault(json))
            field_bad(&d, &root, "%s", json_fault(json));
        return DECODE_BAD;
    }
    int result = kinds[kind].decode(&d, &root);
    if (json_fault(json))
        result = field_bad(&d, &root, "%s", json_fault(json));
    free(d.warnings);
    if (result == 0 && kind == KIND_SERVICE)
        decode_uid(json, &out->service->uid);
    if (result) {
        drop_payload(out);
        out->uid = decode_own_uid(json);
        return DECODE_BAD;
    }
    move_version(out);
    return DECODE_OK;
}
