/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "kubeconfig.h"

#include "kube-nftd/values.h"
#include "server_url.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SIZE_LIMIT ((size_t)4 * 1024 * 1024)

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* ---- entries ---- */

struct field {
    const char *name;
    enum { TEXT, PATH, DATA, BOOL, UNSUPPORTED } form;
    size_t offset;    /* of the char * or bool in struct client_config */
    const char *hint; /* about a field that is not supported */
};

#define FIELD(member) offsetof(struct client_config, member)

/* Each -data field directly follows the file that it replaces. */
static const struct field cluster_fields[] = {
    {"server", TEXT, FIELD(server), NULL},
    {"certificate-authority", PATH, FIELD(ca_file), NULL},
    {"certificate-authority-data", DATA, FIELD(ca_data), NULL},
    {"tls-server-name", TEXT, FIELD(tls_server_name), NULL},
    {"proxy-url", TEXT, FIELD(proxy_url), NULL},
    {"insecure-skip-tls-verify", BOOL, FIELD(insecure_skip_tls_verify), NULL},
    {"disable-compression", BOOL, FIELD(disable_compression), NULL},
};

#define USE_OTHER "use tokenFile, or client-certificate and client-key"
#define NO_PASSWORD "user name and password are not supported: " USE_OTHER
#define NO_IMPERSONATION "impersonation is not supported: use credentials of that user"

static const struct field user_fields[] = {
    {"exec", UNSUPPORTED, 0, "exec plugins are not supported: " USE_OTHER},
    {"auth-provider", UNSUPPORTED, 0, "auth provider plugins are not supported: " USE_OTHER},
    {"username", UNSUPPORTED, 0, NO_PASSWORD},
    {"password", UNSUPPORTED, 0, NO_PASSWORD},
    {"as", UNSUPPORTED, 0, NO_IMPERSONATION},
    {"as-uid", UNSUPPORTED, 0, NO_IMPERSONATION},
    {"as-groups", UNSUPPORTED, 0, NO_IMPERSONATION},
    {"as-user-extra", UNSUPPORTED, 0, NO_IMPERSONATION},
    {"token", TEXT, FIELD(token), NULL},
    {"tokenFile", PATH, FIELD(token_file), NULL},
    {"client-certificate", PATH, FIELD(client_cert_file), NULL},
    {"client-certificate-data", DATA, FIELD(client_cert_data), NULL},
    {"client-key", PATH, FIELD(client_key_file), NULL},
    {"client-key-data", DATA, FIELD(client_key_data), NULL},
};

/* An entry of one of the three lists. All members are borrowed. */
struct entry {
    const char *path, *folder; /* of the kubeconfig */
    const char *list;          /* clusters, contexts or users */
    const char *kind;          /* cluster, context or user */
    int index;
    const cJSON *body; /* NULL if empty */
};

/* The member @name of @object, NULL for null. */
static const cJSON *member(const cJSON *object, const char *name)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, name);
    return cJSON_IsNull(item) ? NULL : item;
}

static bool is_empty(const cJSON *item)
{
    if (cJSON_IsString(item))
        return !*item->valuestring;
    return !item || ((cJSON_IsArray(item) || cJSON_IsObject(item)) && !item->child);
}

/* Reports @what is wrong with @field of @entry, or, if it is NULL, what @err has. Always -1. */
static int fail(const struct entry *entry, const char *field, const char *what, struct error *err)
{
    if (what)
        error_set(err, "%s", what);
    return error_prefix(err, "%s: %s[%d].%s.%s", entry->path, entry->list, entry->index,
                        entry->kind, field);
}

/* Sets *@text to the string @field, borrowed; NULL if absent or empty. */
static int get_text(const struct entry *entry, const char *field, const char **text,
                    struct error *err)
{
    const cJSON *item = member(entry->body, field);
    *text = NULL;
    if (item && !cJSON_IsString(item))
        return fail(entry, field, "must be a string", err);
    if (item && *item->valuestring)
        *text = item->valuestring;
    return 0;
}

