/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Decides where the server and the credentials come from: the kubeconfig, --master, or the service
 * account that a pod finds mounted. Files of tokens and certificates are only named here; they are
 * replaced while the daemon runs, so who uses them reads them.
 */
#include "kube-nftd/config/client_config.h"

#include "kube-nftd/base/alloc.h"
#include "kube-nftd/base/log.h"
#include "kubeconfig.h"
#include "server_url.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ACCOUNT_FOLDER "/var/run/secrets/kubernetes.io/serviceaccount"

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
