/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Entries of conntrack's table: those that a change made stale are deleted, after it is applied. */
#ifndef KUBE_NFTD_CONNTRACK_H
#define KUBE_NFTD_CONNTRACK_H

#include "kube-nftd/base.h"
#include "kube-nftd/net.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ev_loop;

/*
 * ---- stale UDP flows: flow_cleaner.c ----
 *
 * Deletes conntrack entries of UDP flows whose backend is no longer in use (docs/behaviour.md 5.1),
 * so that clients that keep their socket reach a new one. Frontends lead to service ports, which
 * have the backends.
 *
 * A scan covers only frontends that changed, or whose service port did, since their last clean
 * scan. It streams the kernel's table through one buffer, one piece per loop iteration, so it never
 * delays rule updates.
 *
 * A flow to a frontend (its original destination) is stale if the source of its replies, address
 * and port, is not a backend in use and
 *
 *     - the frontend is claimed, whether or not the flow is translated: a client may have sent to
 *       the address before the service existed, and its flow would bypass the service;
 *     - the frontend is not claimed and the flow is translated, that is, its replies do not come
 *       from the original destination.
 *
 * An untranslated flow from a claimed frontend's own address and port is stale, too. It answers a
 * client that sent to the address before the service existed, and the client's next packet would
 * bypass the service. More such answers may be on their way during a scan, so a scan that finds an
 * untranslated flow to delete is followed by others for that frontend, for about 3 seconds.
 *
 * A change counts from the next flow_cleaner_run() on. Until then the kernel may have the old rules
 * or the new ones, so a running scan deletes only flows that are stale by both.
 *
 * Flows of TCP are deleted only if a flowtable forwards them, or did until they were reset, and the
 * service port that their frontend leads to has not got their backend any more: up to Linux 6.12, a
 * client that comes again from the same port within ten seconds after a reset would get to it.
 *
 * Flows of other protocols, other destinations and other network namespaces are not touched.
 */

struct flow_cleaner;

/* Whether the latest change of @frontend, or of the service port @id if that is NULL, is not
 * applied: pending, or rejected by the kernel. */
typedef bool (*flow_not_applied_fn)(const void *ctx, const struct frontend *frontend, uint32_t id);

/* Counters of one family. */
struct flow_cleaner_stats {
    uint64_t scans; /* complete ones; the seconds are theirs */
    uint64_t deleted, failed_deletions, failed_scans;
    double total_scan_seconds;
    struct histogram scan_seconds;
};

/** NULL with an error if the kernel has no conntrack over netlink (CONFIG_NF_CT_NETLINK). */
struct flow_cleaner *flow_cleaner_new(struct ev_loop *loop, struct error *err);
void flow_cleaner_free(struct flow_cleaner *cleaner);

/** Makes @frontend, of UDP, or of TCP where there is a flowtable, lead to the service port @id; 0:
 * no service has it any more. */
void flow_cleaner_set(struct flow_cleaner *cleaner, const struct frontend *frontend, uint32_t id);

/** Sets the @n backends that keep their flows (sorted by backend_compare, copied) of the service
 * port
 * @id, which is not 0. */
void flow_cleaner_set_port(struct flow_cleaner *cleaner, enum family family, uint32_t id,
                           const struct backend *in_use, size_t n);

/** Forgets a service port as soon as no frontend leads there. */
void flow_cleaner_remove_port(struct flow_cleaner *cleaner, enum family family, uint32_t id);

/** flow_cleaner_run() skips the frontends and service ports of @family for which @fn returns true.
 */
void flow_cleaner_skip(struct flow_cleaner *cleaner, enum family family, flow_not_applied_fn fn,
                       const void *ctx);

/** Call when the changes of @family are applied, except those that it skips. Schedules a scan for
 * stale flows, after a moment for packets in flight under the old rules; while a scan runs, after
 * its end and a pause as long as it took. Cheap if nothing changed. Failed scans are retried. */
void flow_cleaner_run(struct flow_cleaner *cleaner, enum family family);

const struct flow_cleaner_stats *flow_cleaner_stats(const struct flow_cleaner *cleaner,
                                                    enum family family);

/*
 * ---- flows that flowtables forward: flowtable_flows.c ----
 *
 * On sockets of its own, and best effort.
 */

struct flowtable_flows {
    uint64_t n[FAMILY_COUNT]; /* those that are translated */
    bool estimated;           /* from a part of conntrack's table, which is large */
};

/** Counts them; takes some milliseconds, however many there are. False: they cannot be counted. */
bool flowtable_flows(struct flowtable_flows *flows);

#endif
