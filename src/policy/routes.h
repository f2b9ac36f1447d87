/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Passes decisions to the tables, and UDP frontends to the flow cleaner. */
#ifndef KUBE_NFTD_POLICY_ROUTES_H
#define KUBE_NFTD_POLICY_ROUTES_H

#include "ports.h"

/* The number of source ranges that cost as much as one backend, to pass on and program. */
#define RANGES_A_BACKEND 32

struct routes {
    struct table *tables[FAMILY_COUNT]; /* borrowed; NULL: the family is not in use */
    struct flow_cleaner *flows;         /* borrowed; NULL: there is none */
    size_t left;                        /* remaining budget of the current sync, in backends */
};

/** Reduces the budget by @cost, to not less than 0. */
void routes_spend(struct routes *routes, size_t cost);

/** Replaces the cluster IPs of @before by those of @after; either may be NULL. */
void routes_change_cluster_ips(const struct routes *routes, const struct service *before,
                               const struct service *after);

/** Routes the frontend of @claim as decided by @decision, of the claim's port. */
void routes_set_frontend(struct routes *routes, const struct decision *decision,
                         const struct claim *claim);

/** Removes the route of a frontend without winner. */
void routes_remove_frontend(struct routes *routes, struct frontend_state *target);

/** Sets all backends of the decided @port. */
void routes_set_port(struct routes *routes, struct port_state *port,
                     const struct decision *decision);

/** Applies the changes in the port's details. False: call routes_set_port() instead. */
bool routes_change_port(struct routes *routes, struct port_state *port);

/** Removes the backends of a removed port. */
void routes_remove_port(struct routes *routes, struct port_state *port);

/** Whether changes of @port wait for a commit. */
bool routes_port_is_waiting(const struct routes *routes, const struct port_state *port);

#endif
