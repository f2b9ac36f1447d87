/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The sockets that a server wants to have. One that cannot be had is said once and waits. Every
 * 0.2 s one of those that wait is tried, in turn, and as soon as one is had all others: when a
 * daemon takes over from another, load balancers are not left without answers. Every 5 s all are
 * tried and those that wait on are reported. A socket that closes here makes that at once, since it
 * may be in the way of the very one that another waits for.
 */
#ifndef KUBE_NFTD_SERVE_PORTS_H
#define KUBE_NFTD_SERVE_PORTS_H

#include "kube-nftd/serve.h"

#include <stdbool.h>

struct ports;
struct port;

/** None. @subsystem (static) is who speaks in log lines; port_open()'s events go to @events, which
 * is borrowed. */
struct ports *ports_new(struct ev_loop *loop, const char *subsystem,
                        const struct event_sink *events);

/** All ports must be closed by then. NULL is fine. */
void ports_free(struct ports *ports);

/* The event when a socket cannot be had, at first and for each 5 s more. Its note is @before, the
 * address, @after, and what is in the way. */
struct port_event {
    enum object_kind kind;
    const char *reason, *action, *before, *after; /* static */
};

/**
 * Wants a socket at @address, of which @answer is asked (http_listener_open); it is open, or
 * waits. @event (static) is about the object @id, which is borrowed. @name, formatted key=value
 * pairs, is what log lines call it.
 */
struct port *port_open(struct ports *ports, const struct listen_address *address,
                       const struct port_event *event, const char *id, http_answer_fn answer,
                       void *ctx, const char *name, ...) __attribute__((format(printf, 7, 8)));

/** Closes it, or ends the waiting. NULL is fine. */
void port_close(struct port *port);

/** Whether there is a socket now. */
bool port_is_listening(const struct port *port);

/** As given to port_open(). */
const struct listen_address *port_address(const struct port *port);

#endif
