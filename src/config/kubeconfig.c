/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Reads a kubeconfig: current-context names a context, that names a cluster and a user, and the
 * fields of these two are what is wanted. Only the entries so chosen are judged; what others in
 * the file hold may well be for other programs. Fields that are simply copied are in two tables;
 * what must fit together is checked behind them. A field of the wrong type is an error and never a
 * guess.
 */
#include "client_config.h"

#include "kube-nftd/base.h"
#include "kube-nftd/values.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SIZE_LIMIT ((size_t)4 * 1024 * 1024)

/* One element of one of the three lists. Everything is borrowed. */
struct entry {
    const char *path; /* of the kubeconfig */
    const char *list; /* clusters, contexts or users */
    const char *kind; /* cluster, context or user */
    int index;
    const cJSON *body; /* NULL if it says nothing */
};

struct field {
    const char *name;
    enum { TEXT, PATH, DATA } form;
    size_t offset; /* of the char * in struct client_config */
};

#define FIELD(member) offsetof(struct client_config, member)

static const struct field cluster_fields[] = {
    {"server", TEXT, FIELD(server)},
    {"certificate-authority", PATH, FIELD(ca_file)},
    {"certificate-authority-data", DATA, FIELD(ca_data)},
    {"tls-server-name", TEXT, FIELD(tls_server_name)},
    {"proxy-url", TEXT, FIELD(proxy_url)},
};

static const struct field user_fields[] = {
    {"token", TEXT, FIELD(token)},
    {"tokenFile", PATH, FIELD(token_file)},
    {"client-certificate", PATH, FIELD(client_cert_file)},
    {"client-certificate-data", DATA, FIELD(client_cert_data)},
    {"client-key", PATH, FIELD(client_key_file)},
    {"client-key-data", DATA, FIELD(client_key_data)},
};

#define USE_OTHER "use tokenFile, or client-certificate and client-key"

static const struct {
    const char *name, *what;
} unsupported[] = {
    {"exec", "exec plugins are not supported: " USE_OTHER},
    {"auth-provider", "auth provider plugins are not supported: " USE_OTHER},
    {"username", "user name and password are not supported: " USE_OTHER},
    {"password", "user name and password are not supported: " USE_OTHER},
    {"as", "impersonation is not supported: use credentials of that user"},
    {"as-uid", "impersonation is not supported: use credentials of that user"},
    {"as-groups", "impersonation is not supported: use credentials of that user"},
    {"as-user-extra", "impersonation is not supported: use credentials of that user"},
};

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* The member @name of @object, NULL for null. */
static const cJSON *member(const cJSON *object, const char *name)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, name);
    return cJSON_IsNull(item) ? NULL : item;
}

/* Puts file, entry and @field before the text in @err. Always returns -1. */
static int blame(const struct entry *entry, const char *field, struct error *err)
{
    return error_prefix(err, "%s: %s[%d].%s.%s", entry->path, entry->list, entry->index,
                        entry->kind, field);
}

/* Says @what is wrong with @field of @entry. Always returns -1. */
static int fail(const struct entry *entry, const char *field, const char *what, struct error *err)
{
    error_set(err, "%s", what);
    return blame(entry, field, err);
}

/* Puts the text of @field in *@text, borrowed; NULL where there is none or an empty one. */
static int get_text(const struct entry *entry, const char *field, const char **text,
                    struct error *err)
{
    *text = NULL;
    const cJSON *item = member(entry->body, field);
    if (!item)
        return 0;
    if (!cJSON_IsString(item))
        return fail(entry, field, "must be a string", err);
    if (*item->valuestring)
        *text = item->valuestring;
    return 0;
}

static int get_bool(const struct entry *entry, const char *field, bool *value, struct error *err)
{
    const cJSON *item = member(entry->body, field);
    if (item && !cJSON_IsBool(item))
        return fail(entry, field, "must be true or false", err);
    *value = cJSON_IsTrue(item);
    return 0;
}

/* @name as an absolute path, seen from the folder of the kubeconfig. */
static char *resolve(const char *kubeconfig, const char *name, struct error *err)
{
    if (*name == '/')
        return xstrdup(name);
    const char *slash = strrchr(kubeconfig, '/');
    int folder = slash ? (int)(slash + 1 - kubeconfig) : 0;
    if (*kubeconfig == '/')
        return xasprintf("%.*s%s", folder, kubeconfig, name);
    char *here = getcwd(NULL, 0);
    if (!here) {
        error_set(err, "cannot read the current directory: %s", strerror(errno));
        return NULL;
    }
    char *path = xasprintf("%s/%.*s%s", here, folder, kubeconfig, name);
    free(here);
    return path;
}

