/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Assigns frontends to the service ports that claim them. If several ports claim one frontend, the
 * losers are logged and reported as events on their Services, and the conflict is counted. The same
 * goes for external and load-balancer addresses that claim a frontend of the API server: a Service
 * that took it would cut off this node, and with it the way to repair that Service.
 */
#ifndef KUBE_NFTD_POLICY_CLAIMS_H
#define KUBE_NFTD_POLICY_CLAIMS_H

#include "kube-nftd/policy.h"

/* Dirty frontends wait in one queue, or in both, so that Services with few frontends do not wait
 * for those with many. */
enum claims_queue { CLAIMS_FEW, CLAIMS_MANY, CLAIMS_QUEUES };

/* Sources of the API server's frontends: the client's peers, and the endpoints of the Service
 * default/kubernetes. */
enum reserved_list { RESERVED_PEERS, RESERVED_ENDPOINTS, RESERVED_LISTS };

typedef VEC(struct frontend) frontend_vec;

/* Starts zeroed. */
struct claims {
    struct hash_table targets; /* of struct frontend_state */
    VEC(struct frontend_state *) dirty[CLAIMS_QUEUES];
    size_t conflicts;                      /* frontends with more than one claim */
    size_t withheld;                       /* claimed frontends without winner since reserved */
    frontend_vec reserved[RESERVED_LISTS]; /* sorted */
    const struct event_sink *events;       /* borrowed; may be NULL */
};

/** Leaves the ports' claims dangling: for shutdown only. */
void claims_clear(struct claims *claims);

/**
 * Continues to renew the claims of @port (from the start if port->renewed is 0) until done or until
 * @left, which it decrements, is 0. Old claims stay until claims_end(). Returns true when done;
 * then call claims_end().
 * @node_ports  the addresses that serve node ports
 */
bool claims_renew(struct claims *claims, struct port_state *port, const address_vec *node_ports,
                  size_t *left);

/**
 * Drops the claims that were not renewed and queues their frontends. Also queues those whose claim
 * changed; if port->whole, those that other ports claim too instead, as the port's sync decides the
 * rest.
 */
void claims_end(struct claims *claims, struct port_state *port, enum claims_queue queue);

/** Drops all claims of the removed @port. */
void claims_drop(struct claims *claims, struct port_state *port, enum claims_queue queue);

/** Replaces one list of frontends reserved for the API server. Takes @frontends. */
void claims_reserve(struct claims *claims, enum reserved_list which, frontend_vec frontends);

/** Marks the frontend dirty. */
void claims_mark(struct claims *claims, struct frontend_state *target, enum claims_queue queue);

/** Clears the dirty mark; the caller removes the frontend from @queue. Frees it if unused. */
void claims_unmark(struct claims *claims, struct frontend_state *target, enum claims_queue queue);

/**
 * Returns the winning claim. NULL if none exists, or if the frontend is reserved and claimed only
 * as external or load-balancer address. Every node with the same objects decides the same: a
 * cluster IP goes before a node port, and that before external and load-balancer addresses; then
 * ports with usable endpoints, the oldest Service, the first by name, the first port of a Service.
 * Logs and reports each loser once per winner, and takeovers.
 */
const struct claim *claims_decide(struct claims *claims, struct frontend_state *target);

/** NULL if no service port claims @frontend. */
const struct frontend_state *claims_find(const struct claims *claims,
                                         const struct frontend *frontend);

#endif
