/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What becomes of the endpoints of one service port: which of them each of its frontends uses (spec
 * 3.4), which serve, which may meet themselves. One decision at a time, in memory that is reused.
 */
#ifndef KUBE_NFTD_POLICY_DECISION_H
#define KUBE_NFTD_POLICY_DECISION_H

#include "kube-nftd/policy/claims.h"
#include "kube-nftd/policy/selection.h"

typedef VEC(struct backend) backend_vec;

/* What is known of the own node. */
struct surroundings {
    struct location location;
    bool has_ip[FAMILY_COUNT];
    struct address ip[FAMILY_COUNT];
};

/* Start zeroed. Endpoints borrow from the slice cache, sources from the Service. */
struct decision {
    const struct port_state *port; /* whose it is; NULL: none */
    struct selection selection;
    endpoint_vec endpoints;   /* all, merged */
    backend_vec cluster;      /* the Cluster set, if the port needs it (docs/behaviour.md 3.2) */
    backend_vec local;        /* the Local set, likewise */
    backend_vec hairpins;     /* on this node, in one of the two sets */
    backend_vec serving;      /* whatever is said of ready and terminating; UDP only */
    const range_vec *sources; /* of load-balancer IPs; NULL: everybody */
    range_vec wider_sources;
    VEC(uint8_t) sets;
};

/** Which sets the port's frontends need (docs/behaviour.md 3.2): bits of enum endpoint_set. */
uint8_t decision_sets_needed(const struct port_state *port);

/** Makes @decision that of @port, which is not gone. */
void decision_make(struct decision *decision, const struct endpoint_slice_cache *slices,
                   const struct surroundings *here, const struct port_state *port);

/* Where connections to a frontend come from, and whether they go to the Local set. */
struct claim_policy {
    bool external, local;
};
struct claim_policy decision_policy(const struct claim *claim);

/** What is done with connections to the frontend of @claim, one of the port's; borrowed. */
struct route decision_route(const struct decision *decision, const struct claim *claim);

/** What becomes of the decided port, for all of its frontends. Borrows from @decision. */
struct port_route decision_port_route(const struct decision *decision);

/** Whether @port has the traffic policy Local, for connections from inside, or from outside. */
bool decision_asks_for_local(const struct port_state *port, bool external);

/** Equal for equal lists, and hardly ever for others. */
uint64_t backends_fingerprint(const backend_vec *backends);

void decision_free(struct decision *decision);

#endif
