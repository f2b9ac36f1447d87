/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What policy decides about frontends and service ports, and ruleset programs. */
#ifndef KUBE_NFTD_POLICY_ROUTE_H
#define KUBE_NFTD_POLICY_ROUTE_H

#include "kube-nftd/model/cidr.h"
#include "kube-nftd/model/frontend.h"

/* Service ports have ids from 1 to this. */
#define MOST_ROUTE_ID INT32_MAX

/* What is done with new connections to a frontend. */
struct route {
    uint32_t port; /* the id of the service port whose backends they go to */
    /* Not the cluster IP: an external IP, load-balancer IP or node port. Masqueraded, unless the
     * traffic policy is Local. */
    bool external;
    /* The traffic policy is Local: connections go to local_backends. For external frontends,
     * those from pods and from the host itself go to backends instead (short-circuit). */
    bool local;
    /* With session affinity. */
    bool affine;
    /* Only sources in these disjoint, ascending ranges may connect; NULL: everybody may. */
    const struct address_range *sources;
    size_t n_sources;
};

/* The backends of a service port, for all of its frontends. Sorted by backend_compare. */
struct port_route {
    /* Some endpoint on some node could serve. If not, connections are rejected; if so, but local is
     * asked for and empty, what is for it is dropped. */
    bool has_any;
    /* Some frontend may ask for the Cluster set; for the local one. */
    bool needs_cluster, needs_local;
    const struct backend *backends; /* the Cluster set */
    size_t n_backends;
    const struct backend *local_backends;
    size_t n_local;
    uint32_t affinity_timeout; /* of session affinity, in seconds; 0: there is none */
};

/* A backend joins those of a service port, or goes. */
struct backend_change {
    struct backend backend;
    bool comes;
};

/* How the backends of a service port change, which is otherwise as it was. Several changes of one
 * backend take turns, coming and going, beginning with what it is not. */
struct port_route_change {
    const struct backend_change *backends; /* of the Cluster set */
    size_t n_backends;
    const struct backend_change *local_backends;
    size_t n_local;
};

#endif
