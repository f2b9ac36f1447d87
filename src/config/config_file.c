/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Reads the file of --config, a KubeProxyConfiguration, as kube-proxy does: unknown and duplicate
 * fields are only reported. */
#include "setting.h"

#include "kube-nftd/base.h"
#include "kube-nftd/values.h"

#include <stdlib.h>
#include <string.h>

#define MOST_BYTES ((size_t)1024 * 1024)

struct file_reader {
    struct configuration *configuration;
    char *unknown, *duplicate; /* comma-separated paths */
};

/* Keeps only the last of several members of one name, in all objects below @json. */
static void drop_duplicates(struct file_reader *reader, cJSON *json, const char *path)
{
    cJSON *next;
    int i = 0;
    for (cJSON *member = json->child; member; member = next) {
        const cJSON *later = next = member->next;
        char *below = member->string ? xasprintf("%s%s%s", path, *path ? "." : "", member->string)
                                     : xasprintf("%s[%d]", path, i++);
        while (later && member->string && strcmp(later->string, member->string) != 0)
            later = later->next;
        if (later && member->string) {
            xjoin(&reader->duplicate, "%s", below);
            cJSON_Delete(cJSON_DetachItemViaPointer(json, member));
        } else {
            drop_duplicates(reader, member, below);
        }
        free(below);
    }
}

/* The members of logging.vmodule's entries are the only ones that the table lacks. */
static void find_unknown_in_vmodule(struct file_reader *reader, const cJSON *list, const char *path)
{
    const cJSON *entry, *member;
    int i = 0;
    cJSON_ArrayForEach (entry, list) {
        cJSON_ArrayForEach (member, entry)
            if (member->string && setting_choice("filePattern, verbosity", member->string) < 0)
                xjoin(&reader->unknown, "%s[%d].%s", path, i, member->string);
        i++;
    }
}

static int read_setting(struct file_reader *reader, const struct setting *setting,
                        const cJSON *json, struct error *err)
{
    if (configuration_of(reader->configuration, setting)->source == FROM_FLAG)
        return 0;
    char *value = setting_read_json(setting, json, err);
    if (!value)
        return error_prefix(err, "%s", setting->field);
    configuration_set(reader->configuration, setting, value, FROM_FILE);
    if (setting->type == SETTING_VMODULE)
        find_unknown_in_vmodule(reader, json, setting->field);
    return 0;
}

/* Reads the members of @section at @path. */
static int read_fields(struct file_reader *reader, const cJSON *section, const char *path,
                       struct error *err)
{
    const cJSON *member;
    int result = 0;
    cJSON_ArrayForEach (member, section) {
        char *below = xasprintf("%s%s%s", path, *path ? "." : "", member->string);
        const struct setting *setting = setting_by_field(below);
        bool is_section = false;
        settings_each (other)
            is_section = is_section || setting_is_below(other->field, below);
        if (setting) {
            result = read_setting(reader, setting, member, err);
        } else if (!is_section) {
            xjoin(&reader->unknown, "%s", below);
        } else if (cJSON_IsObject(member)) {
            result = read_fields(reader, member, below, err);
        } else if (!cJSON_IsNull(member)) {
            setting_wrong_type(member, "a mapping", err);
            result = error_prefix(err, "%s", below);
        }
        free(below);
        if (result)
            break;
    }
    return result;
}

/* The defaults of these fields are the required kind and version. */
static int check_identity(const cJSON *root, const char *field, struct error *err)
{
    const cJSON *json = cJSON_GetObjectItemCaseSensitive(root, field);
    const char *required = setting_by_field(field)->standard;
    if (!json || cJSON_IsNull(json))
        return error_set(err, "%s is missing, it must be %s", field, required);
    if (!cJSON_IsString(json)) {
        setting_wrong_type(json, "a string", err);
        return error_prefix(err, "%s", field);
    }
    if (strcmp(json->valuestring, required) == 0)
        return 0;
    return error_set(err, "%s is \"%s\", but must be %s", field, json->valuestring, required);
}

static int read_root(struct file_reader *reader, cJSON *root, struct error *err)
{
    if (!cJSON_IsObject(root))
        return error_set(err, "not a %s", setting_by_field("kind")->standard);
    drop_duplicates(reader, root, "");
    return check_identity(root, "apiVersion", err) || check_identity(root, "kind", err)
               ? -1
               : read_fields(reader, root, "", err);
}

/* Drops the flags that do not apply with a file (docs/behaviour.md 8.1). */
static void drop_flags(struct configuration *configuration)
{
    char *names = NULL;
    settings_each (setting) {
        bool gives_way = (setting->field && !(setting->traits & BESIDE_FILE)) ||
                         (setting->traits & NOT_BESIDE_FILE);
        if (!gives_way || configuration_of(configuration, setting)->source != FROM_FLAG)
            continue;
        configuration_set(configuration, setting, NULL, FROM_NOWHERE);
        if (setting_is_first(setting))
            xjoin(&names, "--%s", setting->flag);
    }
    if (names)
        configuration_note(configuration, LOG_LEVEL_WARN, "flags ignored because of --config: %s",
                           names);
    free(names);
}

int configuration_read(struct configuration *configuration, const char *path, const char *text,
                       size_t length, struct error *err)
{
    struct file_reader reader = {.configuration = configuration};
    drop_flags(configuration);
    cJSON *root = yaml_parse(text, length, true, err);
    int result = root ? read_root(&reader, root, err) : -1;
    const char *unknown = reader.unknown, *duplicate = reader.duplicate;
    if (result == 0 && (unknown || duplicate))
        configuration_note(configuration, LOG_LEVEL_WARN, "%s:%s%s%s%s%s", path,
                           unknown ? " unknown fields: " : "", unknown ? unknown : "",
                           unknown && duplicate ? ";" : "",
                           duplicate ? " duplicate fields, the last one is used: " : "",
                           duplicate ? duplicate : "");
    cJSON_Delete(root);
    free(reader.unknown);
    free(reader.duplicate);
    return result;
}

int configuration_read_file(struct configuration *configuration, struct error *err)
{
    const char *path = configuration_value(configuration, "config");
    if (!*path)
        return 0;
    char *text = file_read(path, MOST_BYTES, err);
    const int result = text ? configuration_read(configuration, path, text, strlen(text), err) : -1;
    free(text);
    return result ? error_prefix(err, "--config %s", path) : 0;
}
