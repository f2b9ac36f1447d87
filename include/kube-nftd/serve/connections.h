/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Connections counted (ruleset/connections.h), by Service. */
#ifndef KUBE_NFTD_SERVE_CONNECTIONS_H
#define KUBE_NFTD_SERVE_CONNECTIONS_H

#include "kube-nftd/policy/port_states.h"
#include "kube-nftd/serve/explain.h"

/* Of /connections. */
#define CONNECTIONS_KIND "KubeNftdConnections"
#define CONNECTIONS_SCHEMA 1

/** Whether any are. */
bool connections_are_counted(const struct explain_sources *sources);

/** New connections to a Service, by the last reading. */
uint64_t connections_of_service(const struct explain_sources *sources,
                                const struct service_state *state);

/** A Service with its total, for the caller to delete; NULL if nobody connected to it. */
cJSON *connections_describe(const struct explain_sources *sources,
                            const struct service_state *state);

struct port_connections {
    const char *service_id; /* borrowed until the next change */
    const struct service_port *port;
    uint64_t total; /* of both families */
};

typedef VEC(struct port_connections) port_connections_vec;

/** Puts the service ports with the most connections into @out, at most @most, the largest first.
 * Returns how many others there are with any. */
size_t connections_most(const struct explain_sources *sources, size_t most,
                        port_connections_vec *out);

#endif
