/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Serves TCP NodePorts on 127.0.0.1 and ::1 (KEP-6032, docs/behaviour.md 4.12): listeners of this
 * process, in a thread of its own, that pass connections on to endpoints with splice(2). The kernel
 * cannot translate them, as it never routes loopback addresses to other hosts.
 *
 * The thread and the main loop never wait for each other: functions below post what is to change,
 * and read numbers that the thread keeps. Only localhost_free() waits, for the end of the thread.
 * The thread owns all sockets, and its memory is fixed by the most connections.
 */
#ifndef KUBE_NFTD_LOCALHOST_H
#define KUBE_NFTD_LOCALHOST_H

#include "kube-nftd/base.h"
#include "kube-nftd/net.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ev_loop;
struct localhost;

/** Starts the thread. Its log lines are written by @loop, which must outlive it. @most_connections
 * is at least 2. NULL with an error if there is no thread. */
struct localhost *localhost_new(struct ev_loop *loop, size_t most_connections, struct error *err);

/** Closes all listeners for good. Connections go on until they end, or for a while. */
void localhost_drain(struct localhost *localhost);

/** Closes all connections at once. NULL is allowed. */
void localhost_free(struct localhost *localhost);

/** The address of a family that serves, and whether @address is it. */
struct address localhost_address(enum family family);
bool localhost_is_address(enum family family, const struct address *address);

/* ---- what is desired; policy calls these ---- */

/** Sets the endpoints (copied) of the service port with @id, which new connections go to.
 * @affinity_timeout: of session affinity, in seconds; 0: none. */
void localhost_set_port(struct localhost *localhost, uint32_t id, const struct backend *backends,
                        size_t n, uint32_t affinity_timeout);

/** Applies the changes (copied) to these endpoints, which are those of @set: sorted, one of each.
 */
void localhost_change_port(struct localhost *localhost, uint32_t id,
                           const backend_change_vec *changes, enum backend_set set);
void localhost_remove_port(struct localhost *localhost, uint32_t id);

/** Listens at the NodePort @number for the service port with @id, while that has endpoints; or no
 * longer. */
void localhost_listen(struct localhost *localhost, enum family family, uint16_t number,
                      uint32_t id);
void localhost_close(struct localhost *localhost, enum family family, uint16_t number);

/* ---- what is the case ---- */

enum localhost_state {
    LOCALHOST_NONE,      /* nobody wants to listen there, or the thread does not know yet */
    LOCALHOST_IDLE,      /* no endpoint, so no listener */
    LOCALHOST_LISTENING, /* bound */
    LOCALHOST_FAILED     /* cannot be bound; tried again */
};

struct localhost_status {
    enum localhost_state state;
    int error; /* errno of LOCALHOST_FAILED */
};

/** @localhost NULL: LOCALHOST_NONE. */
struct localhost_status localhost_status(const struct localhost *localhost, enum family family,
                                         uint16_t number);

struct localhost_stats {
    uint64_t listeners[FAMILY_COUNT];         /* bound now */
    uint64_t listener_failures[FAMILY_COUNT]; /* attempts to bind one */
    uint64_t unbound;                         /* cannot be bound now */
    uint64_t connections;                     /* open now */
    uint64_t accepted;                        /* since startup; so are those below */
    uint64_t endpoint_failures;               /* endpoints that refused or did not answer */
    uint64_t refused;                         /* connections beyond the limit */
};

/** @localhost NULL: all 0. */
struct localhost_stats localhost_stats(const struct localhost *localhost);

#endif
