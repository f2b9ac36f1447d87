/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The life of a connection: from its accepted socket to an endpoint, and its end. */
#include "state.h"

#include <errno.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

/* As in kube-proxy: how long an endpoint may take to answer, and when idle peers are probed. */
#define CONNECT_SECONDS 5.0
#define KEEP_ALIVE_SECONDS 15

/* How long connections stay whose listener has gone. */
#define DRAIN_SECONDS 30.0

#define DESCRIPTORS 6 /* of a connection, at most */

/* ---- lists ---- */

static void link_to(struct connection **list, struct connection *c)
{
    c->next = *list;
    c->ref = list;
    if (c->next)
        c->next->ref = &c->next;
    *list = c;
}

static void unlink_from(struct connection *c)
{
    *c->ref = c->next;
    if (c->next)
        c->next->ref = c->ref;
}

/* The most connections. Each takes two descriptors, and four more for its pipes while bytes go both
 * ways; listeners have theirs. */
static size_t most_connections(const struct proxy_thread *thread)
{
    const struct proxy_counts *counts = &thread->owner->counts;
    const size_t listeners = counts->listeners[FAMILY_IPV4] + counts->listeners[FAMILY_IPV6],
                 left = thread->descriptors > listeners ? thread->descriptors - listeners : 0;
    return left / DESCRIPTORS < thread->most ? left / DESCRIPTORS : thread->most;
}

/* A listener that has n connections gets another only while more than n are unused, so none can
 * take the last half of what is left. NULL: no room. */
static struct connection *take_free(struct listener *l)
{
    struct proxy_thread *thread = l->thread;
    const size_t most = most_connections(thread), n = thread->owner->counts.connections;
    struct connection *c = thread->free;
    if (n >= most || l->n_connections >= most - n)
        return NULL;
    if (c)
        unlink_from(c);
    else
        c = &thread->all[thread->used++]; /* below most, as fewer are in use */
    return c;
}

/* ---- sockets ---- */

/* Closes @fd such that the peer gets a reset, not an end. */
static void reset(int fd)
{
    const struct linger at_once = {.l_onoff = 1};
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
    close(fd);
}

/* Returns the socket, or -1. Never to this host's own loopback addresses, where the connection
 * could come back to a listener here, nor to IPv4 by an IPv6 address that is mapped. */
static int connect_to(enum family family, const struct backend *backend)
{
    static const struct {
        int level, option, value;
    } options[] = {{IPPROTO_TCP, TCP_NODELAY, 1},
                   {SOL_SOCKET, SO_KEEPALIVE, 1},
                   {IPPROTO_TCP, TCP_KEEPIDLE, KEEP_ALIVE_SECONDS},
                   {IPPROTO_TCP, TCP_KEEPINTVL, KEEP_ALIVE_SECONDS}};
    struct sockaddr_storage to;
    const socklen_t length = socket_address(family, &backend->address, backend->port, &to);
    const int fd = address_special(family, &backend->address)
                       ? -1
                       : socket(to.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -1;
    if (family == FAMILY_IPV6)
        setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &(int){1}, sizeof(int));
    for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++)
        setsockopt(fd, options[i].level, options[i].option, &options[i].value, sizeof(int));
    if (connect(fd, (const struct sockaddr *)&to, length) == 0 || errno == EINPROGRESS)
        return fd;
    close(fd);
    return -1;
}

/* ---- the end ---- */

void connection_end(struct connection *c, bool complete)
{
    struct proxy_thread *thread = c->thread;
    ev_timer_stop(thread->loop, &c->timer);
    for (enum side side = 0; side < SIDES; side++) {
        ev_io_stop(thread->loop, &c->io[side]);
        if (c->io[side].fd >= 0 && complete)
            close(c->io[side].fd);
        else if (c->io[side].fd >= 0)
            reset(c->io[side].fd);
    }
    relay_end(c);
    if (c->listener)
        c->listener->n_connections--;
    unlink_from(c);
    c->state = CONNECTION_FREE;
    link_to(&thread->free, c);
    thread->owner->counts.connections--;
}

