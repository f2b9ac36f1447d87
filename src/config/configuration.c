/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The values: read from a file, and written as options, as flags and as a file.
 * src/config/settle.c has what is checked and filled in. */
#include "setting.h"

#include "kube-nftd/base.h"
#include "kube-nftd/values.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define API_VERSION "kubeproxy.config.k8s.io/v1alpha1"
#define KIND "KubeProxyConfiguration"

/* Far more than any configuration has. */
#define MOST_BYTES ((size_t)1024 * 1024)

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

/* ---- from a file ---- */

struct file_reader {
    struct configuration *configuration;
    char *unknown, *duplicate; /* paths between commas */
};

/* The caller frees it. */
static char *path_of(const char *section, const char *name)
{
    return xasprintf("%s%s%s", section, *section ? "." : "", name);
}

/* Leaves the last one of members of one name. */
static void drop_duplicates(struct file_reader *reader, cJSON *object, const char *path)
{
    cJSON *next;
    for (cJSON *member = object->child; member; member = next) {
        const cJSON *later = next = member->next;
        while (later && strcmp(later->string, member->string) != 0)
            later = later->next;
        if (!later)
            continue;
        char *twice = path_of(path, member->string);
        xjoin(&reader->duplicate, "%s", twice);
        free(twice);
        cJSON_Delete(cJSON_DetachItemViaPointer(object, member));
    }
}

/* In all objects below @json. */
static void drop_all_duplicates(struct file_reader *reader, cJSON *json, const char *path)
{
    cJSON *child;
    int i = 0;
    if (cJSON_IsObject(json))
        drop_duplicates(reader, json, path);
    cJSON_ArrayForEach (child, json) {
        char *below = child->string ? path_of(path, child->string) : xasprintf("%s[%d]", path, i++);
        drop_all_duplicates(reader, child, below);
        free(below);
    }
}

static int read_fields(struct file_reader *reader, const cJSON *section, const char *path,
                       struct error *err);

static int read_setting(struct file_reader *reader, const struct setting *setting,
                        const cJSON *json, struct error *err)
{
    struct configuration *configuration = reader->configuration;
    if (configuration_of(configuration, setting)->source == FROM_FLAG)
        return 0;
    cJSON *value = setting_read_json(setting, json, err);
    if (!value)
        return error_prefix(err, "%s", setting->field);
    configuration_set(configuration, setting, value, FROM_FILE);
    return 0;
}

static int read_field(struct file_reader *reader, const cJSON *json, const char *path,
                      struct error *err)
{
    const struct setting *setting = setting_by_field(path);
    if (setting)
        return read_setting(reader, setting, json, err);
    if (!setting_is_section(path)) {
        xjoin(&reader->unknown, "%s", path);
        return 0;
    }
    if (cJSON_IsNull(json))
        return 0;
    if (!cJSON_IsObject(json)) {
        setting_wrong_type(json, "a mapping", err);
        return error_prefix(err, "%s", path);
    }
    return read_fields(reader, json, path, err);
}

static int read_fields(struct file_reader *reader, const cJSON *section, const char *path,
                       struct error *err)
{
    const cJSON *member;
    int result = 0;
    cJSON_ArrayForEach (member, section) {
        char *below = path_of(path, member->string);
        result = read_field(reader, member, below, err);
        free(below);
        if (result)
            break;
    }
    return result;
}

static bool is_of_vmodule(const cJSON *member)
{
    return strcmp(member->string, "filePattern") == 0 || strcmp(member->string, "verbosity") == 0;
}

/* Drops them from the entries of logging.vmodule, whose members alone are not in the table. */
static void drop_unknown_in_vmodule(struct file_reader *reader)
{
    const struct setting *setting = setting_by_field("logging.vmodule");
    const struct configured *value = configuration_of(reader->configuration, setting);
    cJSON *entry, *member, *next;
    int i = 0;
    if (value->source != FROM_FILE)
        return;
    cJSON_ArrayForEach (entry, value->json) {
        for (member = entry->child; member; member = next) {
            next = member->next;
            if (is_of_vmodule(member))
                continue;
            xjoin(&reader->unknown, "%s[%d].%s", setting->field, i, member->string);
            cJSON_Delete(cJSON_DetachItemViaPointer(entry, member));
        }
        i++;
    }
}

static int check_identity(const cJSON *root, const char *member, const char *wanted,
                          struct error *err)
{
    const cJSON *json = cJSON_GetObjectItemCaseSensitive(root, member);
    if (!json || cJSON_IsNull(json))
        return error_set(err, "%s is missing, it must be %s", member, wanted);
    if (cJSON_IsString(json) && strcmp(json->valuestring, wanted) == 0)
        return 0;
    if (!cJSON_IsString(json)) {
        setting_wrong_type(json, "a string", err);
        return error_prefix(err, "%s", member);
    }
    return error_set(err, "%s is \"%s\", but must be %s", member, json->valuestring, wanted);
}

static int read_root(struct file_reader *reader, cJSON *root, struct error *err)
{
    if (!cJSON_IsObject(root))
        return error_set(err, "not a %s", KIND);
    drop_all_duplicates(reader, root, "");
    if (check_identity(root, "apiVersion", API_VERSION, err) ||
        check_identity(root, "kind", KIND, err) || read_fields(reader, root, "", err))
        return -1;
    drop_unknown_in_vmodule(reader);
    return 0;
}

/* One line for all of them. */
static void note_oddities(const struct file_reader *reader, note_vec *notes)
{
    const char *unknown = reader->unknown, *duplicate = reader->duplicate;
    if (!unknown && !duplicate)
        return;
    char *text = xasprintf(
        "%s:%s%s%s%s%s", reader->configuration->file, unknown ? " unknown fields: " : "",
        unknown ? unknown : "", unknown && duplicate ? ";" : "",
        duplicate ? " duplicate fields, the last one is used: " : "", duplicate ? duplicate : "");
    vec_push(notes, (struct note){NOTE_WARNING, text});
}

int config_file_read_text(const char *name, const char *text, size_t length,
                          struct configuration *configuration, note_vec *notes, struct error *err)
{
    struct file_reader reader = {.configuration = configuration};
    free(configuration->file);
    configuration->file = xstrdup(name);
    cJSON *root = yaml_parse(text, length, true, err);
    int result = root ? read_root(&reader, root, err) : -1;
    cJSON_Delete(root);
    if (result == 0)
        note_oddities(&reader, notes);
    free(reader.unknown);
    free(reader.duplicate);
    return result ? error_prefix(err, "--config %s", name) : 0;
}

int config_file_read(const char *path, struct configuration *configuration, note_vec *notes,
                     struct error *err)
{
    char *text = file_read(path, MOST_BYTES, err);
    if (!text)
        return error_prefix(err, "--config %s", path);
    int result = config_file_read_text(path, text, strlen(text), configuration, notes, err);
    free(text);
    return result;
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

int config_file_write(const char *path, const cJSON *tree, struct error *err)
{
    FILE *file = fopen(path, "we");
    if (!file)
        return error_set(err, "--write-config-to %s: %s", path, strerror(errno));
    int result = yaml_write(file, tree, err);
    if (fclose(file) != 0 && result == 0)
        return error_set(err, "--write-config-to %s: %s", path, strerror(errno));
    return result < 0 ? error_prefix(err, "--write-config-to %s", path) : 0;
}
