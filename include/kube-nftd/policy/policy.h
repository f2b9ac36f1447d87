/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * From Services and endpoints to frontends and backends.
 *
 * Owns who has which frontend. Two Services may claim the same one: the older keeps it (then the
 * one whose namespace/name sorts first), the other is said in the log and takes over when the
 * first goes. Works only on what changed: told of changes, it notes the frontends concerned, and
 * policy_settle() decides each of them once.
 */
#ifndef KUBE_NFTD_POLICY_POLICY_H
#define KUBE_NFTD_POLICY_POLICY_H

#include "kube-nftd/cache/endpoint_slice_cache.h"
#include "kube-nftd/cache/service_cache.h"
#include "kube-nftd/policy/frontend.h"

struct policy;

/* Where decisions go. */
struct policy_ops {
    /* New connections to @frontend are spread over the @n @backends (sorted, borrowed). With none
     * they are rejected. */
    void (*set)(void *ctx, const struct frontend *frontend, const struct backend *backends,
                size_t n);
    /* Nobody claims @frontend any more. */
    void (*remove)(void *ctx, const struct frontend *frontend);
    /* The healthCheckNodePort of a service in a family (0: none) and its number of distinct
     * addresses of local ready endpoints (spec 6.1). */
    void (*health_check)(void *ctx, const char *service_id, enum family family, uint16_t port,
                         size_t local_ready);
    void *ctx;
};

/**
 * A policy for the node @node_name over the two caches, which outlive it and are filled by the
 * caller, who passes their changes on.
 */
struct policy *policy_new(const struct service_cache *services,
                          const struct endpoint_slice_cache *slices, const char *node_name,
                          const struct policy_ops *ops);
void policy_free(struct policy *policy);

/** A Service came, changed or went: call from the service cache. */
void policy_service_changed(struct policy *policy, const struct service *before,
                            const struct service *after);

/** The endpoints of a service port may have changed: call from the slice cache. */
void policy_endpoints_changed(struct policy *policy, const struct service_port_ref *ref);

/** Decides every frontend noted since the last time, through set and remove. */
void policy_settle(struct policy *policy);

/** Hands on the health checks of @family noted since the last time; for when its frontends are in
 * force. */
void policy_settle_health_checks(struct policy *policy, enum family family);

#endif
