/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Determines the API server and the credentials: from the kubeconfig, --master, or a pod's service
 * account. Token and certificate files are rotated at run time, so only their paths are kept; the
 * client reads them.
 */
#include "kube-nftd/config.h"

#include "kube-nftd/base.h"
#include "kubeconfig.h"
#include "server_url.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ACCOUNT_FOLDER "/var/run/secrets/kubernetes.io/serviceaccount"

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
    if (has_file && kubeconfig_read(kubeconfig, config, err))
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
        kubeconfig_drop_user(config);
    return 0;
}
