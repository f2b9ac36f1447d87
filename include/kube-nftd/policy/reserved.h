/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The frontends of the API server: the addresses and ports by which the client speaks to it, and
 * the endpoints of the Service default/kubernetes. An external or load-balancer address of some
 * Service must not take them, or this node, and with it the way to mend that Service, is cut off.
 */
#ifndef KUBE_NFTD_POLICY_RESERVED_H
#define KUBE_NFTD_POLICY_RESERVED_H

#include "kube-nftd/cache/endpoint_slice_cache.h"
#include "kube-nftd/model/frontend.h"

struct reserved;

/** Borrows the cache. */
struct reserved *reserved_new(const struct endpoint_slice_cache *slices);
void reserved_free(struct reserved *reserved);

/** The client's frontends are these @n (copied) now. */
void reserved_set_peers(struct reserved *reserved, const struct frontend *peers, size_t n);

/** The slices of the Service @service_id are others now. */
void reserved_slices_changed(struct reserved *reserved, const char *service_id);

/** Calls @changed for each frontend that is reserved now and was not at the last call, or the other
 * way. */
void reserved_settle(struct reserved *reserved,
                     void (*changed)(void *ctx, const struct frontend *frontend, bool is_reserved),
                     void *ctx);

/** Whether @frontend is one of them, as of what was told so far. */
bool reserved_has(const struct reserved *reserved, const struct frontend *frontend);

#endif
