/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The kernel's conntrack over netlink: all but reading its table (netlink/conntrack_scan.h).
 *
 * Deletions are gathered and go in one message each time they are flushed. The kernel works on them
 * before it returns, so a flush never waits.
 */
#ifndef KUBE_NFTD_NETLINK_CONNTRACK_H
#define KUBE_NFTD_NETLINK_CONNTRACK_H

#include "kube-nftd/base/error.h"
#include "kube-nftd/netlink/conntrack_flow.h"

#include <stdint.h>

struct conntrack;
struct mnl_socket;

/** NULL if the kernel has no conntrack over netlink or does not let us; the error says why. */
struct conntrack *conntrack_open(struct error *err);
void conntrack_close(struct conntrack *conntrack);

/** How many entries of all kinds the table of this network namespace has. Not between a deletion
 * and its flush. */
int conntrack_count(struct conntrack *conntrack, uint32_t *n, struct error *err);

/** Notes @flow for deletion: this entry, not one that took its place meanwhile. (The kernel tells
 * them apart by where they are in memory.) */
void conntrack_delete(struct conntrack *conntrack, const struct conntrack_flow *flow);

/* What became of deletions. An entry that was gone already is counted nowhere. */
struct conntrack_deletions {
    uint64_t deleted, failed;
    int first_errno; /* of those that failed */
};

/** Deletes what was noted. Returns what became of all deletions since the last flush. */
struct conntrack_deletions conntrack_flush(struct conntrack *conntrack);

/** Begins a request of @type (IPCTNL_MSG_CT_*) about @nf_family in @buffer. */
struct nlmsghdr *conntrack_request(void *buffer, uint8_t type, uint16_t flags, uint8_t nf_family,
                                   uint32_t sequence);

/** A netlink socket for conntrack. NULL: see errno. */
struct mnl_socket *conntrack_socket(void);

#endif
