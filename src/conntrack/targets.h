/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Which flows are stale. Frontends lead to service ports, and both can change. A change of either
 * is
 *
 *     targets_set, _set_port    pending
 *     targets_apply             applied, a scan is due
 *     targets_begin_scan        being scanned for
 *     targets_end_scan          done, unless another scan is due
 *
 * From its application on, flows are judged by it; while it is pending, those that are judged for
 * another reason have to be stale both with and without it.
 *
 * If a scan found an untranslated flow, more scans follow for some time: an answer in flight when
 * the entry was deleted creates a new one.
 */
#ifndef KUBE_NFTD_CONNTRACK_TARGETS_H
#define KUBE_NFTD_CONNTRACK_TARGETS_H

#include "kube-nftd/conntrack.h"
#include "scan.h"

/* Time for packets in flight under the old rules to reach the conntrack table. */
#define FLIGHT_SECONDS 0.01

/* A frontend or service port. */
struct target {
    struct hash_link link; /* by frontend, or id */
    bool is_port;
    bool is_pending;
    bool is_active; /* a scan is due or running: flows are judged by what is applied */
    bool scanned;   /* by the running scan */
    bool found;     /* an untranslated flow */
    unsigned rechecks;
    double due; /* earliest time of a scan; 0: none is due */
};

typedef VEC(struct target *) target_vec;

/* Those of a family. Starts zeroed, except for the function. */
struct targets {
    struct hash_table frontends, ports;
    target_vec pending, active;
    double due;                      /* the earliest of the active ones; 0: none is due */
    flow_not_applied_fn not_applied; /* may be NULL */
    const void *ctx;
};

/** As flow_cleaner_set(), flow_cleaner_set_port(), flow_cleaner_remove_port(). */
void targets_set(struct targets *targets, const struct frontend *frontend, uint32_t id);
void targets_set_port(struct targets *targets, uint32_t id, const struct backend *in_use, size_t n);
void targets_remove_port(struct targets *targets, uint32_t id);

/** Applies what is pending, except what targets->not_applied says. targets->due is when the next
 * scan is due. */
void targets_apply(struct targets *targets);

/** Whether @flow is stale by what is scanned for, or waits to be. */
bool targets_flow_is_stale(const struct targets *targets, const struct conntrack_flow *flow);

/** A scan begins, for all that is due at @time. Returns whether that has to do with TCP. */
bool targets_begin_scan(struct targets *targets, double time);

/** It ended. @seen: it read the table; else it is due again. */
void targets_end_scan(struct targets *targets, bool seen);

void targets_clear(struct targets *targets);

#endif
