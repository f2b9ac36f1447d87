/* SPDX-License-Identifier: GPL-2.0-or-later */
/* From the command line to the proxy's configuration. */
#ifndef KUBE_NFTD_PROXY_OPTIONS_H
#define KUBE_NFTD_PROXY_OPTIONS_H

#include "kube-nftd/config.h"
#include "kube-nftd/table.h"
#include "proxy.h"

/**
 * Fills in what @options say. Texts and lists are borrowed from them.
 * @node_name  the own node's; borrowed
 */
void proxy_options_apply(const struct options *options, const char *node_name,
                         struct proxy_config *config);

/**
 * Whether the pods' addresses that are given are of a family in use (docs/behaviour.md 8.2): -1 if
 * there are some and none of them counts.
 */
int proxy_options_check_cluster_cidr(const struct options *options,
                                     const struct proxy_config *config, struct error *err);

/**
 * Takes out of @config what this kernel cannot do, with a warning for each: a family that misses
 * something needed, what a family can do without. -1 if no family is left; the error names what is
 * missing.
 */
int proxy_options_check_kernel(struct nft_socket *socket, struct proxy_config *config,
                               struct error *err);

#endif
