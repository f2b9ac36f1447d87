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
#include "kube-nftd/model.h"
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

/* ---- the server's URL ---- */

/* Splits "host", "host:port", "[address]" or "[address]:port" of @length bytes. *@port is set to
 * the port, or the end. The caller frees the host that is returned. */
static char *split(const char *text, size_t length, const char **port)
{
    const char *end = text + length;
    const char *colon = memrchr(text, ':', length);
    const char *bracket = memrchr(text, ']', length);
    bool many = colon && memchr(text, ':', (size_t)(colon - text));
    if (colon && ((bracket && bracket > colon) || (!bracket && many)))
        colon = NULL; /* part of an IPv6 address */
    const char *host_end = colon ? colon : end;
    *port = colon ? colon + 1 : end;
    if (*text == '[' && bracket && host_end == bracket + 1)
        return xstrndup(text + 1, (size_t)(bracket - text - 1));
    return xstrndup(text, (size_t)(host_end - text));
}

/* Whether @text (@length bytes) is a name, IPv4 address or bracketed IPv6 address, with an optional
 * ":port". */
static bool authority_is_right(const char *text, size_t length)
{
    enum family family;
    struct address address;
    const char *port, *end = text + length;
    uint16_t number;
    char *host = split(text, length, &port);
    bool right = *text == '[' ? strchr(host, ':') && address_parse(host, &family, &address)
                              : *host && !strpbrk(host, "[]@:");
    free(host);
    if (port < end)
        return right && port_parse(port, (size_t)(end - port), &number);
    return right && end[-1] != ':';
}

/* Checks @text (http or https, a host, optional port and path; no user, query or fragment) and
 * returns it with a lowercase scheme and no trailing slash. The caller frees it. */
static char *server_url_parse(const char *text, struct error *err)
{
    static const char *const schemes[] = {"https://", "http://"};
    size_t i = 0;
    while (i < COUNT(schemes) && strncasecmp(text, schemes[i], strlen(schemes[i])) != 0)
        i++;
    if (i == COUNT(schemes)) {
        error_set(err, "\"%s\" does not start with https:// or http://", text);
        return NULL;
    }
    const char *authority = text + strlen(schemes[i]);
    bool right = authority_is_right(authority, strcspn(authority, "/"));
    for (const char *s = text; *s; s++)
        right = right && isgraph((unsigned char)*s) && !strchr("?#\"<>\\^`{|}", *s);
    if (!right) {
        error_set(err, "\"%s\" is not the URL of a server, such as https://192.0.2.1:6443", text);
        return NULL;
    }
    size_t length = strlen(authority);
    while (length > 0 && authority[length - 1] == '/')
        length--;
    return xasprintf("%s%.*s", schemes[i], (int)length, authority);
}

/* ---- the proxy ---- */

/*
 * libcurl's rules for these variables differ from Go's: it reads ALL_PROXY, sends loopback
 * addresses to the proxy, knows no ports in NO_PROXY, and lets NO_PROXY override a configured
 * proxy. Users of kube-proxy expect Go's rules, which these are.
 */

/* The server's URL, parsed. */
struct target {
    char *host; /* no brackets; owned */
    const char *port;
    size_t port_length;
    bool is_address;
    enum family family;
    struct address address;
};

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

static struct target target_of(const char *server, bool https)
{
    struct target target = {.port = https ? "443" : "80"};
    const char *authority = strstr(server, "://") + 3, *port;
    size_t length = strcspn(authority, "/");
    target.host = split(authority, length, &port);
    if (port < authority + length)
        target.port = port;
    target.port_length = strcspn(target.port, "/");
    target.is_address = address_parse(target.host, &target.family, &target.address);
    return target;
}

/* "example" matches itself and "*.example"; ".example" and "*.example" match only the latter. */
static bool domain_matches(const char *name, const char *host)
{
    name += strncmp(name, "*.", 2) == 0;
    size_t n = strlen(name), length = strlen(host);
    if (length < n || strcasecmp(host + length - n, name) != 0)
        return false;
    return *name == '.' ? length > n : length == n || host[length - n - 1] == '.';
}

