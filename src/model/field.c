/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "field.h"

#include "kube-nftd/base.h"
#include "kube-nftd/values.h"

#include <math.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#define WARNINGS_NAMED 5

/* Bytes of a value that an error quotes. */
#define QUOTED_LIMIT 80
/* And of an id: more than the API allows for a namespace (63), a slash and a name (253). */
#define ID_LIMIT 400

static char *path_text(const struct field_path *path)
{
    if (!path)
        return xstrdup("");
    char *up = path_text(path->up);
    char *text = path->key ? xasprintf("%s%s%s", up, *up ? "." : "", path->key)
                           : xasprintf("%s[%d]", up, path->index);
    free(up);
    return text;
}

/* A value that is quoted at the begin of @text is cut in place: it may be megabytes long. The last
 * quote is the one behind it. */
static void cut_quoted(char *text)
{
    static const char dots[] = "...";
    char *end = strrchr(text, '"');
    if (*text != '"' || end - text - 1 <= QUOTED_LIMIT + (ptrdiff_t)strlen(dots))
        return;
    char *cut = text + 1 + QUOTED_LIMIT;
    while (((unsigned char)*cut & 0xc0) == 0x80 && cut > text + 1 + QUOTED_LIMIT - 4)
        cut--; /* to where a character begins */
    for (const char *dot = dots; *dot; dot++)
        *cut++ = *dot;
    memmove(cut, end, strlen(end) + 1);
}

/* "spec.ports[1].port: 70000 is not within 1..65535" */
static char *complaint(const struct field_path *path, const char *format, va_list args)
    __attribute__((format(printf, 2, 0)));

static char *complaint(const struct field_path *path, const char *format, va_list args)
{
    char *what = xvasprintf(format, args), *where = path_text(path);
    cut_quoted(what);
    char *text = xasprintf("%s%s%s", where, *where ? ": " : "", what);
    free(where);
    free(what);
    return text;
}

int field_bad(struct decoder *d, const struct field_path *path, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    char *text = complaint(path, format, args);
    va_end(args);
    error_set(d->err, "%s %.*s: %s", object_kind_name(d->out->kind), ID_LIMIT,
              d->out->id ? d->out->id : "(no name)", text);
    free(text);
    return -1;
}

static void add_warning(struct decoder *d, char *text)
{
    if (!d->warnings) {
        d->warnings = text;
        return;
    }
    char *longer = xasprintf("%s; %s", d->warnings, text);
    free(d->warnings);
    free(text);
    d->warnings = longer;
}

