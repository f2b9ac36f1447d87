/* SPDX-License-Identifier: GPL-2.0-or-later */
/* How to reach the API server: from a kubeconfig, --master, or the pod's service account
 * (docs/behaviour.md 8.4). */
#ifndef KUBE_NFTD_CONFIG_CLIENT_CONFIG_H
#define KUBE_NFTD_CONFIG_CLIENT_CONFIG_H

#include "kube-nftd/base/error.h"

#include <stdbool.h>

/* Strings are owned, NULL where absent. PEM data wins over the file of the same thing; files are
 * read again for every request. */
struct client_config {
    char *server; /* https://host:port, no slash at the end */
    char *ca_file, *ca_data;
    char *client_cert_file, *client_cert_data;
    char *client_key_file, *client_key_data;
    char *token;      /* used if there is no token_file, or until that can be read */
    char *token_file; /* likewise: tokens are replaced in place */
    char *tls_server_name;
    char *proxy_url; /* of the kubeconfig, or else of the environment */
    char *accept;    /* the Accept header; not of a kubeconfig: whoever loads it may set it */
    bool insecure_skip_tls_verify;
    bool disable_compression; /* of answers */
};

/**
 * Fills @config. @kubeconfig and @master may be NULL; with both NULL the in-cluster credentials
 * are used. @master overrides the server of the kubeconfig. Relative paths in a kubeconfig are
 * relative to its folder. What kube-nftd cannot do (exec, auth-provider, username, impersonation)
 * is an error that names the entry. A kubeconfig that says nothing counts as absent. Credentials
 * are left out (and that is logged) if the server is not https. On failure nothing is left in
 * @config.
 */
int client_config_load(const char *kubeconfig, const char *master, struct client_config *config,
                       struct error *err);

/** The same with the service account's files in @folder, so that tests can have one. */
int client_config_load_with(const char *kubeconfig, const char *master, const char *folder,
                            struct client_config *config, struct error *err);

/** Frees what is in @config and zeroes it. */
void client_config_clear(struct client_config *config);

#endif
