/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The values; src/config/settle.c has what is checked and filled in. */
#include "configuration.h"

#include "kube-nftd/base/alloc.h"
#include "kube-nftd/base/duration.h"

#include <string.h>

void configuration_init(struct configuration *configuration)
{
    *configuration = (struct configuration){
        .values = xcalloc(settings_count, sizeof(struct configured)),
    };
}

void configuration_clear(struct configuration *configuration)
{
    for (size_t i = 0; configuration->values && i < settings_count; i++)
        cJSON_Delete(configuration->values[i].json);
    free(configuration->values);
    free(configuration->file);
    memset(configuration, 0, sizeof(*configuration));
}

struct configured *configuration_of(const struct configuration *configuration,
                                    const struct setting *setting)
{
    return &configuration->values[setting - settings];
}

void configuration_set(struct configuration *configuration, const struct setting *setting,
                       cJSON *json, enum setting_source source)
{
    struct configured *value = configuration_of(configuration, setting);
    cJSON_Delete(value->json);
    *value = (struct configured){json, source};
}

int configuration_blame(const struct configuration *configuration, const struct setting *setting,
                        struct error *err)
{
    const struct configured *value = configuration_of(configuration, setting);
    if (configuration->file && value->source != FROM_FLAG)
        return error_prefix(err, "--config %s: %s", configuration->file, setting->field);
    char *flag = setting_flag_name(setting);
    error_prefix(err, "%s", flag);
    free(flag);
    return -1;
}

/* ---- into options ---- */

static bool is_given(const struct configuration *configuration, const char *field)
{
    enum setting_source source = configuration_of(configuration, setting_by_field(field))->source;
    return source == FROM_FLAG || source == FROM_FILE;
}

/* An address that is none is taken out. */
static void drop_unspecified_address(struct options *options)
{
    static const struct address none;
    enum family family;
    struct address address;
    if (!options->bind_address || !address_parse(options->bind_address, &family, &address) ||
        memcmp(&address, &none, sizeof(none)) != 0)
        return;
    free(options->bind_address);
    options->bind_address = NULL;
}

void configuration_land(const struct configuration *configuration, struct options *options)
{
    for (size_t i = 0; i < settings_count; i++)
        setting_land(&settings[i], configuration->values[i].json, options);
    drop_unspecified_address(options);
    options->conntrack.max_given =
        is_given(configuration, "conntrack.maxPerCore") || is_given(configuration, "conntrack.min");
    const struct setting *gates = setting_by_field("featureGates");
    options->no_external_ips = cJSON_IsFalse(cJSON_GetObjectItemCaseSensitive(
        configuration_of(configuration, gates)->json, "AllowServiceExternalIPs"));
}

/* ---- as flags ---- */

/* A text as it is, everything else as JSON. */
static void write_value(FILE *out, const cJSON *json)
{
    if (!json || cJSON_IsNull(json))
        return;
    char *text = cJSON_IsString(json) ? xstrdup(json->valuestring) : cJSON_PrintUnformatted(json);
    fputs(text, out);
    free(text);
}

static int compare_flags(const void *a, const void *b)
{
    const struct setting *const *first = a, *const *second = b;
    return strcmp((*first)->flag, (*second)->flag);
}

char *configuration_flags(const struct configuration *configuration)
{
    VEC(const struct setting *) flags = {0};
    char *text;
    size_t length;
    FILE *out = open_memstream(&text, &length);
    if (!out)
        alloc_failed();
    for (size_t i = 0; i < settings_count; i++)
        if (settings[i].flag &&
            setting_by_flag(settings[i].flag, strlen(settings[i].flag)) == &settings[i])
            vec_push(&flags, &settings[i]);
    if (flags.n > 0)
        qsort(flags.v, flags.n, sizeof(*flags.v), compare_flags);
    vec_each (&flags, flag) {
        fprintf(out, "%s=", (*flag)->flag);
        write_value(out, configuration_of(configuration, *flag)->json);
        fputc('\n', out);
    }
    vec_free(&flags);
    if (fclose(out) != 0)
        alloc_failed();
    return text;
}

/* ---- as a tree ---- */

/* What a file has where nothing is set. */
static cJSON *nothing(enum setting_type type)
{
    if (type == SETTING_GATES)
        return cJSON_CreateObject();
    if (type == SETTING_CIDRS || type == SETTING_NODE_PORTS || type == SETTING_VMODULE)
        return cJSON_CreateNull();
    return cJSON_CreateString("");
}

static cJSON *written(const struct setting *setting, const cJSON *json)
{
    int64_t nanoseconds;
    bool is_duration = setting->type == SETTING_DURATION || setting->type == SETTING_SECONDS ||
                       setting->type == SETTING_FLUSH;
    if (!json || cJSON_IsNull(json))
        return nothing(setting->type);
    if (!is_duration || !duration_parse(json->valuestring, &nanoseconds))
        return cJSON_Duplicate(json, true);
    char *text = duration_format(nanoseconds);
    cJSON *value = cJSON_CreateString(text);
    free(text);
    return value;
}

/* Puts @value, which is taken, at @path, making sections on the way. */
static void put_at(cJSON *tree, const char *path, cJSON *value)
{
    const char *dot;
    while ((dot = strchr(path, '.'))) {
        char *name = xstrndup(path, (size_t)(dot - path));
        cJSON *section = cJSON_GetObjectItemCaseSensitive(tree, name);
        tree = section ? section : cJSON_AddObjectToObject(tree, name);
        free(name);
        path = dot + 1;
    }
    cJSON_AddItemToObject(tree, path, value);
}

static int compare_fields(const void *a, const void *b)
{
    const struct setting *const *first = a, *const *second = b;
    return strcmp((*first)->field, (*second)->field);
}

cJSON *configuration_tree(const struct configuration *configuration)
{
    cJSON *tree = cJSON_CreateObject();
    VEC(const struct setting *) fields = {0};
    for (size_t i = 0; i < settings_count; i++)
        if (settings[i].field)
            vec_push(&fields, &settings[i]);
    if (fields.n > 0)
        qsort(fields.v, fields.n, sizeof(*fields.v), compare_fields);
    vec_each (&fields, field)
        put_at(tree, (*field)->field,
               written(*field, configuration_of(configuration, *field)->json));
    vec_free(&fields);
    return tree;
}
