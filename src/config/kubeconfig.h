/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The kubeconfig file (docs/behaviour.md 8.4). */
#ifndef KUBE_NFTD_CONFIG_KUBECONFIG_H
#define KUBE_NFTD_CONFIG_KUBECONFIG_H

#include "kube-nftd/base/error.h"
#include "kube-nftd/config/client_config.h"

/**
 * Fills the zeroed @config from the current context of the file @path. A kubeconfig that says
 * nothing leaves @config without a server. On failure the error names file and entry, and the
 * caller clears what is in @config.
 */
int kubeconfig_read(const char *path, struct client_config *config, struct error *err);

#endif
