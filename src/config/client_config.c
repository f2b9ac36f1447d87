/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Decides where the server and the credentials come from: the kubeconfig, --master, or the service
 * account that a pod finds mounted. Files of tokens and certificates are only named here; they are
 * replaced while the daemon runs, so who uses them reads them.
 */
#include "client_config.h"

#include "kube-nftd/base.h"
#include "kube-nftd/model.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#define ACCOUNT_FOLDER "/var/run/secrets/kubernetes.io/serviceaccount"

/* ---- the server's URL ---- */

static bool is_ipv6(const char *text, size_t length)
{
    struct in6_addr address;
    char *copy = xstrndup(text, length);
    bool is = inet_pton(AF_INET6, copy, &address) == 1;
    free(copy);
    return is;
}

/* @text, @length bytes: a name or IPv4 address, or an IPv6 address in brackets, then ":port" or
 * nothing. */
static bool authority_is_right(const char *text, size_t length)
{
    uint16_t port;
    size_t host;
    if (*text == '[') {
        size_t inside = strcspn(text + 1, "]/");
        host = inside + 2;
        if (host > length || !is_ipv6(text + 1, inside))
            return false;
    } else {
        host = strcspn(text, ":/");
        if (host == 0 || strcspn(text, "[]@") < length)
            return false;
    }
    if (host == length)
        return true;
    return text[host] == ':' && port_parse(text + host + 1, length - host - 1, &port);
}

static bool has_odd_bytes(const char *text)
{
    for (const unsigned char *s = (const unsigned char *)text; *s; s++) {
        if (*s <= ' ' || *s >= 0x7f || strchr("?#\"<>\\^`{|}", *s))
            return true;
    }
    return false;
}

char *server_url_parse(const char *text, struct error *err)
{
    const char *scheme = NULL;
    if (strncasecmp(text, "https://", 8) == 0)
        scheme = "https://";
    else if (strncasecmp(text, "http://", 7) == 0)
        scheme = "http://";
    if (!scheme) {
        error_set(err, "\"%s\" does not start with https:// or http://", text);
        return NULL;
    }
    const char *authority = text + strlen(scheme);
    if (has_odd_bytes(text) || !authority_is_right(authority, strcspn(authority, "/"))) {
        error_set(err, "\"%s\" is not the URL of a server, such as https://192.0.2.1:6443", text);
        return NULL;
    }
    size_t length = strlen(authority);
    while (length > 0 && authority[length - 1] == '/')
        length--;
    return xasprintf("%s%.*s", scheme, (int)length, authority);
}

/* ---- the proxy on the way there ---- */

/*
 * libcurl has rules of its own for these variables (it takes ALL_PROXY, sends loopback addresses to
 * the proxy, knows no ports in NO_PROXY, and lets NO_PROXY overrule a proxy that was configured).
 * Who moves from kube-proxy expects those of Go, so they are here.
 */

/* The server, taken apart. */
struct target {
    char *host; /* no brackets; owned */
    const char *port;
    bool is_address;
    enum family family;
    struct address address;
};

static const char *variable(const char *large, const char *small)
{
    const char *value = getenv(large);
    if (!value || !*value)
        value = getenv(small);
    return value && *value ? value : NULL;
}

bool proxy_url_is_good(const char *url)
{
    static const char *const schemes[] = {"http://", "https://", "socks5://"};
    for (size_t i = 0; i < sizeof(schemes) / sizeof(schemes[0]); i++) {
        size_t length = strlen(schemes[i]);
        if (strncasecmp(url, schemes[i], length) == 0)
            return url[length] != '\0' && url[length] != '/';
    }
    return false;
}

/* Splits "host", "host:port", "[address]" or "[address]:port" of @length bytes. *@port is where
 * the port begins, or the end. Returns the host, for the caller to free. */
