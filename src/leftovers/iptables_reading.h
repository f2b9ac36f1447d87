/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Reads a table of iptables-nft, with what nft added to it, as far as a plan needs it. */
#ifndef KUBE_NFTD_LEFTOVERS_IPTABLES_READING_H
#define KUBE_NFTD_LEFTOVERS_IPTABLES_READING_H

#include "iptables_plan.h"
#include "kube-nftd/netlink/nft_socket.h"

/**
 * Initializes @plan and tells it all that table @table of @family has. @overtaken says whether
 * others changed nf_tables meanwhile, so that something may be missing. -1 with @err: it cannot be
 * read, and @plan is empty.
 */
int iptables_plan_read(struct iptables_plan *plan, struct nft_socket *socket, enum family family,
                       const char *table, bool *overtaken, struct error *err);

#endif
