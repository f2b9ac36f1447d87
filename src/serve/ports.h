/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The desired listening sockets of a server. One that cannot be bound is logged once and waits.
 * Every 0.2 s one waiting socket is retried, round robin; if it succeeds, so are all others, which
 * keeps the gap short when this daemon replaces another. Every 5 s all are retried and failures
 * reported. Closing a socket retries all immediately, since it may have blocked one of them.
 */
#ifndef KUBE_NFTD_SERVE_PORTS_H
#define KUBE_NFTD_SERVE_PORTS_H

#include "kube-nftd/serve.h"

#include <stdbool.h>

struct ports;
struct port;

/** Starts without ports. @subsystem (static) is for log lines; @events (borrowed) receives the
 * events of port_open(). */
struct ports *ports_new(struct ev_loop *loop, const char *subsystem,
                        const struct event_sink *events);

/** All ports must be closed. NULL is fine. */
void ports_free(struct ports *ports);

/* The event for a socket that cannot be bound, at first and then every 5 s. Its note is @before,
 * the address, @after and the error. */
struct port_event {
    enum object_kind kind;
    const char *reason, *action, *before, *after; /* static */
};

/**
 * Opens a socket at @address with @answer (http_listener_open), now or once it can be bound. @event
 * (static) is about the object @id (borrowed). @name is formatted as key=value pairs for log lines.
 */
struct port *port_open(struct ports *ports, const struct listen_address *address,
                       const struct port_event *event, const char *id, http_answer_fn answer,
                       void *ctx, const char *name, ...) __attribute__((format(printf, 7, 8)));

/** Closes the socket or stops waiting for it. NULL is fine. */
void port_close(struct port *port);

/** Whether the socket is open. */
bool port_is_listening(const struct port *port);

/** As given to port_open(). */
const struct listen_address *port_address(const struct port *port);

#endif
