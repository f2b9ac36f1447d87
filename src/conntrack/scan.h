/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Conntrack over netlink: scans the table for UDP flows, and TCP flows of flowtables, and deletes
 * them.
 *
 * The kernel fills the next buffer (32 KiB, about 170 flows) while it hands out the current one, so
 * a scan step costs the time to find that many entries: half a millisecond. Until then the kernel
 * neither reschedules nor lets the CPU handle packets. A kernel-side filter makes the whole scan
 * cheaper but its steps longer: if it drops nearly all of a big table, one step is the whole scan
 * (0.3 us per entry; 2.5 us unfiltered). In a nearly empty table, one step visits all buckets (50
 * ns each).
 */
#ifndef KUBE_NFTD_CONNTRACK_SCAN_H
#define KUBE_NFTD_CONNTRACK_SCAN_H

#include "kube-nftd/base.h"
#include "kube-nftd/net.h"

struct conntrack;
struct nlattr;
struct nlmsghdr;

/* One direction of a flow. */
struct conntrack_tuple {
    struct backend source, destination;
};

/* A UDP flow; or one of TCP that a flowtable forwards, or did until it was reset: its entry stays
 * established then, for ten seconds. */
struct conntrack_flow {
    enum family family;
    uint8_t protocol;
    struct conntrack_tuple original; /* before translation */
    struct conntrack_tuple reply;
    /* Identify the entry; borrowed from the message. */
    const struct nlattr *tuple, *zone, *id; /* zone NULL: the default */
};

/** NULL with an error if the kernel lacks conntrack over netlink or denies access. */
struct conntrack *conntrack_open(struct error *err);
void conntrack_close(struct conntrack *conntrack);

/** Counts all entries of this network namespace's table. */
int conntrack_count(struct conntrack *conntrack, uint32_t *n, struct error *err);

enum conntrack_progress {
    CONNTRACK_MORE,
    CONNTRACK_DONE,
    CONNTRACK_INTERRUPTED, /* at the end or earlier: entries may have been missed */
    CONNTRACK_FAILED,
};

typedef void (*conntrack_flow_fn)(void *ctx, const struct conntrack_flow *flow);

/** Starts a scan that passes the UDP flows of @family to @fn, with @tcp those of TCP, too, and ends
 * a running one. @filtered makes the kernel select the family, and without @tcp the protocol;
 * kernels before 5.8 do not select that. */
int conntrack_scan_begin(struct conntrack *conntrack, enum family family, bool filtered, bool tcp,
                         conntrack_flow_fn fn, void *ctx, struct error *err);
void conntrack_scan_end(struct conntrack *conntrack);

/** Readable when a step can make progress. */
int conntrack_scan_fd(const struct conntrack *conntrack);

/** Processes the next buffer, then sends the deletions. The scan is over after any result but
 * CONNTRACK_MORE. Does not block. */
enum conntrack_progress conntrack_scan_step(struct conntrack *conntrack, struct error *err);

/** Deletes the entry of @flow at the end of this scan step, but not one that replaced it meanwhile
 * (the id, derived from the entry's memory address, differs). */
void conntrack_delete(struct conntrack *conntrack, const struct conntrack_flow *flow);

/* The outcome of deletions; entries that were already gone are not counted. */
struct conntrack_deletions {
    uint64_t deleted, failed;
    int first_errno; /* of the failed ones */
};

/** Since the last call. */
struct conntrack_deletions conntrack_take_deletions(struct conntrack *conntrack);

/** Begins a request of @type (IPCTNL_MSG_CT_*) about @nf_family in @buffer. */
struct nlmsghdr *conntrack_request(void *buffer, uint8_t type, uint16_t flags, uint8_t nf_family,
                                   uint32_t sequence);

#endif