void field_warn(struct decoder *d, const struct field_path *path, const char *format, ...)
{
    va_list args;
    if (d->n_warnings++ >= WARNINGS_NAMED)
        return;
    va_start(args, format);
    add_warning(d, complaint(path, format, args));
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

/* "80.0": it is no integer if it is not written like one. */
static char *shown_number(const struct json_value *value)
{
    bool whole = value->number == floor(value->number) && fabs(value->number) < 1e15;
    return xasprintf(whole && !value->integer ? "%.1f" : "%.15g", value->number);
}

/* What a value of a wrong type looks like; the caller frees it. */
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

int field_is_not(struct decoder *d, const struct json_value *value, const struct field_path *path,
                 const char *what)
{
    if (json_is(value, JSON_BAD_STRING))
        return field_bad(d, path, "\"%s\" %s", value->string,
                         strstr(value->string, "\xc0\x80") ? "has a NUL" : "is not UTF-8");
    char *text = shown(value);
    field_bad(d, path, "%s is not %s", text, what);
    free(text);
    return -1;
}

static int each(struct decoder *d, const struct json_value *object,
                const struct field_path *list_path, bool objects, field_entry_fn take, void *ctx)
{
    const struct json_value *list;
    if (field_list(d, object, list_path->up, list_path->key, &list))
        return -1;
    int i = 0;
    json_each (list, entry) {
        struct field_path path = {list_path, NULL, i++};
        if (objects ? !json_is(entry, JSON_OBJECT) : !json_is(entry, JSON_STRING))
            return field_is_not(d, entry, &path, objects ? "an object" : "a string");
        if (take(d, entry, &path, ctx))
            return -1;
    }
    return 0;
}

int field_each_object(struct decoder *d, const struct json_value *object,
                      const struct field_path *up, const char *key, field_entry_fn take, void *ctx)
{
    return each(d, object, &(struct field_path){up, key, 0}, true, take, ctx);
}

int field_each_string(struct decoder *d, const struct json_value *object,
                      const struct field_path *up, const char *key, field_entry_fn take, void *ctx)
{
    return each(d, object, &(struct field_path){up, key, 0}, false, take, ctx);
}

int field_integer(struct decoder *d, const struct json_value *object, const struct field_path *up,
                  const char *key, uint32_t min, uint32_t max, uint32_t *out)
{
    const struct json_value *value = json_member(object, key);
    struct field_path path = {up, key, 0};
    if (!value)
        return 0;
    if (!json_is(value, JSON_NUMBER))
        return field_is_not(d, value, &path, "a number");
    double number = value->number;
    if (!value->integer || !isfinite(number)) /* as of too many digits */
        return field_is_not(d, value, &path, "an integer");
    if (number < min || number > max)
        return field_bad(d, &path, "%.15g is not within %u..%u", number, min, max);
    *out = (uint32_t)number;
    return 0;
}

int field_time(struct decoder *d, const struct json_value *object, const struct field_path *up,
               const char *key, int64_t *out)
{
    const struct json_value *value = json_find(object, key);
    const char *text;
    if (json_is(value, JSON_TIME)) {
        *out = value->seconds;
        return 0;
    }
    if (field_as_string(d, value, up, key, &text))
        return -1;
    if (text && !clock_parse_seconds(text, out))
        return field_bad(d, &(struct field_path){up, key, 0},
                         "\"%s\" is not a time of RFC 3339 in whole seconds", text);
    return 0;
}

int field_choice(struct decoder *d, const struct json_value *object, const struct field_path *up,
                 const char *key, const char *usual, const char *special, bool *out)
{
    const char *text;
    if (field_string(d, object, up, key, &text))
        return -1;
    *out = text && strcmp(text, special) == 0;
    if (text && !*out && strcmp(text, usual) != 0)
        field_warn(d, &(struct field_path){up, key, 0}, "\"%s\" is not %s or %s, taken for %s",
                   text, usual, special, usual);
    return 0;
}

/* @min is 0 where the API takes 0 for absent. */
int field_port(struct decoder *d, const struct json_value *object, const struct field_path *up,
               const char *key, int min, uint16_t *out)
{
    uint32_t port = 0;
    if (min > 0 && !json_member(object, key))
        return field_bad(d, &(struct field_path){up, key, 0}, "missing");
    if (field_integer(d, object, up, key, (uint32_t)min, UINT16_MAX, &port))
        return -1;
    *out = (uint16_t)port;
    return 0;
}

int field_cidr(struct decoder *d, const struct json_value *value, const struct field_path *path,
               bool has_cidr[FAMILY_COUNT], struct cidr cidrs[FAMILY_COUNT])
{
    enum family family;
    struct cidr cidr;
    if (!cidr_parse(value->string, &family, &cidr))
        return field_bad(d, path, "\"%s\" is not a CIDR", value->string);
    if (!has_cidr[family])
        cidrs[family] = cidr;
    has_cidr[family] = true;
    return 0;
}

int field_protocol(struct decoder *d, const struct json_value *object, const struct field_path *up,
                   uint8_t *out)
{
    const char *name;
    if (field_string(d, object, up, "protocol", &name))
        return -1;
    *out = protocol_parse(name ? name : "TCP");
    if (!*out)
        return field_bad(d, &(struct field_path){up, "protocol", 0},
                         "\"%s\" is not TCP, UDP or SCTP", name);
    return 0;
}
