/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Which healthCheckNodePorts are open, and what they count (docs/behaviour.md 6.1). */
#ifndef KUBE_NFTD_POLICY_HEALTH_CHECKS_H
#define KUBE_NFTD_POLICY_HEALTH_CHECKS_H

#include "kube-nftd/policy.h"

/* The caches and who is told are borrowed; all else starts zeroed. */
struct health_checks {
    const struct service_cache *services;
    const struct endpoint_slice_cache *slices;
    health_check_fn tell;
    struct health *health;
    bool told[FAMILY_COUNT]; /* of checks in this family */
    struct hash_table by_service;
    VEC(struct health_check *) noted[FAMILY_COUNT];
    endpoint_vec endpoints; /* scratch */
    address_vec addresses;  /* likewise */
};

typedef bool (*service_waits_fn)(const void *ctx, const char *service_id, enum family family);

/** The number of a Service that has a health check, or had one, may be another. */
void health_checks_note(struct health_checks *checks, const char *service_id);

/** How many distinct addresses of local ready endpoints @service has: what its check counts. */
size_t health_checks_count(struct health_checks *checks, const struct service *service,
                           enum family family, const struct location *here);

/** Tells of those of @family noted since the last time, but for Services that are to wait. */
void health_checks_sync(struct health_checks *checks, enum family family,
                        const struct location *here, service_waits_fn waits, const void *ctx);

void health_checks_clear(struct health_checks *checks);

#endif
