/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What policy hands on: to the tables, and of UDP frontends to the flow cleaner. */
#ifndef KUBE_NFTD_POLICY_ROUTES_H
#define KUBE_NFTD_POLICY_ROUTES_H

#include "ports.h"

/* So many source ranges are handed on in the time in which a backend is handed on and programmed.
 */
#define RANGES_A_BACKEND 32

struct routes {
    struct table *tables[FAMILY_COUNT]; /* borrowed; NULL: the family is not in use */
    struct flow_cleaner *flows;         /* borrowed; NULL: there is none */
    size_t left; /* what the sync that runs may still cost, in backends handed on; at least 0 */
};

/** Something cost as much as handing on so many backends. */
void routes_spend(struct routes *routes, size_t cost);

/** @before is a Service no more, and @after is one; either may be NULL. */
void routes_change_cluster_ips(const struct routes *routes, const struct service *before,
                               const struct service *after);

/** New connections to the frontend of @claim go where @decision, of the claim's port, says. */
void routes_set_frontend(struct routes *routes, const struct decision *decision,
                         const struct claim *claim);

/** Nobody has the frontend any more. */
void routes_remove_frontend(struct routes *routes, struct frontend_state *target);

/** The decided port has the backends of @decision. */
void routes_set_port(struct routes *routes, struct port_state *port,
                     const struct decision *decision);

/** The backends of @port change as its details say. False: all of them are to be set. */
bool routes_change_port(struct routes *routes, struct port_state *port);

/** The service port is gone. */
void routes_remove_port(struct routes *routes, struct port_state *port);

/** Whether something of @port waits for a commit. */
bool routes_port_is_waiting(const struct routes *routes, const struct port_state *port);

#endif
