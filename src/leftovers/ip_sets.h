/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The IP sets of kube-proxy's mode ipvs. */
#ifndef KUBE_NFTD_LEFTOVERS_IP_SETS_H
#define KUBE_NFTD_LEFTOVERS_IP_SETS_H

#include "report.h"

#include <stdint.h>

/* Which ports of each protocol are node ports of kube-proxy's. */
struct leftover_node_ports {
    bool tcp[UINT16_MAX + 1], udp[UINT16_MAX + 1], sctp[UINT16_MAX + 1];
};

/**
 * Reads the sets in which kube-proxy keeps its node ports. None where there are none. 0, or an
 * errno: they cannot be read, so nobody knows whose a virtual server is.
 */
int leftovers_read_node_ports(struct leftover_node_ports *ports);

/**
 * Destroys kube-proxy's IP sets of both families, or says that it would. A set that a rule names
 * stays, so those rules go first. In a dry run, all sets count as if they were gone.
 */
void leftovers_remove_ip_sets(struct leftovers_report *report);

#endif
