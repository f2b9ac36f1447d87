/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Constructs and owns the pipeline: caches -> policy -> tables. Sources fill the caches; the daemon
 * decides when to commit. Uses neither the event loop nor HTTP.
 *
 * Nothing is programmed before Services and EndpointSlices are both complete
 * (docs/behaviour.md 9.1): until then, rules from the previous process stay active.
 */
#ifndef KUBE_NFTD_PROXY_H
#define KUBE_NFTD_PROXY_H

#include "kube-nftd/base.h"
#include "kube-nftd/cache.h"
#include "kube-nftd/model.h"
#include "kube-nftd/netlink.h"
#include "kube-nftd/policy.h"
#include "kube-nftd/serve.h"
#include "kube-nftd/table.h"
#include "node_info.h"

#include <stdio.h>

struct flow_cleaner;
struct startup_taint;

/* Pointers are borrowed until proxy_free(). */
struct proxy_config {
    const struct options *options;
    const char *node_name;
    bool offline;                /* computes the tables of any host: see node_info_new() */
    bool families[FAMILY_COUNT]; /* in use */
    struct ruleset_config rulesets[FAMILY_COUNT]; /* from proxy_check_kernel() */
    size_t portion;        /* see policy_sync_some(); 0: a default that keeps a sync below 0.1 s */
    struct health *health; /* notified of health checks; may be NULL */
    struct localhost *localhost;     /* serves loopback addresses; NULL: nobody does */
    struct flow_cleaner *flows;      /* notified of stale UDP flows; may be NULL */
    const struct event_sink *events; /* for events about Services; may be NULL */
    struct startup_taint *startup;   /* notified of this node's Node object; may be NULL */
};

struct proxy {
    struct proxy_config config;
    struct caches caches; /* sources fill caches.sink */
    struct node_info *node;
    struct policy *policy;
    struct table *tables[FAMILY_COUNT]; /* NULL: the family is not in use */
    bool begun;                         /* all was decided once: tables are synced */
    bool policy_is_done;                /* it has nothing left to pass on to the tables */
    bool node_name_checked;             /* see check_node_name() */
    /* Peers of the API server that are unreachable, perhaps because the previous process gave them
     * to Services. */
    VEC(struct frontend) unreachable;
};

/**
 * Disables in @config what this kernel does not support, with a log line each: families that lack a
 * requirement, and optional features; and the owner of the tables if options say so. -1 if no
 * family is left; @err names what is missing.
 */
int proxy_check_kernel(struct nft_socket *socket, struct proxy_config *config, struct error *err);

/** Checks that configured cluster CIDRs are of a family in use (docs/behaviour.md 8.2). */
int proxy_check_cluster_cidr(const struct proxy_config *config, struct error *err);

/** Whether NodePorts of a family are served on its loopback address (docs/behaviour.md 4.12). */
bool proxy_serves_localhost(const struct proxy_config *config, enum family family);

/** Completes the configuration of a family's ruleset from the options. */
void proxy_configure_ruleset(struct proxy_config *config, enum family family);

/** An empty proxy with @config (copied). NULL on error. */
struct proxy *proxy_new(const struct proxy_config *config, struct error *err);
void proxy_free(struct proxy *proxy);

/** The addresses and ports at which the client reaches the API server: callbacks for struct
 * api_peers_ops of kube-nftd/source.h. External and load-balancer addresses of Services cannot take
 * them. If a peer is unreachable before the first sync, the frontend that the previous process left
 * there is removed. */
void proxy_set_api_server(void *proxy, const struct frontend *peers, size_t n);
void proxy_api_server_unreachable(void *proxy, const struct frontend *peer);

/** Whether each family in use has been programmed once, possibly without rejected elements. This is
 * readiness. */
bool proxy_is_programmed(const struct proxy *proxy);

/** The number of frontends and other elements that the kernel rejects, in all families in use. */
size_t proxy_rejected(const struct proxy *proxy);

/**
 * Commits changes, each family in its own transaction, and retries failed ones that are due. Cheap
 * if nothing changed: call it in every loop iteration. After the first sync, large changes are
 * split over several calls; it then returns @now.
 * @now  clock_monotonic
 * Returns the time of the next call needed even if nothing changes, or 0.
 */
double proxy_sync(struct proxy *proxy, struct nft_socket *socket, double now);

/** Replaces proxy_sync() until the first sync may begin: protects the rules of the previous process
 * from other programs, as the connection to the API server may depend on them. */
double proxy_keep(struct proxy *proxy, struct nft_socket *socket, double now);

/** Whether services of the previous process stay active in some family, as proxy_keep() saw last;
 * false once that family is programmed. */
bool proxy_has_previous(const struct proxy *proxy);

/** The devices of this host that --flowtable-devices matches: a devices_changed_fn. */
void proxy_set_devices(void *proxy, const device_vec *devices);

/** Changes to the tables by other programs: callbacks for struct table_monitor_ops of
 * kube-nftd/netlink.h. Later syncs repair them. */
void proxy_foreign_change(void *proxy, const struct table_change *change);
void proxy_foreign_lost(void *proxy);
void proxy_foreign_finished(void *proxy, enum family family, const struct table_program *program);

/** Prints the desired tables, for nft -f. For a proxy that never synced. */
void proxy_dump(struct proxy *proxy, FILE *out);

/** Fills in what the proxy knows of @now, which is zeroed. */
void proxy_snapshot(const struct proxy *proxy, struct snapshot *now);

#endif
