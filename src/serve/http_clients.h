/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The connections of one HTTP listener, and which of them must end: who takes too long over what
 * comes next, though it sends or reads a byte now and then, and, where all places are taken, who
 * has been at it longest. Who asks and reads the answer at once is never that one, so a few slow
 * clients cannot keep others from, say, the health check of a load balancer.
 *
 * Owns what it notes of each connection, not the connections. Ending one shuts its socket down;
 * libmicrohttpd sees that and closes it. Times are clock_monotonic's.
 */
#ifndef KUBE_NFTD_SERVE_HTTP_CLIENTS_H
#define KUBE_NFTD_SERVE_HTTP_CLIENTS_H

#include <stddef.h>

/* For the headers of a request, from when the connection waits for one; and from then on for its
 * body and the answer. In seconds. */
#define HTTP_CLIENT_PATIENCE 10.0

struct http_client;

/* Starts zeroed. */
struct http_clients {
    struct http_client *first; /* by when they got on last; none that was ended */
    size_t n;
};

/** A connection with the socket @fd came, the @most-th at most: else the one that got on last
 * before all others is ended. What is returned is @clients' until http_clients_went(). */
struct http_client *http_clients_came(struct http_clients *clients, int fd, size_t most,
                                      double now);

/** It got on: its headers are there, or its answer is sent. */
void http_clients_got_on(struct http_clients *clients, struct http_client *client, double now);

/** It was closed. */
void http_clients_went(struct http_clients *clients, struct http_client *client);

/** Ends those that had HTTP_CLIENT_PATIENCE. Returns when the next one has, or 0. */
double http_clients_end_slow(struct http_clients *clients, double now);

#endif
