/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What kube-proxy's modes iptables and ipvs call the things that they make in the kernel. Other
 * programs have names that begin with KUBE- as well: the kubelet (KUBE-FIREWALL in the table
 * filter, KUBE-MARK-DROP, KUBE-KUBELET-CANARY, KUBE-IPTABLES-HINT), kube-router (KUBE-ROUTER-...,
 * KUBE-NWPLCY-..., KUBE-POD-FW-...), CRI-O (KUBE-HOSTPORTS). So only the exact names count.
 */
#ifndef KUBE_NFTD_LEFTOVERS_KUBE_PROXY_H
#define KUBE_NFTD_LEFTOVERS_KUBE_PROXY_H

#include <stdbool.h>
#include <stddef.h>

/** The tables of iptables in which kube-proxy has chains: filter, mangle, nat. */
extern const char *const kube_proxy_tables[];
extern const size_t kube_proxy_tables_count;

/** Whether the chain @chain of the iptables table @table is one of kube-proxy's. */
bool kube_proxy_has_chain(const char *table, const char *chain);

/**
 * The beginning that @chain has in common with others of its kind, "KUBE-SVC-" and the like: what
 * kube-proxy makes for each service and endpoint. NULL for any other name.
 */
const char *kube_proxy_chain_kind(const char *chain);

/** Whether kube-proxy puts the comment @comment to the rules that lead to its chains. */
bool kube_proxy_has_comment(const char *comment);

/** Whether the IP set @name is one of kube-proxy's. */
bool kube_proxy_has_ip_set(const char *name);

#endif
