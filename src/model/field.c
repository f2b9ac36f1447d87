/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "kube-nftd/model/field.h"

#include "kube-nftd/base/json.h"

#include <math.h>
#include <stdarg.h>
#include <string.h>

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

int field_bad(struct decoder *d, const struct field_path *path, const char *format, ...)
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

int field_string(struct decoder *d, const cJSON *object, const struct field_path *up,
                 const char *key, const char **out)
{
    const cJSON *value = json_member(object, key);
    *out = NULL;
    if (!value)
        return 0;
    if (!cJSON_IsString(value))
        return field_bad(d, &(struct field_path){up, key, 0}, "not a string");
    *out = value->valuestring;
    return 0;
}

static int get_container(struct decoder *d, const cJSON *object, const struct field_path *up,
                         const char *key, bool list, const cJSON **out)
{
    const cJSON *value = json_member(object, key);
    *out = NULL;
    if (!value)
        return 0;
    if (list ? !cJSON_IsArray(value) : !cJSON_IsObject(value))
        return field_bad(d, &(struct field_path){up, key, 0},
                         list ? "not a list" : "not an object");
    *out = value;
    return 0;
}

int field_list(struct decoder *d, const cJSON *object, const struct field_path *up, const char *key,
               const cJSON **out)
{
    return get_container(d, object, up, key, true, out);
}

int field_object(struct decoder *d, const cJSON *object, const struct field_path *up,
                 const char *key, const cJSON **out)
{
    return get_container(d, object, up, key, false, out);
}

/* A port number; absent ones are 0. @min is 0 where the API takes 0 for absent. */
int field_port(struct decoder *d, const cJSON *object, const struct field_path *up, const char *key,
               int min, uint16_t *out)
{
    const cJSON *value = json_member(object, key);
    struct field_path path = {up, key, 0};
    *out = 0;
    if (!value)
        return min > 0 ? field_bad(d, &path, "missing") : 0;
    if (!cJSON_IsNumber(value))
        return field_bad(d, &path, "not a number");
    double number = value->valuedouble;
    if (number != floor(number) || number < min || number > UINT16_MAX)
        return field_bad(d, &path, "%.15g is not within %d..65535", number, min);
    *out = (uint16_t)number;
    return 0;
}

int field_protocol(struct decoder *d, const cJSON *object, const struct field_path *up,
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

/* @flag is set in @flags if the boolean @key is true, or absent and @absent_means. */
int field_flag(struct decoder *d, const cJSON *object, const struct field_path *up, const char *key,
               bool absent_means, uint8_t flag, uint8_t *flags)
{
    const cJSON *value = json_member(object, key);
    if (value && !cJSON_IsBool(value))
        return field_bad(d, &(struct field_path){up, key, 0}, "not true or false");
    if (value ? cJSON_IsTrue(value) : absent_means)
        *flags |= flag;
    return 0;
}
