/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The service ports of all Services, and the changes to their endpoints between two syncs. While
 * the selection_basis of a port is unchanged, only changed endpoints can enter or leave a set, so
 * the others are not examined.
 */
#ifndef KUBE_NFTD_POLICY_PORTS_H
#define KUBE_NFTD_POLICY_PORTS_H

#include "kube-nftd/policy.h"

typedef VEC(struct backend_change) backend_change_vec;

/* State that only few service ports have at a time; allocated on demand. */
struct port_details {
    /* Changes since the last sync to the Cluster set, the Local set, and the backends of either set
     * on this node. */
    backend_change_vec cluster, local, hairpin_changes;
    backend_vec hairpins;           /* passed to the table, in any order */
    struct selection_counts counts; /* valid if many: too large for the port itself */
    bool many;
};

/* Starts zeroed. */
struct ports {
    struct hash_table services; /* of struct service_state */
    port_state_vec dirty;       /* to be synced */
    port_state_vec late;        /* likewise, deferred behind those */
    uint32_t last_id;
    VEC(const struct service_port *) order; /* scratch */
};

/** Frees all ports, removed ones too, but not their claims. */
void ports_clear(struct ports *ports);

struct service_state *ports_find(const struct ports *ports, const char *service_id);

/**
 * Applies a change of a Service and marks all of its ports dirty and whole. Returns the removed
 * ports, chained by next. They are dirty too: the sync removes their routes, then calls
 * port_free().
 */
struct port_state *ports_change(struct ports *ports, const struct service *before,
                                const struct service *after);

/** Marks @port dirty. */
void ports_mark(struct ports *ports, struct port_state *port);

/** Frees a removed port. */
void port_free(struct port_state *port);

/** The details of @port, allocated if NULL. */
struct port_details *port_make_details(struct port_state *port);

/** The endpoint counts of @port: those of the last decision plus the deltas since. */
struct selection_counts port_counts(const struct port_state *port);
void port_keep_counts(struct port_state *port, const struct selection_counts *counts);

/**
 * Adds the changes that @deltas cause in the sets of @port to its details. False: decide the
 * port as a whole, since its selection_basis changed, or the serving endpoints of a UDP port.
 * @seen  collects the traits of all new endpoints
 */
bool port_add_deltas(struct port_state *port, const endpoint_delta_vec *deltas,
                     const struct location *here, unsigned *seen);

/** Discards the changes since the last sync. */
void port_forget_deltas(struct port_state *port);

#endif