/* What @text encodes, with a NUL behind it; NULL if it is not base64. Lines may break anywhere. */
static char *base64_decode(const char *text, size_t *length)
{
    static const char alphabet[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    char *out = xcalloc(strlen(text) + 1, 1);
    size_t digits = 0, padding = 0;
    uint32_t bits = 0;
    *length = 0;
    for (; *text; text++) {
        const char *digit = strchr(alphabet, *text);
        if (*text == '=') {
            padding++;
        } else if (digit && padding == 0) {
            bits = bits << 6 | (uint32_t)(digit - alphabet);
            if (digits++ % 4 != 0)
                out[(*length)++] = (char)(bits >> (6 - 2 * ((digits - 1) % 4)) & 0xff);
        } else if (*text != '\n' && *text != '\r') {
            break;
        }
    }
    /* The padding makes a group of four whole. */
    if (!*text && digits % 4 != 1 && padding == (4 - digits % 4) % 4)
        return out;
    free(out);
    return NULL;
}

static char *decode(const char *text, struct error *err)
{
    size_t length;
    char *data = base64_decode(text, &length);
    if (!data) {
        error_set(err, "is not base64");
        return NULL;
    }
    if (strlen(data) != length) {
        free(data);
        error_set(err, "is not PEM in base64: it contains NUL bytes");
        return NULL;
    }
    return data;
}

static int read_fields(const struct entry *entry, const struct field *fields, size_t n,
                       struct client_config *config, struct error *err)
{
    for (size_t i = 0; i < n; i++) {
        const char *text;
        if (get_text(entry, fields[i].name, &text, err) < 0)
            return -1;
        if (!text)
            continue;
        char *value = fields[i].form == PATH   ? resolve(entry->path, text, err)
                      : fields[i].form == DATA ? decode(text, err)
                                               : xstrdup(text);
        if (!value)
            return blame(entry, fields[i].name, err);
        *(char **)(void *)((char *)config + fields[i].offset) = value;
    }
    return 0;
}

/* Data wins: the file of the same thing is forgotten. */
static void prefer_data(const char *data, char **file)
{
    if (!data)
        return;
    free(*file);
    *file = NULL;
}

static int check_server(const struct entry *entry, struct client_config *config, struct error *err)
{
    if (!config->server)
        return fail(entry, "server", "missing", err);
    char *server = server_url_parse(config->server, err);
    if (!server)
        return blame(entry, "server", err);
    free(config->server);
    config->server = server;
    return 0;
}

static int check_proxy(const struct entry *entry, const char *url, struct error *err)
{
    if (!url || proxy_url_is_good(url))
        return 0;
    return fail(entry, "proxy-url", "is not an http, https or socks5 URL", err);
}

static int read_cluster(const struct entry *entry, struct client_config *config, struct error *err)
{
    if (read_fields(entry, cluster_fields, COUNT(cluster_fields), config, err) < 0 ||
        get_bool(entry, "insecure-skip-tls-verify", &config->insecure_skip_tls_verify, err) < 0 ||
        get_bool(entry, "disable-compression", &config->disable_compression, err) < 0 ||
        check_server(entry, config, err) < 0 || check_proxy(entry, config->proxy_url, err) < 0)
        return -1;
    prefer_data(config->ca_data, &config->ca_file);
    if (config->insecure_skip_tls_verify && (config->ca_data || config->ca_file))
        return fail(entry, "insecure-skip-tls-verify",
                    "excludes the certificate authority of the same cluster", err);
    return 0;
}

static int check_token(const struct entry *entry, const char *token, struct error *err)
{
    for (const unsigned char *s = (const unsigned char *)token; s && *s; s++) {
        if (*s <= ' ' || *s == 0x7f)
            return fail(entry, "token", "contains a blank or a line break", err);
    }
    return 0;
}

static bool is_empty(const cJSON *item)
{
    if (cJSON_IsString(item))
        return !*item->valuestring;
    return (cJSON_IsArray(item) || cJSON_IsObject(item)) && cJSON_GetArraySize(item) == 0;
}

static int check_supported(const struct entry *entry, struct error *err)
{
    for (size_t i = 0; i < COUNT(unsupported); i++) {
        const cJSON *item = member(entry->body, unsupported[i].name);
        if (item && !is_empty(item))
            return fail(entry, unsupported[i].name, unsupported[i].what, err);
    }
    return 0;
}

static int read_user(const struct entry *entry, struct client_config *config, struct error *err)
{
    if (check_supported(entry, err) < 0 ||
        read_fields(entry, user_fields, COUNT(user_fields), config, err) < 0 ||
        check_token(entry, config->token, err) < 0)
        return -1;
    prefer_data(config->client_cert_data, &config->client_cert_file);
    prefer_data(config->client_key_data, &config->client_key_file);
    bool cert = config->client_cert_data || config->client_cert_file;
    bool key = config->client_key_data || config->client_key_file;
    if (cert && !key)
        return fail(entry, "client-key", "missing, although a client certificate is given", err);
    return 0;
}

/* ---- the file ---- */

/* Checks the element @index of @list; *@found says whether it is the one with @name. */
static int look_at(const cJSON *element, const char *name, struct entry *entry, bool *found,
                   struct error *err)
{
    const cJSON *own = member(element, "name");
    if (!cJSON_IsString(own))
        return error_set(err, "%s: %s[%d].name: must be a string", entry->path, entry->list,
                         entry->index);
    *found = strcmp(own->valuestring, name) == 0;
    if (!*found)
        return 0;
    entry->body = member(element, entry->kind);
    if (entry->body && !cJSON_IsObject(entry->body))
        return error_set(err, "%s: %s[%d].%s: must be a mapping", entry->path, entry->list,
                         entry->index, entry->kind);
    return 0;
}

/* Fills the rest of @entry (path, list and kind are given) with the element that has @name. */
static int find_entry(const cJSON *root, const char *name, struct entry *entry, struct error *err)
{
    const cJSON *list = member(root, entry->list);
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
    return error_set(err, "%s: %s: no entry named \"%s\"", entry->path, entry->list, name);
}

static int read_context(const char *path, const cJSON *root, const char *name,
                        struct client_config *config, struct error *err)
{
    struct entry context = {.path = path, .list = "contexts", .kind = "context"};
    struct entry cluster = {.path = path, .list = "clusters", .kind = "cluster"};
    struct entry user = {.path = path, .list = "users", .kind = "user"};
    const char *cluster_name, *user_name;
    if (find_entry(root, name, &context, err) < 0 ||
        get_text(&context, "cluster", &cluster_name, err) < 0 ||
        get_text(&context, "user", &user_name, err) < 0)
        return -1;
    if (!cluster_name)
        return fail(&context, "cluster", "missing", err);
    if (find_entry(root, cluster_name, &cluster, err) < 0 ||
        read_cluster(&cluster, config, err) < 0)
        return -1;
    if (!user_name)
        return 0;
    return find_entry(root, user_name, &user, err) < 0 ? -1 : read_user(&user, config, err);
}

static bool says_nothing(const cJSON *root)
{
    static const char *const parts[] = {"clusters", "contexts", "users"};
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
        const cJSON *part = member(root, parts[i]);
        if (part && (!cJSON_IsArray(part) || cJSON_GetArraySize(part) > 0))
            return false;
    }
    const cJSON *current = member(root, "current-context");
    return !current || (cJSON_IsString(current) && !*current->valuestring);
}

