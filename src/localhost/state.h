/* SPDX-License-Identifier: GPL-2.0-or-later */
/* State of the thread that serves NodePorts on loopback addresses. Only its own code touches it,
 * except for what is atomic and what a mutex guards. */
#ifndef KUBE_NFTD_LOCALHOST_STATE_H
#define KUBE_NFTD_LOCALHOST_STATE_H

#include "kube-nftd/localhost.h"

#include <ev.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/socket.h>

#define PORT_NUMBERS 65536

/* ---- endpoints ---- */

/* A service port. */
struct target {
    struct hash_link link; /* by id */
    uint32_t id;
    uint32_t affinity_timeout; /* in seconds; 0: none */
    backend_vec backends;
    bool pinned; /* session affinity: new connections go to pin */
    struct backend pin;
    double pinned_at;          /* last used; of the thread's loop */
    struct listener *listener; /* the latest that leads here; may be NULL */
};

/* Starts zeroed. */
struct targets {
    struct hash_table by_id;
    uint64_t random;
};

struct target *target_find(const struct targets *targets, uint32_t id);
/** Adds one without endpoints if there is none. */
struct target *target_get(struct targets *targets, uint32_t id);
void target_free(struct targets *targets, struct target *target);

/** Replaces the endpoints; takes @backends. The pin stays if it is among them, and the timeout the
 * same. */
void target_set(struct target *target, backend_vec backends, uint32_t affinity_timeout);

/** Each of the changes, which are sorted, is of another endpoint, which comes or goes. */
void target_change(struct target *target, const backend_change_vec *changes);

/** Picks the endpoint of a new connection at @now, but not @failed (NULL: any). False if there is
 * none. */
bool target_pick(struct targets *targets, struct target *target, const struct backend *failed,
                 double now, struct backend *out);

/* ---- connections ---- */

struct pipe {
    int read, write; /* descriptors; both 0: none */
};

enum stream_state {
    STREAM_OPEN,
    STREAM_ENDED, /* the sender has closed it, bytes may be in the pipe */
    STREAM_CLOSED /* passed on to the receiver */
};

/* One direction. It reads only while the pipe is empty, so a slow receiver stops the sender. */
struct stream {
    enum stream_state state;
    struct pipe pipe; /* only while bytes are in it */
    size_t bytes;     /* in the pipe */
};

enum side { CLIENT, ENDPOINT, SIDES };

enum connection_state {
    CONNECTION_FREE,
    CONNECTION_CONNECTING, /* to the endpoint */
    CONNECTION_OPEN,
    CONNECTION_DRAINING /* its listener has gone */
};

struct connection {
    enum connection_state state;
    enum family family;
    bool retried; /* a first endpoint failed */
    struct proxy_thread *thread;
    struct listener *listener;      /* NULL: draining */
    struct connection *next, **ref; /* of its listener, or of the draining or free ones */
    struct backend backend;
    ev_io io[SIDES];
    ev_timer timer;               /* ends connecting, or draining */
    struct stream streams[SIDES]; /* by sender */
};

/* ---- listeners ---- */

enum listener_state {
    LISTENER_IDLE,    /* the service port has no endpoint */
    LISTENER_FAILED,  /* cannot be bound: the timer tries again */
    LISTENER_OPEN,    /* accepts */
    LISTENER_RESTING, /* bound, but accept() failed for lack of descriptors or memory */
};

struct listener {
    enum listener_state state;
    enum family family;
    uint16_t number;
    struct proxy_thread *thread;
    uint32_t target; /* the id, which may be gone */
    ev_io io;
    ev_timer timer;
    double delay; /* before the next attempt to bind */
    struct connection *connections;
    size_t n_connections;
};

/* ---- the thread ---- */

#define IDLE_PIPES 64

enum command_kind { SET_PORT, CHANGE_PORT, REMOVE_PORT, LISTEN, CLOSE, DRAIN, STOP };

struct command {
    enum command_kind kind;
    uint32_t id;
    uint16_t number;
    enum family family;
    uint32_t affinity_timeout;
    backend_vec backends;       /* SET_PORT */
    backend_change_vec changes; /* CHANGE_PORT */
};

/* For the log, which belongs to the main loop. */
struct notice {
    enum listener_state state; /* that a listener has entered */
    enum family family;
    uint16_t number;
    int error;
};

struct proxy_counts {
    _Atomic uint64_t listeners[FAMILY_COUNT], listener_failures[FAMILY_COUNT];
    _Atomic uint64_t unbound, connections, accepted, endpoint_failures, refused;
};

struct proxy_thread {
    struct localhost *owner;
    struct ev_loop *loop;
    ev_async wake;
    struct targets targets;
    struct listener **listeners[FAMILY_COUNT]; /* [PORT_NUMBERS]; NULL: none */
    struct connection *all;                    /* [most] */
    struct connection *free, *draining;
    size_t most, used;  /* connections; the first so many were in use */
    size_t descriptors; /* the rest is for health checks, watches and everything else */
    bool ending;        /* nobody listens any more */
    struct pipe idle[IDLE_PIPES];
    size_t n_idle;
};

struct localhost {
    pthread_t id;
    struct proxy_thread thread;
    struct proxy_counts counts;
    _Atomic int *status[FAMILY_COUNT]; /* [PORT_NUMBERS]: enum localhost_state, or -errno */
    pthread_mutex_t mutex;
    VEC(struct command) commands; /* guarded by the mutex, as is the next one */
    VEC(struct notice) notices;
    struct ev_loop *loop; /* the main one */
    ev_async noticed;
};

/* ---- listeners.c ---- */

/** The service port that it leads to; NULL: removed. */
struct target *listener_target(const struct listener *listener);

/** Has the listener at this port lead to @target. */
void listener_set(struct proxy_thread *thread, enum family family, uint16_t number,
                  struct target *target);

/** Opens the listener if its service port has endpoints, unless all is about to end; else closes
 * it. NULL is allowed. */
void listener_renew(struct listener *listener);

/** Closes it, and lets its connections drain. NULL is allowed. */
void listener_free(struct listener *listener);

/** Tells the main loop that a listener has entered a state. */
void localhost_notice(struct localhost *localhost, struct notice notice);

/* ---- connections.c ---- */

/** Takes the accepted socket @fd and connects it to an endpoint. Closes it if there is none, or no
 * room. */
void connection_begin(struct listener *listener, int fd);

/** Closes it; with a reset, so that nobody takes it for complete, if not @complete. */
void connection_end(struct connection *connection, bool complete);

/** The listener goes: lets its connections end by themselves, for some time. */
void connections_drain(struct listener *listener);

/* ---- relay.c ---- */

/** Both sockets are connected: passes bytes on until both directions are closed. */
void relay_begin(struct connection *connection);

/** Returns its pipes. */
void relay_end(struct connection *connection);

/** Closes all idle pipes. */
void relay_close_pipes(struct proxy_thread *thread);

#endif
