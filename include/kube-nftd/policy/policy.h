/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * From Services and endpoints to frontends and backends.
 *
 * Owns who has which frontend: every cluster IP, external IP and load-balancer IP with the port of
 * a service port, and each node-port address with its node port. Two service ports may claim the
 * same frontend: it goes to the one whose cluster IP it is, then to the one whose node port it is;
 * of those that are left and have any endpoints (or if none has, of all) to the one of the older
 * Service, then of the one whose namespace/name sorts first. The others are said in the log and
 * counted; the next one takes over when the first goes. Works only on what changed: told of
 * changes, it notes the service ports concerned, and policy_settle() decides each of them once.
 */
#ifndef KUBE_NFTD_POLICY_POLICY_H
#define KUBE_NFTD_POLICY_POLICY_H

#include "kube-nftd/cache/endpoint_slice_cache.h"
#include "kube-nftd/cache/service_cache.h"
#include "kube-nftd/model/event.h"
#include "kube-nftd/policy/route.h"

struct decision;
struct frontend_state;
struct policy;
struct port_state;
struct service_state;
struct surroundings;

/* Where decisions go. */
struct policy_ops {
    /* The backends of @port are those of @route (borrowed). Comes before the first frontend that
     * leads there. */
    void (*set_port)(void *ctx, const struct port_state *port, const struct port_route *route);
    /* They are others by @change (borrowed). False: that cannot be done; all of them follow. */
    bool (*change_port)(void *ctx, const struct port_state *port,
                        const struct port_route_change *change);
    /* There is no @port any more: just its id and family count. */
    void (*remove_port)(void *ctx, const struct port_state *port);
    /* New connections to @frontend are treated as @route (borrowed) says. */
    void (*set)(void *ctx, const struct frontend *frontend, const struct route *route);
    /* Nobody claims @frontend any more. */
    void (*remove)(void *ctx, const struct frontend *frontend);
    /* @address is the cluster IP of a Service, or of none any more (docs/behaviour.md 4.3). */
    void (*cluster_ip)(void *ctx, enum family family, const struct address *address, bool in_use);
    /* @backend is on this node and connections of @protocol may be sent to it: what it sends to
     * itself is masqueraded (docs/behaviour.md 4.5). Or not any more. */
    void (*hairpin)(void *ctx, enum family family, uint8_t protocol, const struct backend *backend,
                    bool in_use);
    /* The serving endpoints behind a UDP frontend became others (docs/behaviour.md 5.1): flows to
     * any but the @n @serving ones (sorted, borrowed) are stale. @claimed is false when nobody has
     * the frontend any more; then @n is 0. */
    void (*flows)(void *ctx, const struct frontend *frontend, bool claimed,
                  const struct backend *serving, size_t n);
    /* The healthCheckNodePort of a service in a family (0: none) and its number of distinct
     * addresses of local ready endpoints (docs/behaviour.md 6.1). */
    void (*health_check)(void *ctx, const char *service_id, enum family family, uint16_t port,
                         size_t local_ready);
    /* Whether what was handed on last of @port and its frontends is not in force yet. */
    bool (*waits)(const void *ctx, const struct port_state *port);
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

/** Where events about Services go, borrowed. NULL, as at first: nowhere. */
void policy_set_events(struct policy *policy, const struct event_sink *events);

/** A Service came, changed or went: call from the service cache. */
void policy_service_changed(struct policy *policy, const struct service *before,
                            const struct service *after);

/** The endpoints of a service port changed, in so many; or all of them, if @changes is NULL: call
 * from the slice cache. */
void policy_endpoints_changed(struct policy *policy, const struct service_port_ref *ref,
                              const struct endpoint_change *changes, size_t n);

/** The own zone, NULL for none; everything with endpoints is decided again if it is another. */
void policy_set_zone(struct policy *policy, const char *zone);

/** The node's own address of @family, NULL for none: a source range that contains it lets the
 * Service's own load-balancer addresses in as well (docs/behaviour.md 4.8). */
void policy_set_node_ip(struct policy *policy, enum family family, const struct address *address);

/** The addresses on which node ports answer: all frontends of node ports move there. Looks at
 * Services with node ports only. */
void policy_set_node_port_addresses(struct policy *policy, enum family family,
                                    const struct address *addresses, size_t n);

/** The addresses and ports of the API server by which the client speaks to it are these @n. No
 * Service gets them, or those of the endpoints of default/kubernetes, by an external or
 * load-balancer address (reserved.h). */
void policy_set_api_server(struct policy *policy, const struct frontend *peers, size_t n);

/** Decides every service port noted since the last time, through the operations. */
void policy_settle(struct policy *policy);

/**
 * The same, but just so much of it that frontends with some times @most backends are handed on,
 * each frontend counted as one more; then what was handed on is to be put into force, and this
 * called again. Services with few frontends, endpoints and source ranges do not wait for those with
 * many. Returns whether that was all.
 */
bool policy_settle_some(struct policy *policy, size_t most);

/** Whether something of a Service is not in force in @family: it is not decided, not handed on, or
 * waits there (struct policy_ops). What a Service does not have any more is not looked at. @policy
 * is a struct policy, so that this can be handed to others. */
bool policy_service_waits(const void *policy, const char *service_id, enum family family);

/** Hands on the health checks of @family noted since the last time, but of Services that wait. */
void policy_settle_health_checks(struct policy *policy, enum family family);

/*
 * For who explains decisions (decision.h, claims.h): what was decided last, and from what. Borrowed
 * until the next change.
 */

/** NULL if nobody claims @frontend. */
const struct frontend_state *policy_find_frontend(const struct policy *policy,
                                                  const struct frontend *frontend);

/** NULL if there is no such Service. */
const struct service_state *policy_find_service(const struct policy *policy, const char *id);

/** All Services, as struct service_state. */
const struct hash_table *policy_services(const struct policy *policy);

/** Decides @port again, into @decision. */
void policy_decide(const struct policy *policy, const struct port_state *port,
                   struct decision *decision);

/** What is known of the own node; and the addresses on which its node ports answer. */
const struct surroundings *policy_surroundings(const struct policy *policy);
const address_vec *policy_node_port_addresses(const struct policy *policy, enum family family);

/** Whether @address is the cluster IP of a Service. */
bool policy_has_cluster_ip(const struct policy *policy, enum family family,
                           const struct address *address);

/** How many distinct addresses of local ready endpoints a Service has: what its health check
 * counts. */
size_t policy_local_ready(const struct policy *policy, const struct service *service,
                          enum family family);

/** Who has a frontend, as "namespace/name:port" (without the port's name if it has none); to be
 * freed. NULL if nobody has it. */
char *policy_owner(const struct policy *policy, const struct frontend *frontend);

/** How many frontends more than one service port claims. */
size_t policy_conflicts(const struct policy *policy);

/** How many frontends Services ask for and do not get since they are the API server's. */
size_t policy_reserved(const struct policy *policy);

/* Numbers of service ports. */
struct ports_without_local {
    size_t internal, external;
};

/** The service ports of @family whose internal, or external, traffic policy is Local and that have
 * endpoints that could serve, but none here (docs/behaviour.md 7). Those of external policy count
 * if they can be reached from outside at all. */
struct ports_without_local policy_ports_without_local(const struct policy *policy,
                                                      enum family family);

/** What the names of nodes in the endpoints decided so far say: some name a node, but none ever
 * named this one. */
bool policy_node_never_named(const struct policy *policy);

#endif
