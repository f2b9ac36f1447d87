/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Removes conntrack entries of UDP flows whose backend is not in use any more
 * (docs/behaviour.md 5.1), so that unbroken sockets move on. Knows frontends and backends, not
 * Kubernetes.
 *
 * Only frontends that were named since they were clean are looked at. A scan streams the kernel's
 * table through one buffer, a piece a turn of the loop: it holds no object for a flow and never
 * keeps rule updates waiting. A frontend that is named again while a scan runs is judged by what
 * was said last, and scanned for once more.
 *
 * A flow to a frontend (its original destination) is stale if the source of its replies, address
 * and port, is none of the serving backends and
 *
 *     - the frontend is claimed: whether the flow is translated or not. A client may have spoken to
 *       the address before there was a service, and would go on past it;
 *     - the frontend is not claimed: if the flow is translated, that is if its replies come from
 *       elsewhere than it went to.
 *
 * A flow from a claimed frontend's own address and port is stale too, if nothing of it is
 * translated: it is the answer to a client that spoke to the address before there was a service,
 * and takes the client's next question past the service. Such an answer may be on its way while a
 * scan runs, so a scan that finds an untranslated flow to delete is followed by some more for that
 * frontend, over some 3 seconds.
 *
 * What is noted counts from the next flow_cleaner_run() on. Until then the kernel may hold the old
 * rules or the new ones, so a frontend that is being scanned for meanwhile is judged by all that
 * was said of it since it was last applied: only what is stale by each of it goes.
 *
 * Flows of other protocols, to other destinations and of other network namespaces are left alone.
 */
#ifndef KUBE_NFTD_NETLINK_FLOW_CLEANER_H
#define KUBE_NFTD_NETLINK_FLOW_CLEANER_H

#include "kube-nftd/base/error.h"
#include "kube-nftd/base/histogram.h"
#include "kube-nftd/model/frontend.h"

#include <stdint.h>

struct ev_loop;
struct flow_cleaner;

/* Whether something else than what was said of @frontend last may be applied. */
typedef bool (*flow_held_back_fn)(const void *ctx, const struct frontend *frontend);

/* What was done so far, by family. */
struct flow_cleaner_stats {
    uint64_t scans; /* that saw the whole table; the seconds are theirs */
    uint64_t deleted, failed_deletions, failed_scans;
    double total_scan_seconds;
    struct histogram scan_seconds; /* likewise */
};

/** NULL if the kernel has no conntrack over netlink (CONFIG_NF_CT_NETLINK); the error says so. */
struct flow_cleaner *flow_cleaner_new(struct ev_loop *loop, struct error *err);
void flow_cleaner_free(struct flow_cleaner *cleaner);

/**
 * From now on, UDP flows to @frontend are stale if the source of their replies is none of the @n
 * @serving backends (sorted by backend_compare, copied). If @claimed is false nobody has the
 * frontend any more: then all of its translated flows are stale, and untranslated ones are none of
 * our business. Nothing is deleted before flow_cleaner_run(). Other protocols are ignored.
 */
void flow_cleaner_note(struct flow_cleaner *cleaner, const struct frontend *frontend, bool claimed,
                       const struct backend *serving, size_t n);

/** From now on flow_cleaner_run() asks of each frontend of @family that was noted whether it is
 * held back, since it waits for its commit or the kernel refused it: then nothing is deleted by
 * that note until a later run. */
void flow_cleaner_hold_back(struct flow_cleaner *cleaner, enum family family,
                            flow_held_back_fn held_back, const void *ctx);

/** What was noted of @family and is not held back is applied in its table: look for stale flows, a
 * moment later (packets that are on their way by the old rules arrive before) or after the scan
 * that runs and a pause as long as it took. Cheap if nothing was noted. A scan that could not be
 * done at all is done with the next call. */
void flow_cleaner_run(struct flow_cleaner *cleaner, enum family family);

const struct flow_cleaner_stats *flow_cleaner_stats(const struct flow_cleaner *cleaner,
                                                    enum family family);

#endif
