/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Which healthCheckNodePorts are open, and what they count (docs/behaviour.md 6.1). */
#ifndef KUBE_NFTD_POLICY_HEALTH_CHECKS_H
#define KUBE_NFTD_POLICY_HEALTH_CHECKS_H

#include "kube-nftd/policy.h"

struct health_checks;

/** Borrows the caches. */
struct health_checks *health_checks_new(const struct service_cache *services,
                                        const struct endpoint_slice_cache *slices);
void health_checks_free(struct health_checks *checks);

/** The number of a Service that has a health check, or had one, may be another. */
void health_checks_note(struct health_checks *checks, const char *service_id);

/** How many distinct addresses of local ready endpoints @service has: what its check counts. */
size_t health_checks_count(struct health_checks *checks, const struct service *service,
                           enum family family, const struct location *here);

/** Hands on those of @family noted since the last time, but for Services that are to wait. */
void health_checks_settle(struct health_checks *checks, enum family family,
                          const struct location *here,
                          bool (*waits)(const void *ctx, const char *service_id,
                                        enum family family),
                          const void *ctx, const struct policy_ops *ops);

#endif
