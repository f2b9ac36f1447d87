/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What policy decides about a frontend, and ruleset programs. */
#ifndef KUBE_NFTD_POLICY_ROUTE_H
#define KUBE_NFTD_POLICY_ROUTE_H

#include "kube-nftd/model/cidr.h"
#include "kube-nftd/model/frontend.h"

/* What is done with new connections to a frontend. Backends are sorted by backend_compare. */
struct route {
    /* Not the cluster IP: an external IP, load-balancer IP or node port. Masqueraded, unless the
     * traffic policy is Local. */
    bool external;
    /* The traffic policy is Local: connections go to local_backends. For external frontends,
     * those from pods and from the host itself go to backends instead (short-circuit). */
    bool local;
    /* Some endpoint on some node could serve. If not, connections are rejected; if so, but local is
     * asked for and empty, what is for it is dropped. */
    bool has_any;
    const struct backend *backends; /* the Cluster set; unused for a local cluster IP */
    size_t n_backends;
    const struct backend *local_backends;
    size_t n_local;
    /* Session affinity: seconds, 0 for none; all frontends of a service port have the same group,
     * which no other has. */
    uint32_t affinity_timeout;
    uint32_t affinity_group;
    /* Only sources in these disjoint, ascending ranges may connect; NULL: everybody may. */
    const struct address_range *sources;
    size_t n_sources;
};

/* A backend joins those of a frontend, or goes. */
struct backend_change {
    struct backend backend;
    bool comes;
};

/* How a route changes that stays as it is otherwise. Several changes of one backend take turns,
 * coming and going, beginning with what it is not. */
struct route_change {
    const struct backend_change *backends; /* of route.backends */
    size_t n_backends;
    const struct backend_change *local_backends;
    size_t n_local;
};

#endif