/* Whether the entry @text of NO_PROXY matches @target: "*", a CIDR, or an address or name with an
 * optional port. */
static bool element_matches(const char *text, const struct target *target)
{
    const char *port, *end = text + strlen(text);
    enum family family;
    struct address address;
    struct cidr cidr;
    if (strcmp(text, "*") == 0)
        return true;
    if (cidr_parse(text, &family, &cidr))
        return target->is_address && family == target->family &&
               cidr_contains(&cidr, &target->address);
    char *name = split(text, strlen(text), &port);
    bool matches = *name != '\0';
    if (address_parse(name, &family, &address))
        matches = target->is_address && family == target->family &&
                  memcmp(&address, &target->address, sizeof(address)) == 0;
    else if (matches)
        matches = !target->is_address && domain_matches(name, target->host);
    free(name);
    return matches && (port == end || ((size_t)(end - port) == target->port_length &&
                                       memcmp(port, target->port, target->port_length) == 0));
}

static bool is_exempt(const struct target *target)
{
    const char *list = variable("NO_PROXY", "no_proxy");
    if (target->is_address ? address_is_loopback(target->family, &target->address)
                           : strcasecmp(target->host, "localhost") == 0)
        return true;
    char *copy = xstrdup(list ? list : ""), *rest = copy, *element;
    bool exempt = false;
    while (!exempt && (element = strsep(&rest, ","))) {
        element += strspn(element, " \t");
        size_t length = strlen(element);
        while (length > 0 && strchr(" \t", element[length - 1]))
            element[--length] = '\0';
        exempt = length > 0 && element_matches(element, target);
    }
    free(copy);
    return exempt;
}

/* Sets *@proxy from HTTPS_PROXY (for an http @server: HTTP_PROXY), unless @server is in NO_PROXY or
 * on this host. Lowercase variables apply if the uppercase ones are empty. The error does not quote
 * the value, which may contain a password. */
static int proxy_from_environment(const char *server, char **proxy, struct error *err)
{
    bool https = strncmp(server, "https://", 8) == 0;
    const char *name = https ? "HTTPS_PROXY" : "HTTP_PROXY";
    const char *url = variable(name, https ? "https_proxy" : "http_proxy");
    *proxy = NULL;
    if (!url || !*url)
        return 0;
    struct target target = target_of(server, https);
    bool exempt = is_exempt(&target);
    free(target.host);
    if (exempt)
        return 0;
    *proxy = strstr(url, "://") ? xstrdup(url) : xasprintf("http://%s", url);
    if (proxy_url_is_good(*proxy))
        return 0;
    free(*proxy);
    *proxy = NULL;
    return error_set(err, "%s is not an http, https or socks5 URL", name);
}

/* ---- entries of a kubeconfig ---- */

struct field {
    const char *name;
    enum { TEXT, PATH, DATA, BOOL } form;
    size_t offset; /* of the char * or bool in struct client_config */
};

#define FIELD(member) offsetof(struct client_config, member)