/* Decodes a text. NULL with an error if it is not base64, or of data with NUL bytes. */
static char *decode(const char *text, struct error *err)
{
    size_t length;
    char *data = base64_decode(text, strlen(text), &length);
    if (data && strlen(data) == length)
        return data;
    error_set(err, data ? "is not PEM in base64: it contains NUL bytes" : "is not base64");
    free(data);
    return NULL;
}

static int read_field(const struct entry *entry, const struct field *field,
                      struct client_config *config, struct error *err)
{
    void *place = (char *)config + field->offset;
    const cJSON *item = member(entry->body, field->name);
    const char *text;
    if (field->form == UNSUPPORTED)
        return is_empty(item) ? 0 : fail(entry, field->name, field->hint, err);
    if (field->form == BOOL) {
        if (item && !cJSON_IsBool(item))
            return fail(entry, field->name, "must be true or false", err);
        *(bool *)place = cJSON_IsTrue(item);
        return 0;
    }
    if (get_text(entry, field->name, &text, err))
        return -1;
    if (!text)
        return 0;
    bool relative = field->form == PATH && *text != '/';
    char *value = field->form == DATA ? decode(text, err)
                                      : xasprintf("%s%s", relative ? entry->folder : "", text);
    if (!value)
        return fail(entry, field->name, NULL, err);
    *(char **)place = value;
    if (field->form == DATA) {
        char **file = (char **)(void *)((char *)config + field[-1].offset);
        free(*file);
        *file = NULL;
    }
    return 0;
}

static int read_fields(const struct entry *entry, const struct field *fields, size_t n,
                       struct client_config *config, struct error *err)
{
    for (size_t i = 0; i < n; i++)
        if (read_field(entry, &fields[i], config, err))
            return -1;
    return 0;
}

static int read_cluster(const struct entry *entry, struct client_config *config, struct error *err)
{
    if (read_fields(entry, cluster_fields, COUNT(cluster_fields), config, err))
        return -1;
    if (!config->server)
        return fail(entry, "server", "missing", err);
    char *server = server_url_parse(config->server, err);
    if (!server)
        return fail(entry, "server", NULL, err);
    free(config->server);
    config->server = server;
    if (config->proxy_url && !proxy_url_is_good(config->proxy_url))
        return fail(entry, "proxy-url", "is not an http, https or socks5 URL", err);
    if (config->insecure_skip_tls_verify && (config->ca_data || config->ca_file))
        return fail(entry, "insecure-skip-tls-verify",
                    "excludes the certificate authority of the same cluster", err);
    return 0;
}

static int read_user(const struct entry *entry, struct client_config *config, struct error *err)
{
    if (read_fields(entry, user_fields, COUNT(user_fields), config, err))
        return -1;
    for (const char *s = config->token; s && *s; s++)
        if ((unsigned char)*s <= ' ' || *s == 0x7f)
            return fail(entry, "token", "contains a blank or a line break", err);
    bool cert = config->client_cert_data || config->client_cert_file;
    if (cert && !config->client_key_data && !config->client_key_file)
        return fail(entry, "client-key", "missing, although a client certificate is given", err);
    return 0;
}

/* ---- the kubeconfig ---- */

/* Finds the element @name and completes @entry, whose path, list and kind are set. */
static int find_entry(const cJSON *root, const char *name, struct entry *entry, struct error *err)
{
    const cJSON *list = member(root, entry->list), *element;
    if (list && !cJSON_IsArray(list))
        return error_set(err, "%s: %s: must be a list", entry->path, entry->list);
    cJSON_ArrayForEach (element, list) {
        const cJSON *own = member(element, "name");
        if (!cJSON_IsString(own))
            return error_set(err, "%s: %s[%d].name: must be a string", entry->path, entry->list,
                             entry->index);
        if (strcmp(own->valuestring, name) != 0) {
            entry->index++;
            continue;
        }
        entry->body = member(element, entry->kind);
        if (entry->body && !cJSON_IsObject(entry->body))
            return error_set(err, "%s: %s[%d].%s: must be a mapping", entry->path, entry->list,
                             entry->index, entry->kind);
        return 0;
    }
    return error_set(err, "%s: %s: no entry named \"%s\"", entry->path, entry->list, name);
}

