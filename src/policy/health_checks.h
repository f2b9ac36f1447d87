/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The open healthCheckNodePorts and their endpoint counts (docs/behaviour.md 6.1). */
#ifndef KUBE_NFTD_POLICY_HEALTH_CHECKS_H
#define KUBE_NFTD_POLICY_HEALTH_CHECKS_H

#include "kube-nftd/policy.h"

/* The caches and health are borrowed; the rest starts zeroed. */
struct health_checks {
    const struct caches *caches;
    health_check_fn report;
    struct health *health;
    bool in_use[FAMILY_COUNT]; /* report checks of this family */
    struct hash_table by_service;
    VEC(struct health_check *) dirty[FAMILY_COUNT];
    endpoint_vec endpoints; /* scratch */
    address_vec addresses;  /* likewise */
};

typedef bool (*service_waits_fn)(const void *ctx, const char *service_id, enum family family);

/** Marks the health check of a Service, current or former, dirty. */
void health_checks_mark(struct health_checks *checks, const char *service_id);

/** The number of distinct addresses among the local ready endpoints of @service. */
size_t health_checks_count(struct health_checks *checks, const struct service *service,
                           enum family family, const struct location *here);

/** Reports the dirty checks of @family, except those of Services that @waits returns true for. */
void health_checks_sync(struct health_checks *checks, enum family family,
                        const struct location *here, service_waits_fn waits, const void *ctx);

void health_checks_clear(struct health_checks *checks);

#endif
