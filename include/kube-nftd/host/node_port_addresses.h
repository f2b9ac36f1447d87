/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * On which addresses of this host node ports answer (docs/behaviour.md 4.7). Pure: says what
 * follows from the setting, the addresses that the host has now and the node's own ones.
 *
 * With "primary", a family of which the node's own address is not known has no node-port addresses.
 * That differs on purpose from kube-proxy, which then opens node ports on all addresses of the
 * family (docs/behaviour.md 11, row 12): what nobody asked for stays closed until the address is
 * known.
 *
 * Where all addresses of IPv6 are meant, link-local ones (fe80::/10) are not: each pod brings one
 * to its interface here, and no client has a service's node port there.
 */
#ifndef KUBE_NFTD_HOST_NODE_PORT_ADDRESSES_H
#define KUBE_NFTD_HOST_NODE_PORT_ADDRESSES_H

#include "kube-nftd/model/cidr.h"

#include <stdbool.h>

/* On which addresses node ports answer (docs/behaviour.md 4.7). */
struct node_port_addresses {
    bool primary; /* the default: the node's own address of each family; no CIDRs then */
    cidr_vec cidrs[FAMILY_COUNT];
};

struct node_port_selection {
    address_vec addresses; /* sorted, without duplicates, no loopback addresses */
    bool all;              /* whatever addresses the host has */
};

/**
 * Fills in @out, which the caller clears.
 * @host  the addresses of @family on this host's interfaces, sorted, without duplicates
 * @own   the node's own address of @family; NULL if it has none or none is known
 */
void node_port_addresses_select(const struct node_port_addresses *wanted, enum family family,
                                const address_vec *host, const struct address *own,
                                struct node_port_selection *out);

void node_port_selection_clear(struct node_port_selection *selection);

#endif
