/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * One pass over the kernel's conntrack table, a buffer at a time.
 *
 * The kernel fills the next buffer (32 KiB, some 170 flows) while it hands out one, so a step costs
 * as much as it takes to find that many entries: half a millisecond. Until it has found them the
 * kernel neither stops nor lets the CPU handle packets. So a filter in the kernel makes the whole
 * pass cheaper, but a step longer: where it leaves out nearly all of a big table, one step is the
 * whole pass (0.3 us an entry; unfiltered, it is 2.5 us). In a table that is nearly empty, one step
 * goes through all of its buckets (50 ns each).
 */
#ifndef KUBE_NFTD_NETLINK_CONNTRACK_SCAN_H
#define KUBE_NFTD_NETLINK_CONNTRACK_SCAN_H

#include "kube-nftd/base/error.h"
#include "kube-nftd/netlink/conntrack_flow.h"

#include <stdint.h>

struct conntrack_scan;

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

#endif
