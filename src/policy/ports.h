/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The service ports of all Services, and what happens to the endpoints of one between two syncs. As
 * long as what decides about all of them stays the same (struct selection_basis), only those to
 * which something happened can enter a set or leave it, and no others are looked at.
 */
#ifndef KUBE_NFTD_POLICY_PORTS_H
#define KUBE_NFTD_POLICY_PORTS_H

#include "kube-nftd/policy.h"

typedef VEC(struct backend_change) backend_change_vec;

/* What few service ports have at a time; allocated while there is any of it. */
struct port_details {
    /* Since the last sync: of the Cluster set, of the Local set, and of those on this node that are
     * in one of the two. */
    backend_change_vec cluster, local, hairpin_changes;
    backend_vec hairpins;           /* handed on, in any order */
    struct selection_counts counts; /* if they do not fit into the port itself */
    bool many;
};

/* Starts zeroed. */
struct ports {
    struct hash_table services; /* of struct service_state */
    port_state_vec noted;       /* to be synced */
    port_state_vec late;        /* likewise, of Services that let others go first */
    uint32_t last_id;
    struct port_state *passed;              /* the last one before what was sought; NULL: none */
    VEC(const struct service_port *) order; /* scratch */
};

/** Frees all of it, noted ports that are gone too. Their claims are not looked at. */
void ports_clear(struct ports *ports);

struct service_state *ports_find(const struct ports *ports, const char *service_id);

/**
 * The first port of @service of that family, protocol and name; NULL if there is none. Ports that
 * are sought in the order that they have take one walk together.
 */
struct port_state *ports_seek(struct ports *ports, const struct service_state *service,
                              enum family family, uint8_t protocol, const char *name);

/** The next one of the same Service, family, protocol and name, which an API server refuses. */
struct port_state *port_twin(const struct port_state *port);

/**
 * Takes over a change of a Service. All of its ports are noted, to be decided as a whole. Returns
 * those that are gone, chained by next; they too are noted, for what they have handed on is to be
 * taken back, and then freed by port_free().
 */
struct port_state *ports_change(struct ports *ports, const struct service *before,
                                const struct service *after);

/** @port is to be synced. */
void ports_note(struct ports *ports, struct port_state *port);

/** Frees a port that is gone. */
void port_free(struct port_state *port);

/** The details of @port, made if it has none. */
struct port_details *port_make_details(struct port_state *port);

/** How many endpoints @port has, as of the last decision and the deltas since. */
struct selection_counts port_counts(const struct port_state *port);
void port_keep_counts(struct port_state *port, const struct selection_counts *counts);

/**
 * Adds what the @n @deltas make of the sets of @port to its details. False: it has to be decided as
 * a whole, since what decides about all of its endpoints changes, or the serving ones of UDP.
 * @seen  gets the traits of the endpoints that come
 */
bool port_add_deltas(struct port_state *port, const struct endpoint_delta *deltas, size_t n,
                     const struct location *here, unsigned *seen);

/** Forgets what happened since the last sync. */
void port_forget_deltas(struct port_state *port);

#endif
