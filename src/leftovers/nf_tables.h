/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What kube-proxy left in nf_tables: the tables of its mode nftables, and the chains and rules that
 * its modes iptables and ipvs made by an iptables that keeps its tables there (iptables-nft).
 */
#ifndef KUBE_NFTD_LEFTOVERS_NF_TABLES_H
#define KUBE_NFTD_LEFTOVERS_NF_TABLES_H

#include "kube-nftd/netlink/nft_socket.h"
#include "report.h"

/**
 * Removes the table kube-proxy of @family, or says that it would; in one transaction. A table that
 * a process owns stays. -1 if the kernel cannot be asked.
 */
int leftovers_remove_table(struct nft_socket *socket, enum family family,
                           struct leftovers_report *report, struct error *err);

/**
 * Removes kube-proxy's chains and the rules that lead to them from the tables filter, mangle and
 * nat of @family, each in one transaction, or says that it would; nothing of anybody else.
 */
void leftovers_remove_chains(struct nft_socket *socket, enum family family,
                             struct leftovers_report *report);

#endif
