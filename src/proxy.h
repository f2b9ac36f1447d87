/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Constructs and owns the pipeline: caches -> policy -> tables. Sources fill the caches; the daemon
 * decides when it commits. Knows no loop and no HTTP.
 *
 * Nothing is programmed before Services and EndpointSlices are both complete
 * (docs/behaviour.md 9.1): until then, rules from the previous process stay active.
 */
#ifndef KUBE_NFTD_PROXY_H
#define KUBE_NFTD_PROXY_H

#include "kube-nftd/base.h"
#include "kube-nftd/model.h"
#include "kube-nftd/netlink.h"
#include "kube-nftd/serve.h"
#include "kube-nftd/table.h"
#include "node_info.h"

#include <stdio.h>

struct flow_cleaner;
struct proxy;

struct proxy_config {
    struct node_info_config node;
    bool families[FAMILY_COUNT];                  /* those in use */
    struct ruleset_config rulesets[FAMILY_COUNT]; /* abandoned, owner and ctx are filled in here */
    size_t portion;       /* see policy_sync_some(); 0: so much that a sync takes less than 0.1 s */
    double sync_period;   /* kube-proxy's, in seconds; 0: its default */
    double audit_period;  /* see struct table_config */
    bool no_external_ips; /* external IPs of Services are not proxied */
    struct health *health;           /* told of health check node ports; may be NULL; borrowed */
    struct flow_cleaner *flows;      /* told of stale UDP flows; may be NULL; borrowed */
    const struct event_sink *events; /* for events about Services; may be NULL; borrowed */
    /* Told of the own Node object each time it comes (borrowed for the call), and with NULL when
     * there is none; may be NULL. */
    void (*node_seen)(void *ctx, const struct node *node);
    void *node_seen_ctx;
};

/** A proxy with nothing known yet. NULL if it cannot be made. */
struct proxy *proxy_new(const struct proxy_config *config, struct error *err);
void proxy_free(struct proxy *proxy);

/** Where sources hand their objects. Valid as long as the proxy. */
const struct object_sink *proxy_sink(struct proxy *proxy);

/** The addresses of this host, for node ports: what an address monitor calls. */
void proxy_set_host_addresses(void *proxy, enum family family, const address_vec *addresses);

/** The addresses and ports of the API server by which the client speaks to it: struct api_peers_ops
 * of kube-nftd/source.h. Services do not get them by external and load-balancer addresses; before
 * the first programming, a frontend of the previous process there is withdrawn if the client does
 * not get through. */
void proxy_set_api_server(void *proxy, const struct frontend *peers, size_t n);
void proxy_api_server_unreachable(void *proxy, const struct frontend *peer);

/** Whether Services and EndpointSlices are complete. */
bool proxy_is_synced(const struct proxy *proxy);

/** The uid of the Service @id, unknown if that is. */
struct uid proxy_service_uid(const struct proxy *proxy, const char *id);

/** Whether each family in use has been programmed once, be it without what the kernel rejects: what
 * readiness means. */
bool proxy_is_programmed(const struct proxy *proxy);

/** How many frontends and other elements the kernel rejects by now, of all families in use. */
size_t proxy_refused(const struct proxy *proxy);

/**
 * Sends what has changed, each family in a transaction of its own, and tries again what failed if
 * its time has come. Cheap if there is nothing to do: meant for every turn of the loop. After the
 * first one, what is much takes several turns: then it wants to be called again at @now.
 * @now  clock_monotonic
 * Returns when it wants to be called next even if nothing changes, or 0.
 */
double proxy_sync(struct proxy *proxy, struct nft_socket *socket, double now);

/** In place of proxy_sync() until the first programming may begin: keeps the rules of the previous
 * process as they are, so that nobody can cut this program off from what it waits for. */
double proxy_keep(struct proxy *proxy, struct nft_socket *socket, double now);

/** What other programs do to the tables: struct table_monitor_ops of kube-nftd/netlink.h. It is
 * repaired by syncs that follow. */
void proxy_foreign_change(void *proxy, const struct table_change *change);
void proxy_foreign_lost(void *proxy);
void proxy_foreign_settled(void *proxy, const struct table_program *program);

/** The connections counted of all families: see kube-nftd/table.h. */
bool proxy_read_connections(struct proxy *proxy, double since);
double proxy_connections_read(const struct proxy *proxy);

/** Prints the desired tables, for nft -f. For a proxy that never synced. */
void proxy_dump(struct proxy *proxy, FILE *out);

/** Decides what has changed without programming it. For a proxy that never syncs. */
void proxy_decide(struct proxy *proxy);

/** What explanations are made from; borrowed until the next change. */
void proxy_explain_sources(const struct proxy *proxy, struct explain_sources *sources);

/** What it counts; borrowed until the next sync. */
void proxy_stats(const struct proxy *proxy, struct proxy_stats *figures);

/** How the proxy does: a health_status_fn. */
void proxy_health_status(void *proxy, struct health_status *status);

#endif
