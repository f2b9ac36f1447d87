/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The kernel's conntrack over netlink: its UDP flows, read in passes over the table, and their
 * deletion.
 *
 * The kernel fills the next buffer (32 KiB, some 170 flows) while it hands out one, so a step of a
 * pass costs as much as it takes to find that many entries: half a millisecond. Until it has found
 * them the kernel neither stops nor lets the CPU handle packets. So a filter in the kernel makes
 * the whole pass cheaper, but a step longer: where it leaves out nearly all of a big table, one
 * step is the whole pass (0.3 us an entry; unfiltered, it is 2.5 us). In a table that is nearly
 * empty, one step goes through all of its buckets (50 ns each).
 *
 * Deletions are gathered and go in one message each time they are flushed. The kernel works on them
 * before it returns, so a flush never waits.
 */
#ifndef KUBE_NFTD_NETLINK_CONNTRACK_H
#define KUBE_NFTD_NETLINK_CONNTRACK_H

#include "kube-nftd/base.h"
#include "kube-nftd/model.h"

#include <stdint.h>

struct conntrack;
struct conntrack_scan;
struct nlattr;
struct nlmsghdr;

/* A UDP flow as the kernel tells of it, read where it lies. */
struct conntrack_flow {
    struct frontend to;    /* where it was sent, before translation */
    struct backend server; /* where its replies come from */
    /* What names just this entry; borrowed from the message. No zone: the default one. */
    const struct nlattr *original, *zone, *id;
    const struct nlattr *reply; /* the tuple of its replies, borrowed too */
};

/** Whether replies come from elsewhere than the flow went to. */
bool conntrack_flow_is_translated(const struct conntrack_flow *flow);

/**
 * Whether nothing is translated, neither way; then @from is who sent the first packet. So it looks
 * when that packet was the answer to a question whose own entry has gone: what the client asks next
 * counts as the reply to it, and is not translated either.
 */
bool conntrack_flow_is_plain(const struct conntrack_flow *flow, struct frontend *from);

enum conntrack_progress {
    CONNTRACK_MORE,
    CONNTRACK_DONE,
    CONNTRACK_INTERRUPTED, /* at its end or before: some entries may not have been seen */
    CONNTRACK_UNFILTERED,  /* the kernel does not know the filter */
    CONNTRACK_FAILED,      /* the error says why */
};

/** Asks for the table: with @filtered only for UDP flows of @family, if the kernel can. NULL on
 * error. */
struct conntrack_scan *conntrack_scan_new(enum family family, bool filtered, struct error *err);
void conntrack_scan_free(struct conntrack_scan *scan);

/** Readable when there is something for a step. */
int conntrack_scan_fd(const struct conntrack_scan *scan);

typedef void (*conntrack_flow_fn)(void *ctx, const struct conntrack_flow *flow);

/** Gives the UDP flows of the family in the next buffer to @fn. After anything but
 * CONNTRACK_MORE the scan is over. Never waits. */
enum conntrack_progress conntrack_scan_step(struct conntrack_scan *scan, conntrack_flow_fn fn,
                                            void *ctx, struct error *err);

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

#endif
