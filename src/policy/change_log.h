/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What is logged of changes on their way: at -v 2 the Services that a commit is about, at -v 4 each
 * endpoint, and what becomes of each frontend. Below that, it costs a comparison. */
#ifndef KUBE_NFTD_POLICY_CHANGE_LOG_H
#define KUBE_NFTD_POLICY_CHANGE_LOG_H

#include "kube-nftd/policy.h"

/* The Services that changed since the last commit; starts zeroed. */
struct change_log {
    VEC(char *) ids; /* owned; some perhaps more than once */
};

/** The Service @id changed. */
void change_log_service(struct change_log *log, const char *id);

/** So did endpoints of a service port: as endpoints_changed_fn is told. */
void change_log_endpoints(struct change_log *log, const struct service_port_ref *ref,
                          const struct endpoint_delta *deltas, size_t n);

/** "services=a/b,c/d more=7 " for the line of a commit, for the caller to free; NULL if nothing is
 * to be said. */
char *change_log_services(struct change_log *log);

/** All of that is applied. */
void change_log_clear(struct change_log *log);

/** @target goes to its winner now, and is routed like this; or nobody has it any more (NULL). */
void change_log_route(const struct frontend_state *target, const struct route *route);

/** The service port has these backends now, or just this of them changes. */
void change_log_port(const struct port_state *port, const struct port_route *route);
void change_log_port_change(const struct port_state *port, const struct port_route_change *change);

#endif