void connections_drain(struct listener *l)
{
    struct proxy_thread *thread = l->thread;
    struct connection *c;
    while ((c = l->connections)) {
        if (c->state == CONNECTION_CONNECTING) {
            connection_end(c, false);
            continue;
        }
        unlink_from(c);
        link_to(&thread->draining, c);
        c->listener = NULL;
        c->state = CONNECTION_DRAINING;
        ev_timer_set(&c->timer, DRAIN_SECONDS, 0);
        ev_timer_start(thread->loop, &c->timer);
    }
    l->n_connections = 0;
}

/* ---- connecting ---- */

static void on_connected(struct connection *c)
{
    c->state = CONNECTION_OPEN;
    relay_begin(c);
}

static bool is_connected_already(int fd)
{
    struct pollfd at_once = {.fd = fd, .events = POLLOUT};
    return poll(&at_once, 1, 0) == 1 && at_once.revents == POLLOUT;
}

/* Most endpoints on this node have answered by the time connect() returns. */
static bool begin_connecting(struct connection *c)
{
    const int fd = connect_to(c->family, &c->backend);
    ev_io_set(&c->io[ENDPOINT], fd, EV_WRITE);
    if (fd >= 0 && is_connected_already(fd)) {
        on_connected(c);
    } else if (fd >= 0) {
        ev_io_start(c->thread->loop, &c->io[ENDPOINT]);
        ev_timer_set(&c->timer, CONNECT_SECONDS, 0);
        ev_timer_start(c->thread->loop, &c->timer);
    }
    return fd >= 0;
}

/* Counts that the endpoint failed. Returns whether another one may be tried, once. */
static bool may_retry(struct connection *c)
{
    const bool first = !c->retried;
    c->thread->owner->counts.endpoint_failures++;
    c->retried = true;
    return first;
}

static void connect_next(struct connection *c)
{
    struct proxy_thread *thread = c->thread;
    struct target *target = listener_target(c->listener);
    struct backend failed = c->backend;
    while (target && target_pick(&thread->targets, target, c->retried ? &failed : NULL,
                                 ev_now(thread->loop), &c->backend)) {
        if (begin_connecting(c))
            return;
        if (!may_retry(c))
            break;
        failed = c->backend;
    }
    connection_end(c, false);
}

static void on_connect_failed(struct connection *c)
{
    ev_timer_stop(c->thread->loop, &c->timer);
    ev_io_stop(c->thread->loop, &c->io[ENDPOINT]);
    close(c->io[ENDPOINT].fd);
    ev_io_set(&c->io[ENDPOINT], -1, 0);
    if (may_retry(c))
        connect_next(c);
    else
        connection_end(c, false);
}

static void on_endpoint(struct ev_loop *loop, ev_io *io, int events)
{
    struct connection *c = io->data;
    int error = 0;
    socklen_t length = sizeof(error);
    (void)events;
    if (getsockopt(io->fd, SOL_SOCKET, SO_ERROR, &error, &length) < 0 || error != 0) {
        on_connect_failed(c);
        return;
    }
    ev_timer_stop(loop, &c->timer);
    ev_io_stop(loop, io);
    on_connected(c);
}

static void on_connection_timer(struct ev_loop *loop, ev_timer *timer, int events)
{
    struct connection *c = timer->data;
    (void)loop;
    (void)events;
    if (c->state == CONNECTION_CONNECTING)
        on_connect_failed(c);
    else
        connection_end(c, false);
}

void connection_begin(struct listener *l, int fd)
{
    struct proxy_counts *counts = &l->thread->owner->counts;
    struct connection *c = take_free(l);
    if (!c) {
        counts->refused++;
        reset(fd);
        return;
    }
    *c = (struct connection){
        .state = CONNECTION_CONNECTING, .family = l->family, .thread = l->thread, .listener = l};
    link_to(&l->connections, c);
    l->n_connections++;
    counts->connections++;
    counts->accepted++;
    ev_init(&c->timer, on_connection_timer);
    ev_io_init(&c->io[CLIENT], on_endpoint, fd, 0);
    ev_io_init(&c->io[ENDPOINT], on_endpoint, -1, 0);
    c->timer.data = c->io[CLIENT].data = c->io[ENDPOINT].data = c;
    connect_next(c);
}
