/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The pipeline: sink -> caches -> policy -> rulesets -> kernel. Sources feed it; main decides when
 * it commits. Knows no loop and no HTTP.
 *
 * Nothing is programmed before Services and EndpointSlices are both complete (spec 9.1): until
 * then a table of an earlier run serves on.
 */
#ifndef KUBE_NFTD_PROXY_H
#define KUBE_NFTD_PROXY_H

#include "kube-nftd/base/error.h"
#include "kube-nftd/model/sink.h"
#include "kube-nftd/netlink/nft_socket.h"
#include "kube-nftd/serve/health.h"

#include <stdio.h>

struct proxy;

struct proxy_config {
    const char *node_name;
    /* A node that no Node object was seen of is not eligible (spec 6.2). Off for manifests, which
     * need not have one. */
    bool node_required;
    bool families[FAMILY_COUNT]; /* those in use */
    struct health *health;       /* told of health check node ports; may be NULL; borrowed */
};

/** A proxy with nothing known yet. NULL if it cannot be made. */
struct proxy *proxy_new(const struct proxy_config *config, struct error *err);
void proxy_free(struct proxy *proxy);

/** Where sources hand their objects. Valid as long as the proxy. */
const struct object_sink *proxy_sink(struct proxy *proxy);

/** Whether Services and EndpointSlices are complete. */
bool proxy_is_synced(const struct proxy *proxy);

/**
 * Sends what has changed, each family in a transaction of its own, and tries again what failed if
 * its time has come. Cheap if there is nothing to do: meant for every turn of the loop.
 * @now  clock_monotonic
 * Returns when it wants to be called next even if nothing changes, or 0.
 */
double proxy_turn(struct proxy *proxy, struct nft_socket *socket, double now);

/** Prints the tables as they shall be, for nft -f. For a proxy that never took a turn. */
void proxy_dump(struct proxy *proxy, FILE *out);

/** How the proxy does, for health.h: a health_status_fn. */
void proxy_health_status(void *proxy, struct health_status *status);

#endif
