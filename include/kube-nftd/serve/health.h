/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What balancers and probes ask over HTTP (libmicrohttpd inside the libev loop):
 *
 * - /healthz and /livez on the health address (docs/behaviour.md 6.2), and /readyz, which is not
 *   one of kube-proxy: 200 once all families were programmed in full,
 * - one listener for each healthCheckNodePort and family (docs/behaviour.md 6.1, KEP-1669): 200
 *   while this node has a local ready endpoint, 503 when it has none, or only terminating ones.
 *
 * Owns its sockets; reads what it is told and changes nothing else.
 */
#ifndef KUBE_NFTD_SERVE_HEALTH_H
#define KUBE_NFTD_SERVE_HEALTH_H

#include "kube-nftd/base/error.h"
#include "kube-nftd/model/address.h"
#include "kube-nftd/model/event.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ev_loop;
struct health;

/* How the two families and the node do: a snapshot asked for at each answer. */
struct health_status {
    bool node_eligible;
    bool programmed; /* each family in use, in full, once */
    struct {
        bool reported;       /* the family is in use and its loop has begun */
        bool healthy;        /* no change waits for longer than the limit */
        double last_updated; /* seconds since 1970: last success, or the start */
    } family[FAMILY_COUNT];
};

/* How often was answered what on the health address. */
struct health_answers {
    uint64_t good, bad; /* 200, 503 */
};

struct health_figures {
    struct health_answers healthz, livez;
};

typedef void (*health_status_fn)(void *ctx, struct health_status *status);

/** A server without any listener. @status is called for every answer. */
struct health *health_new(struct ev_loop *loop, health_status_fn status, void *ctx);
void health_free(struct health *health);

/** Addresses that cannot be bound become events for @events, on the Service or on the Node
 * @node_name (docs/behaviour.md 6.1, 6.2). Both are borrowed. */
void health_set_events(struct health *health, const struct event_sink *events,
                       const char *node_name);

/**
 * Listens for /healthz and /livez at @bind ("IP:port", "[IPv6]:port", or an address
 * alone for port 10256; 0.0.0.0 and [::] mean both
 * families). -1 with an error for an address that cannot be read. An address that cannot be bound
 * is logged and tried again every 5 s.
 */
int health_listen(struct health *health, const char *bind, struct error *err);

/** Whether that address could be bound. */
bool health_is_listening(const struct health *health);

/** What was counted so far. */
struct health_figures health_figures(const struct health *health);

/**
 * Opens, updates or moves the listeners of a service.
 * @service_id   "namespace/name"
 * @family       the family of the listener
 * @port         the healthCheckNodePort; 0 closes the listener of the family
 * @local_ready  number of distinct addresses of local ready endpoints of the family
 * A port that cannot be bound is logged once for each address and tried again every 5 s.
 */
void health_service(struct health *health, const char *service_id, enum family family,
                    uint16_t port, size_t local_ready);

/** Whether the listener that health_service() opened, if any, has each of its addresses. */
bool health_service_is_listening(const struct health *health, const char *service_id,
                                 enum family family);

/**
 * Where the listeners of services are opened (docs/behaviour.md 6.1): on all addresses of @family
 * if @all, else on each of the @n @addresses (copied), which may be none. Those that are open
 * already and are still wanted stay open. Before the first call, nowhere.
 */
void health_set_addresses(struct health *health, enum family family, bool all,
                          const struct address *addresses, size_t n);

#endif