static int read_context(const char *path, const char *folder, const cJSON *root, const char *name,
                        struct client_config *config, struct error *err)
{
    struct entry context = {path, folder, "contexts", "context", 0, NULL};
    struct entry cluster = {path, folder, "clusters", "cluster", 0, NULL};
    struct entry user = {path, folder, "users", "user", 0, NULL};
    const char *cluster_name, *user_name;
    if (find_entry(root, name, &context, err) ||
        get_text(&context, "cluster", &cluster_name, err) ||
        get_text(&context, "user", &user_name, err))
        return -1;
    if (!cluster_name)
        return fail(&context, "cluster", "missing", err);
    if (find_entry(root, cluster_name, &cluster, err) || read_cluster(&cluster, config, err))
        return -1;
    if (!user_name)
        return 0;
    return find_entry(root, user_name, &user, err) ? -1 : read_user(&user, config, err);
}

static int read_root(const char *path, const char *folder, const cJSON *root,
                     struct client_config *config, struct error *err)
{
    const cJSON *kind = member(root, "kind"), *current = member(root, "current-context");
    if (cJSON_IsNull(root))
        return 0;
    if (!cJSON_IsObject(root))
        return error_set(err, "%s: not a kubeconfig: not a mapping", path);
    if (kind && (!cJSON_IsString(kind) || strcmp(kind->valuestring, "Config") != 0))
        return error_set(err, "%s: not a kubeconfig: kind is not Config", path);
    if (is_empty(current) && is_empty(member(root, "clusters")) &&
        is_empty(member(root, "contexts")) && is_empty(member(root, "users")))
        return 0;
    if (current && !cJSON_IsString(current))
        return error_set(err, "%s: current-context: must be a string", path);
    if (is_empty(current))
        return error_set(err, "%s: current-context: missing", path);
    return read_context(path, folder, root, current->valuestring, config, err);
}

/* The folder of the kubeconfig @path, for relative paths in it, with a trailing slash. The caller
 * frees it. */
static char *folder_of(const char *path, struct error *err)
{
    const char *slash = strrchr(path, '/');
    int length = slash ? (int)(slash + 1 - path) : 0;
    char *here = getcwd(NULL, 0), *folder = NULL;
    if (*path == '/')
        folder = xstrndup(path, (size_t)length);
    else if (here)
        folder = xasprintf("%s/%.*s", here, length, path);
    else
        error_set(err, "cannot read the current directory: %s", strerror(errno));
    free(here);
    return folder;
}

int kubeconfig_read(const char *path, struct client_config *config, struct error *err)
{
    char *folder = folder_of(path, err), *text = folder ? file_read(path, SIZE_LIMIT, err) : NULL;
    if (!text) {
        free(folder);
        return error_prefix(err, "%s", path);
    }
    const char *start = text;
    int result = 0;
    while (*(start += strspn(start, " \t\r\n")) == '#')
        start += strcspn(start, "\n");
    if (*start) { /* else the file has no document */
        cJSON *root = yaml_parse(text, strlen(text), false, err);
        result = root ? read_root(path, folder, root, config, err) : error_prefix(err, "%s", path);
        cJSON_Delete(root);
    }
    free(folder);
    free(text);
    return result;
}

/* ---- the end ---- */

static void drop_fields(struct client_config *config, const struct field *fields, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        char **text = (char **)(void *)((char *)config + fields[i].offset);
        if (fields[i].form == BOOL || fields[i].form == UNSUPPORTED)
            continue;
        free(*text);
        *text = NULL;
    }
}

void kubeconfig_drop_user(struct client_config *config)
{
    drop_fields(config, user_fields, COUNT(user_fields));
}

void client_config_clear(struct client_config *config)
{
    drop_fields(config, cluster_fields, COUNT(cluster_fields));
    kubeconfig_drop_user(config);
    free(config->accept);
    *config = (struct client_config){0};
}