static char *split(const char *text, size_t length, const char **port)
{
    const char *end = text + length;
    const char *colon = memrchr(text, ':', length);
    const char *bracket = memrchr(text, ']', length);
    bool many = colon && memchr(text, ':', (size_t)(colon - text));
    if (colon && ((bracket && bracket > colon) || (!bracket && many)))
        colon = NULL; /* of an IPv6 address */
    const char *host_end = colon ? colon : end;
    *port = colon ? colon + 1 : end;
    if (*text == '[' && bracket && host_end == bracket + 1)
        return xstrndup(text + 1, (size_t)(bracket - text - 1));
    return xstrndup(text, (size_t)(host_end - text));
}

static struct target target_of(const char *server, bool https)
{
    struct target target = {.port = https ? "443" : "80"};
    const char *authority = strstr(server, "://") + 3;
    size_t length = strcspn(authority, "/");
    const char *port;
    target.host = split(authority, length, &port);
    if (port < authority + length)
        target.port = port;
    target.is_address = address_parse(target.host, &target.family, &target.address);
    return target;
}

static bool is_here(const struct target *target)
{
    if (target->is_address)
        return address_is_loopback(target->family, &target->address);
    return strcasecmp(target->host, "localhost") == 0;
}

/* @name: "example" is itself and what ends in ".example"; ".example" and "*.example" only that. */
static bool domain_matches(const char *name, const char *host)
{
    if (strncmp(name, "*.", 2) == 0)
        name++;
    size_t name_length = strlen(name), host_length = strlen(host);
    if (*name != '.' && strcasecmp(name, host) == 0)
        return true;
    if (host_length <= name_length)
        return false;
    const char *end = host + host_length - name_length;
    return strcasecmp(end, name) == 0 && (*name == '.' || end[-1] == '.');
}

/* The port of @target goes on to the end of the server or to its path. */
static bool port_matches(const char *port, const char *end, const struct target *target)
{
    size_t length = (size_t)(end - port);
    return length == 0 ||
           (strcspn(target->port, "/") == length && strncmp(port, target->port, length) == 0);
}

static bool host_matches(const char *name, const struct target *target)
{
    enum family family;
    struct address address;
    if (*name == '\0')
        return false;
    if (address_parse(name, &family, &address))
        return target->is_address && family == target->family &&
               memcmp(&address, &target->address, sizeof(address)) == 0;
    return !target->is_address && domain_matches(name, target->host);
}

/* Whether the element @text of NO_PROXY is about @target. */
static bool element_matches(const char *text, size_t length, const struct target *target)
{
    char *whole = xstrndup(text, length);
    enum family family;
    struct cidr cidr;
    bool matches = strcmp(whole, "*") == 0;
    if (cidr_parse(whole, &family, &cidr)) {
        matches = target->is_address && family == target->family &&
                  cidr_contains(&cidr, &target->address);
    } else if (!matches) {
        const char *port;
        char *name = split(whole, length, &port);
        matches = host_matches(name, target) && port_matches(port, whole + length, target);
        free(name);
    }
    free(whole);
    return matches;
}

static bool is_exempt(const char *list, const struct target *target)
{
    while (list && *list) {
        size_t length = strcspn(list, ",");
        size_t start = strspn(list, " \t");
        size_t end = length;
        while (end > start && (list[end - 1] == ' ' || list[end - 1] == '\t'))
            end--;
        if (end > start && element_matches(list + start, end - start, target))
            return true;
        list += length + (list[length] == ',');
    }
    return false;
}

