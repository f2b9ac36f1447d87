/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What happens to the endpoints of a service port between two settlements, one by one. As long as
 * what decides about all of them stays the same (struct selection_basis), only those to which
 * something happened can enter a set or leave it, and no others are looked at.
 */
#ifndef KUBE_NFTD_POLICY_TURNS_H
#define KUBE_NFTD_POLICY_TURNS_H

#include "kube-nftd/policy.h"

/* An endpoint comes, goes, or has other traits. */
struct endpoint_turn {
    struct backend backend;
    uint16_t before, after; /* of enum endpoint_trait */
};

/* What few service ports have at a time; allocated while there is any of it. */
struct port_details {
    VEC(struct endpoint_turn) turns; /* since it was settled last */
    VEC(struct backend)
    hairpins; /* endpoints on this node that it counts among the reachable ones,
                 in any order */
    /* How many endpoints there are, the turns included. Kept if they are many, while the port
     * itself remembers few. */
    bool many;
    struct selection_counts counts;
};

typedef VEC(struct backend_change) backend_change_vec;

/* What turns come to. Starts zeroed. */
struct difference {
    backend_change_vec cluster, local; /* of the Cluster set and the Local set */
    backend_change_vec hairpins;       /* of those on this node that are in one of them */
    bool serving;                      /* some endpoint serves that did not, or the other way */
    bool names_node, names_here;       /* one says on which node it is; on this one */
};

/** The details of @port, made if it has none. */
struct port_details *turns_details(struct port_state *port);

/** How many endpoints @port has, the turns included. */
struct selection_counts turns_counts(const struct port_state *port);

/** @port has so many endpoints. */
void turns_keep_counts(struct port_state *port, const struct selection_counts *counts);

/** Notes changes of the endpoints of @port. Returns whether the number of ready ones on this node
 * may be another. */
bool turns_add(struct port_state *port, const struct endpoint_delta *changes, size_t n,
               const struct location *here);

/** What was counted before the turns of @port, if it is @now after them. */
struct selection_counts turns_undo(const struct port_state *port,
                                   const struct selection_counts *now);

/** What the turns of @port come to if all along @basis decides, for the sets @needed (of enum
 * endpoint_set). */
void turns_sum_up(const struct port_state *port, const struct selection_basis *basis,
                  uint8_t needed, struct difference *out);

/** Whether @port has turns. */
bool turns_has_some(const struct port_state *port);

/** Forgets the turns of @port. */
void turns_forget(struct port_state *port);

void difference_free(struct difference *difference);

#endif
