/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Connections counted. Packets write two sets of the table and count themselves in their elements
 * (base.nft), so the kernel has the totals: they cost nothing where nobody connects, and no restart
 * loses them. They are read when somebody wants to know, in pieces, so that the loop does what has
 * come between two of them.
 */
#ifndef KUBE_NFTD_RULESET_CONNECTIONS_H
#define KUBE_NFTD_RULESET_CONNECTIONS_H

#include "kube-nftd/netlink/nft_socket.h"
#include "kube-nftd/ruleset/ruleset.h"

/** Whether the last complete reading of the totals of service ports was begun at @since
 * (clock_monotonic) or later. If not, reads a piece, which may be the last one. Where nothing is
 * counted there is nothing to read. */
bool ruleset_read_connections(struct ruleset *ruleset, double since);

/** When that was begun; 0: there was none. */
double ruleset_connections_read(const struct ruleset *ruleset);

/** New connections to the service port with @id, by what was read of it last. */
uint64_t ruleset_connections(const struct ruleset *ruleset, uint32_t id);

/** Those that left for @backend, by asking the kernel; -1: it does not answer. */
int ruleset_endpoint_connections(const struct ruleset *ruleset, struct nft_socket *socket,
                                 uint32_t id, const struct backend *backend, uint64_t *total,
                                 struct error *err);

#endif
