/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Who has which frontend. Every service port claims some; of several that claim the same, all but
 * one are named in the log and in events on their Services, and the conflict is counted. So are
 * those that claim a frontend of the API server by an external or load-balancer address: if a
 * Service took it, this node would be cut off, and with it the way to repair that Service.
 */
#ifndef KUBE_NFTD_POLICY_CLAIMS_H
#define KUBE_NFTD_POLICY_CLAIMS_H

#include "kube-nftd/policy.h"

/* Noted frontends wait in one of these, or in both, so that what concerns few frontends does not
 * wait for what concerns many. */
enum claims_queue { CLAIMS_FEW, CLAIMS_MANY, CLAIMS_QUEUES };

/* Where the frontends of the API server come from: how the client reaches it, and the endpoints of
 * the Service default/kubernetes. */
enum reserved_list { RESERVED_PEERS, RESERVED_ENDPOINTS, RESERVED_LISTS };

typedef VEC(struct frontend) frontend_vec;

/* Starts zeroed. */
struct claims {
    struct hash_table targets; /* of struct frontend_state */
    VEC(struct frontend_state *) noted[CLAIMS_QUEUES];
    size_t conflicts;                      /* frontends with more than one claim */
    size_t withheld;                       /* frontends that nobody has since they are reserved */
    frontend_vec reserved[RESERVED_LISTS]; /* sorted */
    const struct event_sink *events;       /* borrowed; NULL: nobody wants them */
};

/** Leaves the ports' chains of claims dangling: for the end. */
void claims_clear(struct claims *claims);

/**
 * Goes on to renew what @port claims, where it stopped, as long as @left (which it lowers) is not
 * 0; or begins, if port->renewed is 0. Up to claims_end() the port claims what it claimed before,
 * too. Returns whether that was all: then claims_end() is to be called.
 * @node_ports  the addresses on which node ports answer
 */
bool claims_renew(struct claims *claims, struct port_state *port, const address_vec *node_ports,
                  size_t *left);

/**
 * Drops the claims that were not renewed. Frontends that others claim too, or nobody any more, are
 * noted in @queue, and those whose claim is not what it was; but if the caller decides @port as a
 * whole afterwards, not those that it alone claims.
 */
void claims_end(struct claims *claims, struct port_state *port, enum claims_queue queue);

/** @port, which is gone, claims nothing any more. */
void claims_drop(struct claims *claims, struct port_state *port, enum claims_queue queue);

/** The frontends of one sort that are reserved for the API server are these now. Takes @frontends.
 */
void claims_reserve(struct claims *claims, enum reserved_list which, frontend_vec frontends);

/** The frontend is to be decided. */
void claims_note(struct claims *claims, struct frontend_state *target, enum claims_queue queue);

/** The frontend, which was noted in @queue, is taken out of it. */
void claims_unnote(struct claims *claims, struct frontend_state *target, enum claims_queue queue);

/**
 * Which of the claims has the frontend; NULL if there are none, or just external and load-balancer
 * addresses and the frontend is reserved. The same on every node that knows the same objects: a
 * cluster IP goes before a node port, and that before external and load-balancer addresses; then
 * one with endpoints that could serve, the oldest Service, the first by name, the first port of a
 * Service. Logs and reports who does not get it, once for each claim and winner, and who takes it
 * over.
 */
const struct claim *claims_decide(struct claims *claims, struct frontend_state *target);

/** The frontend, if somebody claims it, else NULL. */
const struct frontend_state *claims_find(const struct claims *claims,
                                         const struct frontend *frontend);

#endif
