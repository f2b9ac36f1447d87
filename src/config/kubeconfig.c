/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Reads a kubeconfig: current-context names a context, that names a cluster and a user, and the
 * fields of these two are what is wanted. Only the entries so chosen are judged; what others in
 * the file hold may well be for other programs.
 */
#include "kube-nftd/config/kubeconfig.h"

#include "kube-nftd/base/alloc.h"
#include "kube-nftd/base/yaml.h"
#include "kube-nftd/config/kubeconfig_entry.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SIZE_LIMIT ((size_t)4 * 1024 * 1024)

/* Checks the element @index of @list; *@found says whether it is the one with @name. */
static int look_at(const cJSON *element, const char *name, struct kubeconfig_entry *entry,
                   bool *found, struct error *err)
{
    const cJSON *own = kubeconfig_member(element, "name");
    if (!cJSON_IsString(own))
        return error_set(err, "%s: %s[%d].name: must be a string", entry->path, entry->list,
                         entry->index);
    *found = strcmp(own->valuestring, name) == 0;
    if (!*found)
        return 0;
    entry->body = kubeconfig_member(element, entry->kind);
    if (entry->body && !cJSON_IsObject(entry->body))
        return error_set(err, "%s: %s[%d].%s: must be a mapping", entry->path, entry->list,
                         entry->index, entry->kind);
    return 0;
}

/* Fills the rest of @entry (path, list and kind are given) with the element that has @name. */
static int find_entry(const cJSON *root, const char *name, struct kubeconfig_entry *entry,
                      struct error *err)
{
    const cJSON *list = kubeconfig_member(root, entry->list);
    if (list && !cJSON_IsArray(list))
        return error_set(err, "%s: %s: must be a list", entry->path, entry->list);
    entry->index = 0;
    const cJSON *element;
    cJSON_ArrayForEach (element, list) {
        bool found = false;
        if (look_at(element, name, entry, &found, err) < 0)
            return -1;
        if (found)
            return 0;
        entry->index++;
    }
    return error_set(err, "%s: %s: there is no \"%s\"", entry->path, entry->list, name);
}

static int read_context(const char *path, const cJSON *root, const char *name,
                        struct client_config *config, struct error *err)
{
    struct kubeconfig_entry context = {.path = path, .list = "contexts", .kind = "context"};
    struct kubeconfig_entry cluster = {.path = path, .list = "clusters", .kind = "cluster"};
    struct kubeconfig_entry user = {.path = path, .list = "users", .kind = "user"};
    const char *cluster_name, *user_name;
    if (find_entry(root, name, &context, err) < 0 ||
        kubeconfig_text(&context, "cluster", &cluster_name, err) < 0 ||
        kubeconfig_text(&context, "user", &user_name, err) < 0)
        return -1;
    if (!cluster_name) {
        error_set(err, "missing");
        return kubeconfig_blame(&context, "cluster", err);
    }
    if (find_entry(root, cluster_name, &cluster, err) < 0 ||
        kubeconfig_read_cluster(&cluster, config, err) < 0)
        return -1;
    if (!user_name)
        return 0;
    return find_entry(root, user_name, &user, err) < 0 ? -1
                                                       : kubeconfig_read_user(&user, config, err);
}

static bool says_nothing(const cJSON *root)
{
    static const char *const parts[] = {"clusters", "contexts", "users"};
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
        const cJSON *part = kubeconfig_member(root, parts[i]);
        if (part && (!cJSON_IsArray(part) || cJSON_GetArraySize(part) > 0))
            return false;
    }
    const cJSON *current = kubeconfig_member(root, "current-context");
    return !current || (cJSON_IsString(current) && !*current->valuestring);
}

static int read_root(const char *path, const cJSON *root, struct client_config *config,
                     struct error *err)
{
    if (cJSON_IsNull(root))
        return 0;
    if (!cJSON_IsObject(root))
        return error_set(err, "%s: is not a kubeconfig: not a mapping", path);
    const cJSON *kind = kubeconfig_member(root, "kind");
    if (kind && (!cJSON_IsString(kind) || strcmp(kind->valuestring, "Config") != 0))
        return error_set(err, "%s: is not a kubeconfig: kind is not Config", path);
    if (says_nothing(root))
        return 0;
    const cJSON *current = kubeconfig_member(root, "current-context");
    if (current && !cJSON_IsString(current))
        return error_set(err, "%s: current-context: must be a string", path);
    if (!current || !*current->valuestring)
        return error_set(err, "%s: current-context: missing", path);
    return read_context(path, root, current->valuestring, config, err);
}

static char *read_file(const char *path, size_t *length, struct error *err)
{
    FILE *file = fopen(path, "re");
    if (!file) {
        error_set(err, "%s: %s", path, strerror(errno));
        return NULL;
    }
    char *text = NULL;
    size_t n = 0, got;
    do {
        text = xreallocarray(text, n + 65536, 1);
        got = fread(text + n, 1, 65536, file);
        n += got;
    } while (got > 0 && n <= SIZE_LIMIT);
    int failed = 0;
    if (ferror(file))
        failed = error_set(err, "%s: %s", path, strerror(errno));
    else if (n > SIZE_LIMIT)
        failed = error_set(err, "%s: is larger than %zu bytes", path, SIZE_LIMIT);
    fclose(file);
    *length = n;
    if (!failed)
        return text;
    free(text);
    return NULL;
}

/* Whether there is nothing but blanks and comments, which is no YAML document at all. */
static bool is_blank(const char *text, size_t length)
{
    bool comment = false;
    for (size_t i = 0; i < length; i++) {
        if (text[i] == '\n')
            comment = false;
        else if (text[i] == '#')
            comment = true;
        else if (!comment && text[i] != ' ' && text[i] != '\t' && text[i] != '\r')
            return false;
    }
    return true;
}

int kubeconfig_read(const char *path, struct client_config *config, struct error *err)
{
    size_t length;
    char *text = read_file(path, &length, err);
    if (!text)
        return -1;
    cJSON *root = NULL;
    int result = 0;
    if (!is_blank(text, length)) {
        root = yaml_parse(text, length, err);
        result = root ? read_root(path, root, config, err) : error_prefix(err, "%s", path);
    }
    cJSON_Delete(root);
    free(text);
    return result;
}