/* Each -data field directly follows the file that it replaces. */
static const struct field cluster_fields[] = {
    {"server", TEXT, FIELD(server)},
    {"certificate-authority", PATH, FIELD(ca_file)},
    {"certificate-authority-data", DATA, FIELD(ca_data)},
    {"tls-server-name", TEXT, FIELD(tls_server_name)},
    {"proxy-url", TEXT, FIELD(proxy_url)},
    {"insecure-skip-tls-verify", BOOL, FIELD(insecure_skip_tls_verify)},
    {"disable-compression", BOOL, FIELD(disable_compression)},
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

/* Prepends file, entry and @field to the text of @err. Always returns -1. */
static int blame(const struct entry *entry, const char *field, struct error *err)
{
    return error_prefix(err, "%s: %s[%d].%s.%s", entry->path, entry->list, entry->index,
                        entry->kind, field);
}

/* Reports @what is wrong with @field of @entry. Always returns -1. */
static int fail(const struct entry *entry, const char *field, const char *what, struct error *err)
{
    error_set(err, "%s", what);
    return blame(entry, field, err);
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

/* Decodes base64, with line breaks anywhere. NULL with an error if invalid or if the data contains
 * NUL bytes. */
static char *decode(const char *text, struct error *err)
{
    static const char alphabet[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    char *data = xcalloc(strlen(text) + 1, 1);
    size_t digits = 0, padding = 0, length = 0;
    unsigned bits = 0;
    for (; *text; text++) {
        const char *digit = strchr(alphabet, *text);
        if (*text == '=') {
            padding++;
        } else if (digit && padding == 0) {
            bits = bits << 6 | (unsigned)(digit - alphabet);
            if (digits++ % 4 != 0)
                data[length++] = (char)(bits >> (6 - 2 * ((digits - 1) % 4)) & 0xff);
        } else if (*text != '\n' && *text != '\r') {
            break;
        }
    }
    /* Padding completes a group of four. */
    bool good = !*text && digits % 4 != 1 && padding == (4 - digits % 4) % 4;
    if (good && strlen(data) == length)
        return data;
    error_set(err, good ? "is not PEM in base64: it contains NUL bytes" : "is not base64");
    free(data);
    return NULL;
}

static int read_field(const struct entry *entry, const struct field *field,
                      struct client_config *config, struct error *err)
{
    void *place = (char *)config + field->offset;
    const cJSON *item = member(entry->body, field->name);
    const char *text;
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
        return blame(entry, field->name, err);
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
        return blame(entry, "server", err);
    free(config->server);
    config->server = server;
    if (config->proxy_url && !proxy_url_is_good(config->proxy_url))
        return fail(entry, "proxy-url", "is not an http, https or socks5 URL", err);
    if (config->insecure_skip_tls_verify && (config->ca_data || config->ca_file))
        return fail(entry, "insecure-skip-tls-verify",
                    "excludes the certificate authority of the same cluster", err);
    return 0;
}

static bool is_empty(const cJSON *item)
{
    if (cJSON_IsString(item))
        return !*item->valuestring;
    return (cJSON_IsArray(item) || cJSON_IsObject(item)) && !item->child;
}

static int read_user(const struct entry *entry, struct client_config *config, struct error *err)
{
    for (size_t i = 0; i < COUNT(unsupported); i++) {
        const cJSON *item = member(entry->body, unsupported[i].name);
        if (item && !is_empty(item))
            return fail(entry, unsupported[i].name, unsupported[i].what, err);
    }
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
    static const char *const parts[] = {"clusters", "contexts", "users", "current-context"};
    const cJSON *kind = member(root, "kind"), *current = member(root, "current-context");
    bool has_content = false;
    if (cJSON_IsNull(root))
        return 0;
    if (!cJSON_IsObject(root))
        return error_set(err, "%s: not a kubeconfig: not a mapping", path);
    if (kind && (!cJSON_IsString(kind) || strcmp(kind->valuestring, "Config") != 0))
        return error_set(err, "%s: not a kubeconfig: kind is not Config", path);
    for (size_t i = 0; i < COUNT(parts); i++) {
        const cJSON *part = member(root, parts[i]);
        has_content = has_content || (part && !is_empty(part));
    }
    if (!has_content)
        return 0;
    if (current && !cJSON_IsString(current))
        return error_set(err, "%s: current-context: must be a string", path);
    if (!current || !*current->valuestring)
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
        if (fields[i].form == BOOL)
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

static int load(const char *kubeconfig, const char *master, const char *folder,
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
    bool failed = load(kubeconfig, master, folder ? folder : ACCOUNT_FOLDER, config, err);
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
