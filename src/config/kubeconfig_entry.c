/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The fields of a cluster and of a user. Those that are simply copied are in two tables; what must
 * fit together is checked behind them. A field of the wrong type is an error and never a guess.
 */
#include "kube-nftd/config/kubeconfig_entry.h"

#include "kube-nftd/base/alloc.h"
#include "kube-nftd/base/base64.h"
#include "kube-nftd/config/proxy_environment.h"
#include "kube-nftd/config/server_url.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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

const cJSON *kubeconfig_member(const cJSON *object, const char *name)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, name);
    return cJSON_IsNull(item) ? NULL : item;
}

int kubeconfig_blame(const struct kubeconfig_entry *entry, const char *field, struct error *err)
{
    return error_prefix(err, "%s: %s[%d].%s.%s", entry->path, entry->list, entry->index,
                        entry->kind, field);
}

int kubeconfig_text(const struct kubeconfig_entry *entry, const char *field, const char **text,
                    struct error *err)
{
    *text = NULL;
    const cJSON *item = kubeconfig_member(entry->body, field);
    if (!item)
        return 0;
    if (!cJSON_IsString(item)) {
        error_set(err, "must be a string");
        return kubeconfig_blame(entry, field, err);
    }
    if (*item->valuestring)
        *text = item->valuestring;
    return 0;
}

static int get_bool(const struct kubeconfig_entry *entry, const char *field, bool *value,
                    struct error *err)
{
    const cJSON *item = kubeconfig_member(entry->body, field);
    if (item && !cJSON_IsBool(item)) {
        error_set(err, "must be true or false");
        return kubeconfig_blame(entry, field, err);
    }
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
        error_set(err, "the current folder: %s", strerror(errno));
        return NULL;
    }
    char *path = xasprintf("%s/%.*s%s", here, folder, kubeconfig, name);
    free(here);
    return path;
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
        error_set(err, "is not PEM in base64: it holds zero bytes");
        return NULL;
    }
    return data;
}

static int read_fields(const struct kubeconfig_entry *entry, const struct field *fields, size_t n,
                       struct client_config *config, struct error *err)
{
    for (size_t i = 0; i < n; i++) {
        const char *text;
        if (kubeconfig_text(entry, fields[i].name, &text, err) < 0)
            return -1;
        if (!text)
            continue;
        char *value = fields[i].form == PATH   ? resolve(entry->path, text, err)
                      : fields[i].form == DATA ? decode(text, err)
                                               : xstrdup(text);
        if (!value)
            return kubeconfig_blame(entry, fields[i].name, err);
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

static int check_server(const struct kubeconfig_entry *entry, struct client_config *config,
                        struct error *err)
{
    if (!config->server) {
        error_set(err, "missing");
        return kubeconfig_blame(entry, "server", err);
    }
    char *server = server_url_parse(config->server, err);
    if (!server)
        return kubeconfig_blame(entry, "server", err);
    free(config->server);
    config->server = server;
    return 0;
}

static int check_proxy(const struct kubeconfig_entry *entry, const char *url, struct error *err)
{
    if (!url || proxy_url_is_good(url))
        return 0;
    error_set(err, "is not a URL with http, https or socks5");
    return kubeconfig_blame(entry, "proxy-url", err);
}

int kubeconfig_read_cluster(const struct kubeconfig_entry *entry, struct client_config *config,
                            struct error *err)
{
    bool disable_compression; /* a hint that changes nothing here */
    if (read_fields(entry, cluster_fields, COUNT(cluster_fields), config, err) < 0 ||
        get_bool(entry, "insecure-skip-tls-verify", &config->insecure_skip_tls_verify, err) < 0 ||
        get_bool(entry, "disable-compression", &disable_compression, err) < 0 ||
        check_server(entry, config, err) < 0 || check_proxy(entry, config->proxy_url, err) < 0)
        return -1;
    prefer_data(config->ca_data, &config->ca_file);
    if (config->insecure_skip_tls_verify && (config->ca_data || config->ca_file)) {
        error_set(err, "contradicts the certificate authority beside it");
        return kubeconfig_blame(entry, "insecure-skip-tls-verify", err);
    }
    return 0;
}

static int check_token(const struct kubeconfig_entry *entry, const char *token, struct error *err)
{
    for (const unsigned char *s = (const unsigned char *)token; s && *s; s++) {
        if (*s > ' ' && *s != 0x7f)
            continue;
        error_set(err, "contains a blank or a line break");
        return kubeconfig_blame(entry, "token", err);
    }
    return 0;
}

static bool is_empty(const cJSON *item)
{
    if (cJSON_IsString(item))
        return !*item->valuestring;
    return (cJSON_IsArray(item) || cJSON_IsObject(item)) && cJSON_GetArraySize(item) == 0;
}

static int check_supported(const struct kubeconfig_entry *entry, struct error *err)
{
    for (size_t i = 0; i < COUNT(unsupported); i++) {
        const cJSON *item = kubeconfig_member(entry->body, unsupported[i].name);
        if (!item || is_empty(item))
            continue;
        error_set(err, "%s", unsupported[i].what);
        return kubeconfig_blame(entry, unsupported[i].name, err);
    }
    return 0;
}

int kubeconfig_read_user(const struct kubeconfig_entry *entry, struct client_config *config,
                         struct error *err)
{
    if (check_supported(entry, err) < 0 ||
        read_fields(entry, user_fields, COUNT(user_fields), config, err) < 0 ||
        check_token(entry, config->token, err) < 0)
        return -1;
    prefer_data(config->client_cert_data, &config->client_cert_file);
    prefer_data(config->client_key_data, &config->client_key_file);
    bool cert = config->client_cert_data || config->client_cert_file;
    bool key = config->client_key_data || config->client_key_file;
    if (cert && !key) {
        error_set(err, "missing, the certificate for it is there");
        return kubeconfig_blame(entry, "client-key", err);
    }
    return 0;
}
