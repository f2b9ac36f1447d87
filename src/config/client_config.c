/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Determines the API server and the credentials: from the kubeconfig, --master, or a pod's service
 * account. Token and certificate files are rotated at run time, so only their paths are kept; the
 * client reads them.
 *
 * A kubeconfig's current-context names a context, which names a cluster and a user; their fields
 * are used. Only these entries are checked: others may be meant for other programs. A field of the
 * wrong type is an error.
 */
#include "kube-nftd/config.h"

#include "kube-nftd/base.h"
#include "kube-nftd/net.h"
#include "kube-nftd/values.h"

#include <cjson/cJSON.h>
#include <ctype.h>
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#define ACCOUNT_FOLDER "/var/run/secrets/kubernetes.io/serviceaccount"

#define SIZE_LIMIT ((size_t)4 * 1024 * 1024)

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* ---- hosts and ports ---- */

/* "host", "host:port", "[address]" or "[address]:port", parsed. */
struct authority {
    char *host; /* without brackets; owned */
    char *port; /* owned; NULL: no colon */
    bool is_address;
    enum family family;
    struct address address;
};

/* The caller clears the result. */
static struct authority authority_parse(const char *text, size_t length)
{
    const char *end = text + length;
    const char *colon = memrchr(text, ':', length);
    const char *bracket = memrchr(text, ']', length);
    bool many = colon && memchr(text, ':', (size_t)(colon - text));
    if (colon && ((bracket && bracket > colon) || (!bracket && many)))
        colon = NULL; /* part of an IPv6 address */
    const char *host_end = colon ? colon : end;
    struct authority result = {0};
    if (*text == '[' && bracket && host_end == bracket + 1)
        result.host = xstrndup(text + 1, (size_t)(bracket - text - 1));
    else
        result.host = xstrndup(text, (size_t)(host_end - text));
    if (colon)
        result.port = xstrndup(colon + 1, (size_t)(end - colon - 1));
    result.is_address = address_parse(result.host, &result.family, &result.address);
    return result;
}

static void authority_clear(struct authority *authority)
{
    free(authority->host);
    free(authority->port);
}

/* Checks @text (http or https, a host, optional port and path; no user, query or fragment) and
 * returns it with a lowercase scheme and no trailing slash. The caller frees it. */
static char *server_url_parse(const char *text, struct error *err)
{
    static const char *const schemes[] = {"https://", "http://"};
    size_t i = 0;
    uint16_t number;
    while (i < COUNT(schemes) && strncasecmp(text, schemes[i], strlen(schemes[i])) != 0)
        i++;
    if (i == COUNT(schemes)) {
        error_set(err, "\"%s\" does not start with https:// or http://", text);
        return NULL;
    }
    const char *rest = text + strlen(schemes[i]);
    struct authority server = authority_parse(rest, strcspn(rest, "/"));
    bool valid = *rest == '[' ? server.is_address && server.family == FAMILY_IPV6
                              : *server.host && !strpbrk(server.host, "[]@:");
    valid = valid && (!server.port || port_parse(server.port, strlen(server.port), &number));
    authority_clear(&server);
    for (const char *s = text; *s; s++)
        valid = valid && isgraph((unsigned char)*s) && !strchr("?#\"<>\\^`{|}", *s);
    if (!valid) {
        error_set(err, "\"%s\" is not the URL of a server, such as https://192.0.2.1:6443", text);
        return NULL;
    }
    size_t length = strlen(rest);
    while (length > 0 && rest[length - 1] == '/')
        length--;
    return xasprintf("%s%.*s", schemes[i], (int)length, rest);
}

/* ---- the proxy ---- */

/*
 * libcurl's rules for these variables differ from Go's: it reads ALL_PROXY, sends loopback
 * addresses to the proxy, knows no ports in NO_PROXY, and lets NO_PROXY override a configured
 * proxy. Users of kube-proxy expect Go's rules, which these are.
 */

static const char *variable(const char *large, const char *small)
{
    const char *value = getenv(large);
    return value && *value ? value : getenv(small);
}

/* Whether client-go supports the scheme of @url. */
static bool proxy_url_is_good(const char *url)
{
    static const char *const schemes[] = {"http://", "https://", "socks5://"};
    for (size_t i = 0; i < COUNT(schemes); i++) {
        size_t length = strlen(schemes[i]);
        if (strncasecmp(url, schemes[i], length) == 0)
            return url[length] != '\0' && url[length] != '/';
    }
    return false;
}

/* "example" matches itself and "*.example"; ".example" and "*.example" match only the latter. */
static bool domain_matches(const char *name, const char *host)
{
    name += strncmp(name, "*.", 2) == 0;
    size_t n = strlen(name), length = strlen(host);
    if (n == 0 || length < n || strcasecmp(host + length - n, name) != 0)
        return false;
    return *name == '.' ? length > n : length == n || host[length - n - 1] == '.';
}

/* Whether the entry @text of NO_PROXY matches @server: "*", a CIDR, or an address or name with an
 * optional port. */
static bool entry_matches(const char *text, const struct authority *server)
{
    enum family family;
    struct cidr cidr;
    if (strcmp(text, "*") == 0)
        return true;
    if (cidr_parse(text, &family, &cidr))
        return server->is_address && family == server->family &&
               cidr_contains(&cidr, &server->address);
    struct authority entry = authority_parse(text, strlen(text));
    bool matches = entry.is_address == server->is_address;
    if (matches && entry.is_address)
        matches = entry.family == server->family &&
                  memcmp(&entry.address, &server->address, sizeof(entry.address)) == 0;
    else if (matches)
        matches = domain_matches(entry.host, server->host);
    if (entry.port && *entry.port)
        matches = matches && strcmp(entry.port, server->port) == 0;
    authority_clear(&entry);
    return matches;
}

