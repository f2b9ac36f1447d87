/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Totals of counted connections, and the deletion of unused counts.
 *
 * A set has room for 65,535 elements. The count of a service port is deleted before its number is
 * reused. Other unused counts are deleted when half of the room is in use.
 */
#ifndef KUBE_NFTD_TABLE_CONNECTIONS_H
#define KUBE_NFTD_TABLE_CONNECTIONS_H

#include "element.h"
#include "kube-nftd/base.h"
#include "kube-nftd/table.h"

/* The kernel's element limit for sets without a size, which preallocate no memory. */
#define CONNECTIONS_MOST 65535

struct counted_port;

enum counting_set { OF_SERVICES, OF_ENDPOINTS, COUNTING_SETS };

/* Starts zeroed. */
struct connections {
    struct counted_port *of_number; /* [MOST_PORTS + 1], by P; NULL: nothing read yet */
    uint32_t reading;               /* number of the current reading, or the last */
    bool running;
    bool collects;            /* it also looks for unused counts */
    double begun, last_begun; /* current reading; last complete one */
    double collected, due;    /* last collecting reading; next piece if nobody waits */
    enum counting_set set;
    struct element_dump *dump;             /* of the set; NULL: not begun */
    size_t elements;                       /* read from the set so far */
    VEC(struct key) unused[COUNTING_SETS]; /* to be deleted */
    bool full_logged[COUNTING_SETS];
};

void connections_clear(struct connections *connections);

/** P is assigned to another service port, to which nothing leads yet. */
void connections_forget(struct connections *connections, uint32_t number);

/** Adds messages to the ruleset's batch that reset the counts of pending service ports with a new
 * number. */
void connections_encode(struct ruleset *ruleset);

/** After the table was recreated: restores the totals last read. On failure counts begin at 0. */
void connections_restore(struct ruleset *ruleset, struct nft_socket *socket);

/** Empties the sets of an adopted table if counting is off. */
void connections_end(struct ruleset *ruleset, struct nft_socket *socket);

/** See table_read_connections(). */
bool ruleset_read_connections(struct ruleset *ruleset, double since);

/** Continues a background reading, with 1/20 of a core at most, and deletes unused counts. Returns
 * when to call again, or 0. */
double connections_step(struct ruleset *ruleset, struct nft_socket *socket, double now);

/** Looks whether the sets are full, and logs it once. */
void connections_check_room(struct ruleset *ruleset, struct nft_socket *socket);

#endif
