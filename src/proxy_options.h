/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Translates options into the proxy's configuration. */
#ifndef KUBE_NFTD_PROXY_OPTIONS_H
#define KUBE_NFTD_PROXY_OPTIONS_H

#include "kube-nftd/config.h"
#include "kube-nftd/table.h"
#include "proxy.h"

/**
 * Fills @config from @options. Strings and lists are borrowed.
 * @node_name  this node's name; borrowed
 */
void proxy_options_apply(const struct options *options, const char *node_name,
                         struct proxy_config *config);

/**
 * Checks that a configured cluster CIDR is of a family in use (docs/behaviour.md 8.2): -1 if CIDRs
 * are given, but none for a family in use.
 */
int proxy_options_check_cluster_cidr(const struct options *options,
                                     const struct proxy_config *config, struct error *err);

/**
 * Disables what this kernel does not support, with a log line each: families that lack a
 * requirement, and optional features. -1 if no family is left; @err names what is missing.
 */
int proxy_options_check_kernel(struct nft_socket *socket, struct proxy_config *config,
                               struct error *err);

#endif
