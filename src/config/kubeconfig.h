/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A kubeconfig's current-context names a context, which names a cluster and a user; their fields
 * are used. Only these entries are checked: others may be meant for other programs. A field of the
 * wrong type is an error.
 */
#ifndef KUBE_NFTD_CONFIG_KUBECONFIG_H
#define KUBE_NFTD_CONFIG_KUBECONFIG_H

#include "kube-nftd/base.h"
#include "kube-nftd/config.h"

/** Reads the file at @path into @config. An empty one leaves @config without a server. The error
 * names file, entry and field; then @config may be half filled. */
int kubeconfig_read(const char *path, struct client_config *config, struct error *err);

/** Frees the fields of the user: the credentials. */
void kubeconfig_drop_user(struct client_config *config);

#endif