static int read_root(const char *path, const cJSON *root, struct client_config *config,
                     struct error *err)
{
    if (cJSON_IsNull(root))
        return 0;
    if (!cJSON_IsObject(root))
        return error_set(err, "%s: not a kubeconfig: not a mapping", path);
    const cJSON *kind = member(root, "kind");
    if (kind && (!cJSON_IsString(kind) || strcmp(kind->valuestring, "Config") != 0))
        return error_set(err, "%s: not a kubeconfig: kind is not Config", path);
    if (says_nothing(root))
        return 0;
    const cJSON *current = member(root, "current-context");
    if (current && !cJSON_IsString(current))
        return error_set(err, "%s: current-context: must be a string", path);
    if (!current || !*current->valuestring)
        return error_set(err, "%s: current-context: missing", path);
    return read_context(path, root, current->valuestring, config, err);
}

/* Whether there is nothing but blanks and comments, which is no YAML document at all. */
static bool is_blank(const char *text)
{
    while (*(text += strspn(text, " \t\r\n")) == '#')
        text += strcspn(text, "\n");
    return *text == '\0';
}

int kubeconfig_read(const char *path, struct client_config *config, struct error *err)
{
    char *text = file_read(path, SIZE_LIMIT, err);
    if (!text)
        return error_prefix(err, "%s", path);
    cJSON *root = NULL;
    int result = 0;
    if (!is_blank(text)) {
        root = yaml_parse(text, strlen(text), false, err);
        result = root ? read_root(path, root, config, err) : error_prefix(err, "%s", path);
    }
    cJSON_Delete(root);
    free(text);
    return result;
}
