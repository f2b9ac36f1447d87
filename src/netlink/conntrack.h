/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The kernel's conntrack over netlink: its UDP flows, read in scans of the table, and their
 * deletion.
 *
 * The kernel fills the next buffer (32 KiB, some 170 flows) while it hands out one, so a step of a
 * scan costs as much as it takes to find that many entries: half a millisecond. Until it has found
 * them the kernel neither stops nor lets the CPU handle packets. So a filter in the kernel makes
 * the whole scan cheaper, but a step longer: where it leaves out nearly all of a big table, one
 * step is the whole scan (0.3 us an entry; unfiltered, it is 2.5 us). In a table that is nearly
 * empty, one step goes through all of its buckets (50 ns each).
 */
#ifndef KUBE_NFTD_NETLINK_CONNTRACK_H
#define KUBE_NFTD_NETLINK_CONNTRACK_H

#include "kube-nftd/base.h"
#include "kube-nftd/model.h"

struct conntrack;
struct nlattr;
struct nlmsghdr;

/* One direction of a flow. */
struct conntrack_tuple {
    struct backend source, destination;
};

#define CONNTRACK_NAMES 3

/* A UDP flow. */
struct conntrack_flow {
    enum family family;
    struct conntrack_tuple original; /* before translation */
    struct conntrack_tuple reply;
    /* What names just this entry: its tuple, zone (NULL: the default one) and number; borrowed from
     * the message. */
    const struct nlattr *names[CONNTRACK_NAMES];
};

/** NULL if the kernel has no conntrack over netlink or does not let us; the error says why. */
struct conntrack *conntrack_open(struct error *err);
void conntrack_close(struct conntrack *conntrack);

/** How many entries of all kinds the table of this network namespace has. */
int conntrack_count(struct conntrack *conntrack, uint32_t *n, struct error *err);

enum conntrack_progress {
    CONNTRACK_MORE,
    CONNTRACK_DONE,
    CONNTRACK_INTERRUPTED, /* at its end or before: some entries may not have been seen */
    CONNTRACK_FAILED,      /* the error says why */
};

/** Asks for the table, in place of a scan that runs: with @filtered only for UDP flows of @family,
 * which kernels before 5.8 do not heed. */
int conntrack_scan_begin(struct conntrack *conntrack, enum family family, bool filtered,
                         struct error *err);
void conntrack_scan_end(struct conntrack *conntrack);

/** Readable when there is something for a step. */
int conntrack_scan_fd(const struct conntrack *conntrack);

typedef void (*conntrack_flow_fn)(void *ctx, const struct conntrack_flow *flow);

/** Gives the UDP flows of the family in the next buffer to @fn. After anything but CONNTRACK_MORE
 * there are no more. Never waits. */
enum conntrack_progress conntrack_scan_step(struct conntrack *conntrack, conntrack_flow_fn fn,
                                            void *ctx, struct error *err);

/** Deletes the entry of @flow, not one that took its place meanwhile. (The kernel tells them apart
 * by where they are in memory.) 0 or an errno; ENOENT: it was gone already. */
int conntrack_delete(struct conntrack *conntrack, const struct conntrack_flow *flow);

/** Begins a request of @type (IPCTNL_MSG_CT_*) about @nf_family in @buffer. */
struct nlmsghdr *conntrack_request(void *buffer, uint8_t type, uint16_t flags, uint8_t nf_family,
                                   uint32_t sequence);

#endif
