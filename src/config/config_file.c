/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "configuration.h"

#include "kube-nftd/base/alloc.h"
#include "kube-nftd/base/file.h"
#include "kube-nftd/base/yaml.h"
#include "kube-nftd/base/yaml_writer.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define API_VERSION "kubeproxy.config.k8s.io/v1alpha1"
#define KIND "KubeProxyConfiguration"

/* Far more than any configuration has. */
#define MOST_BYTES ((size_t)1024 * 1024)

struct file_reader {
    struct configuration *configuration;
    char *unknown, *duplicate; /* paths between commas */
};

/* The caller frees it. */
static char *path_of(const char *section, const char *name)
{
    return xasprintf("%s%s%s", section, *section ? "." : "", name);
}

/* ---- what is there twice ---- */

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

/* ---- fields ---- */

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

/* ---- the whole ---- */

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
    cJSON *root = yaml_parse_lenient(text, length, err);
    int result = root ? read_root(&reader, root, err) : -1;
    cJSON_Delete(root);
    if (result == 0)
        note_oddities(&reader, notes);
    free(reader.unknown);
    free(reader.duplicate);
    return result ? error_prefix(err, "--config %s", name) : 0;
}

/* ---- files ---- */

static int fail_file(const char *path, const char *what, struct error *err)
{
    return error_set(err, "%s %s: %s", what, path, strerror(errno));
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

int config_file_write(const char *path, const cJSON *tree, struct error *err)
{
    FILE *file = fopen(path, "we");
    if (!file)
        return fail_file(path, "--write-config-to", err);
    int result = yaml_write(file, tree, err);
    if (fclose(file) != 0 && result == 0)
        return fail_file(path, "--write-config-to", err);
    return result < 0 ? error_prefix(err, "--write-config-to %s", path) : 0;
}