static bool is_exempt(const struct authority *server)
{
    const char *list = variable("NO_PROXY", "no_proxy");
    if (server->is_address ? address_is_loopback(server->family, &server->address)
                           : strcasecmp(server->host, "localhost") == 0)
        return true;
    char *copy = xstrdup(list ? list : ""), *rest = copy, *entry;
    bool exempt = false;
    while (!exempt && (entry = strsep(&rest, ","))) {
        entry += strspn(entry, " \t");
        size_t length = strlen(entry);
        while (length > 0 && strchr(" \t", entry[length - 1]))
            entry[--length] = '\0';
        exempt = entry_matches(entry, server);
    }
    free(copy);
    return exempt;
}

/* Sets *@proxy from HTTPS_PROXY (for an http @url: HTTP_PROXY), unless the server is in NO_PROXY or
 * on this host. Lowercase variables apply if the uppercase ones are empty. The error does not quote
 * the value, which may contain a password. */
static int proxy_from_environment(const char *url, char **proxy, struct error *err)
{
    bool https = strncmp(url, "https://", 8) == 0;
    const char *name = https ? "HTTPS_PROXY" : "HTTP_PROXY";
    const char *value = variable(name, https ? "https_proxy" : "http_proxy");
    *proxy = NULL;
    if (!value || !*value)
        return 0;
    url = strstr(url, "://") + 3;
    struct authority server = authority_parse(url, strcspn(url, "/"));
    if (!server.port)
        server.port = xstrdup(https ? "443" : "80");
    bool exempt = is_exempt(&server);
    authority_clear(&server);
    if (exempt)
        return 0;
    *proxy = strstr(value, "://") ? xstrdup(value) : xasprintf("http://%s", value);
    if (proxy_url_is_good(*proxy))
        return 0;
    free(*proxy);
    *proxy = NULL;
    return error_set(err, "%s is not an http, https or socks5 URL", name);
}

/* ---- entries of a kubeconfig ---- */

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

/* An empty kubeconfig leaves @config without a server. */
static int read_kubeconfig(const char *path, struct client_config *config, struct error *err)
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

/* ---- sources ---- */

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

void client_config_clear(struct client_config *config)
{
    drop_fields(config, cluster_fields, COUNT(cluster_fields));
    drop_fields(config, user_fields, COUNT(user_fields));
    free(config->accept);
    *config = (struct client_config){0};
}

static int use_service_account(const char *folder, struct client_config *config, struct error *err)
{
    const char *host = getenv("KUBERNETES_SERVICE_HOST");
    const char *port = getenv("KUBERNETES_SERVICE_PORT");
    if (!host || !*host || !port || !*port)
        return error_set(err, "not in a pod (KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT "
                              "are not set): --manifests, --kubeconfig or --master is required");
    char *url = xasprintf(strchr(host, ':') ? "https://[%s]:%s" : "https://%s:%s", host, port);
    config->server = server_url_parse(url, err);
    free(url);
    if (!config->server)
        return error_prefix(err, "KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT");
    config->token_file = xasprintf("%s/token", folder);
    if (access(config->token_file, R_OK) < 0)
        return error_set(err, "%s: %s", config->token_file, strerror(errno));
    config->ca_file = xasprintf("%s/ca.crt", folder);
    if (access(config->ca_file, R_OK) < 0) {
        log_error(
            "config",
            "cannot read the service account's CA, using the system's CAs file=%s error=\"%s\"",
            config->ca_file, strerror(errno));
        free(config->ca_file);
        config->ca_file = NULL;
    }
    return 0;
}

static int load_config(const char *kubeconfig, const char *master, const char *folder,
                       struct client_config *config, struct error *err)
{
    bool has_file = kubeconfig && *kubeconfig;
    if (has_file && read_kubeconfig(kubeconfig, config, err))
        return -1;
    if (master && *master) {
        free(config->server);
        config->server = server_url_parse(master, err);
        return config->server ? 0 : error_prefix(err, "--master");
    }
    if (config->server)
        return 0;
    if (use_service_account(folder, config, err))
        return has_file
                   ? error_prefix(err,
                                  "%s is empty, and no other way to an API server is configured",
                                  kubeconfig)
                   : -1;
    if (has_file)
        log_warn("config", "%s is empty: using the pod's service account", kubeconfig);
    return 0;
}

int client_config_load(const char *kubeconfig, const char *master, const char *folder,
                       struct client_config *config, struct error *err)
{
    *config = (struct client_config){0};
    bool failed = load_config(kubeconfig, master, folder ? folder : ACCOUNT_FOLDER, config, err);
    if (!failed && !config->proxy_url) {
        failed = proxy_from_environment(config->server, &config->proxy_url, err);
        if (config->proxy_url)
            log_info("config", "using the proxy from the environment server=%s", config->server);
    }
    if (failed) {
        client_config_clear(config);
        return -1;
    }
    bool plain = strncmp(config->server, "http://", 7) == 0;
    if (plain && (config->token || config->token_file || config->client_cert_file ||
                  config->client_cert_data))
        log_warn("config", "not sending credentials: the server is not https server=%s",
                 config->server);
    if (plain)
        drop_fields(config, user_fields, COUNT(user_fields));
    return 0;
}
