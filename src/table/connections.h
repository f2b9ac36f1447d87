/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What is known of counted connections, and the deletion of counts that nobody needs.
 *
 * A set has room for 65,535 elements. The count of a service port is deleted before its number goes
 * to another one, all others of nobody when half of that room is in use.
 */
#ifndef KUBE_NFTD_TABLE_CONNECTIONS_H
#define KUBE_NFTD_TABLE_CONNECTIONS_H

#include "element.h"
#include "kube-nftd/base.h"
#include "kube-nftd/table.h"

/* Elements that a set can have: the kernel's limit for one without a size, which takes no memory
 * ahead. */
#define CONNECTIONS_MOST 65535

struct counted_port;

enum counting_set { OF_SERVICES, OF_ENDPOINTS, COUNTING_SETS };

/* Starts zeroed. */
struct connections {
    struct counted_port *of_number; /* [MOST_PORTS + 1], by P; NULL: nothing was read yet */
    uint32_t reading;               /* the number of the present one, or the last */
    bool running;
    bool collects;            /* it looks for what nobody needs, too */
    double begun, last_begun; /* the present one, and the last that was completed */
    double collected, due;    /* when one looked last; when it goes on if nobody waits for it */
    enum counting_set set;
    struct element_dump *dump;             /* of it; NULL: not begun */
    size_t elements;                       /* of it so far */
    VEC(struct key) unused[COUNTING_SETS]; /* to be deleted */
    bool full_said[COUNTING_SETS];
};

void connections_clear(struct connections *connections);

/** P is given to another service port, and nothing leads there yet. */
void connections_forget(struct connections *connections, uint32_t number);

/** Adds to the ruleset's batch what makes the counts of all pending service ports that have a new
 * number begin at 0. */
void connections_encode(struct ruleset *ruleset);

/** The table was made anew: counts begin with what was read last of those that it had before. If
 * that cannot be, they begin at 0. */
void connections_restore(struct ruleset *ruleset, struct nft_socket *socket);

/** Empties the sets of a table that was taken over, if nothing is counted in them any more. */
void connections_end(struct ruleset *ruleset, struct nft_socket *socket);

/** See table_read_connections(). */
bool ruleset_read_connections(struct ruleset *ruleset, double since);

/** Goes on with a reading that nobody waits for, with 1/20 of a core at most, and deletes what
 * nobody needs. Returns when to call again, or 0. */
double connections_turn(struct ruleset *ruleset, struct nft_socket *socket, double now);

/** A reading begins; and the kernel has this element of a service port. For tests. */
void connections_begin(struct ruleset *ruleset, double now);
void connections_take(struct ruleset *ruleset, const struct nft_element *element);

/** Whether the service port of an element of one of the sets is there, and its endpoint in use. */
bool connections_are_for(const struct ruleset *ruleset, const struct nft_element *element);

#endif