int proxy_from_environment(const char *server, char **proxy, struct error *err)
{
    bool https = strncmp(server, "https://", 8) == 0;
    const char *name = https ? "HTTPS_PROXY" : "HTTP_PROXY";
    const char *url = variable(name, https ? "https_proxy" : "http_proxy");
    *proxy = NULL;
    if (!url)
        return 0;
    struct target target = target_of(server, https);
    bool exempt = is_here(&target) || is_exempt(variable("NO_PROXY", "no_proxy"), &target);
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

/* ---- where all of it comes from ---- */

static void drop(char **text)
{
    free(*text);
    *text = NULL;
}

static void drop_credentials(struct client_config *config)
{
    drop(&config->client_cert_file);
    drop(&config->client_cert_data);
    drop(&config->client_key_file);
    drop(&config->client_key_data);
    drop(&config->token);
    drop(&config->token_file);
}

void client_config_clear(struct client_config *config)
{
    drop_credentials(config);
    drop(&config->server);
    drop(&config->ca_file);
    drop(&config->ca_data);
    drop(&config->tls_server_name);
    drop(&config->proxy_url);
    drop(&config->accept);
    *config = (struct client_config){0};
}

static int in_cluster_server(struct client_config *config, struct error *err)
{
    const char *host = getenv("KUBERNETES_SERVICE_HOST");
    const char *port = getenv("KUBERNETES_SERVICE_PORT");
    if (!host || !*host || !port || !*port)
        return error_set(err, "not in a pod (KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT "
                              "are not set): --manifests, --kubeconfig or --master is required");
    bool ipv6 = strchr(host, ':') != NULL;
    char *url = xasprintf("https://%s%s%s:%s", ipv6 ? "[" : "", host, ipv6 ? "]" : "", port);
    config->server = server_url_parse(url, err);
    free(url);
    if (!config->server)
        return error_prefix(err, "KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT");
    return 0;
}

static int in_cluster(const char *folder, struct client_config *config, struct error *err)
{
    if (in_cluster_server(config, err) < 0)
        return -1;
    config->token_file = xasprintf("%s/token", folder);
    if (access(config->token_file, R_OK) < 0)
        return error_set(err, "%s: %s", config->token_file, strerror(errno));
    config->ca_file = xasprintf("%s/ca.crt", folder);
    if (access(config->ca_file, R_OK) < 0) {
        log_error(
            "config",
            "cannot read the service account's CA, using the system's CAs file=%s error=\"%s\"",
            config->ca_file, strerror(errno));
        drop(&config->ca_file);
    }
    return 0;
}

static int override_server(const char *master, struct client_config *config, struct error *err)
{
    char *server = server_url_parse(master, err);
    if (!server)
        return error_prefix(err, "--master");
    free(config->server);
    config->server = server;
    return 0;
}

static int load(const char *kubeconfig, const char *master, const char *folder,
                struct client_config *config, struct error *err)
{
    if (kubeconfig && *kubeconfig && kubeconfig_read(kubeconfig, config, err) < 0)
        return -1;
    if (master && *master)
        return override_server(master, config, err);
    if (config->server)
        return 0;
    if (!kubeconfig || !*kubeconfig)
        return in_cluster(folder, config, err);
    if (in_cluster(folder, config, err) < 0)
        return error_prefix(err, "%s is empty, and no other way to an API server is configured",
                            kubeconfig);
    log_warn("config", "%s is empty: using the pod's service account", kubeconfig);
    return 0;
}

/* The environment counts only where the kubeconfig names no proxy. */
static int find_proxy(struct client_config *config, struct error *err)
{
    if (config->proxy_url)
        return 0;
    if (proxy_from_environment(config->server, &config->proxy_url, err) < 0)
        return -1;
    if (config->proxy_url)
        log_info("config", "using the proxy from the environment server=%s", config->server);
    return 0;
}

int client_config_load_with(const char *kubeconfig, const char *master, const char *folder,
                            struct client_config *config, struct error *err)
{
    *config = (struct client_config){0};
    if (load(kubeconfig, master, folder, config, err) < 0 || find_proxy(config, err) < 0) {
        client_config_clear(config);
        return -1;
    }
    bool plain = strncmp(config->server, "http://", 7) == 0;
    if (plain && (config->token || config->token_file || config->client_cert_file ||
                  config->client_cert_data)) {
        log_warn("config", "not sending credentials: the server is not https server=%s",
                 config->server);
        drop_credentials(config);
    }
    return 0;
}

int client_config_load(const char *kubeconfig, const char *master, struct client_config *config,
                       struct error *err)
{
    return client_config_load_with(kubeconfig, master, ACCOUNT_FOLDER, config, err);
}
