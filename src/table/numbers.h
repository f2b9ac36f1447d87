/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The numbers P of a family's service ports: which has one, and which wait for one.
 *
 * A namespace that has n numbers takes another one only while more than n are unused, so no
 * namespace can take the last half of what is left: the Services of others go on. Numbers found in
 * the kernel stay with their service ports in any case. A service port without a number waits, and
 * takes no part in commits; a number that becomes unused goes to the namespaces that wait in turn,
 * and there to the service port that has waited longest.
 */
#ifndef KUBE_NFTD_TABLE_NUMBERS_H
#define KUBE_NFTD_TABLE_NUMBERS_H

#include "kube-nftd/base.h"

struct frontend_entry;
struct port_entry;
struct ruleset;

/* What one namespace has of the numbers. */
struct number_share {
    struct hash_link link;            /* by namespace */
    uint32_t held;                    /* numbers */
    uint32_t ports;                   /* service ports; with the last one the share goes */
    struct port_entry *waiting;       /* service ports without a number, in order of arrival */
    struct number_share *prev, *next; /* in numbers->turns, while there are such */
    char namespace[];
};

struct port_numbers {
    struct port_entry **ports;  /* [MOST_PORTS + 1], by P; unused pages take no memory */
    uint64_t *unused;           /* a bit for each P; P is at least 1 */
    uint32_t most, n_unused;    /* how many there are */
    uint32_t last;              /* the last P assigned */
    struct hash_table shares;   /* of struct number_share */
    struct number_share *turns; /* those with waiting service ports, circular; the next is first */
    size_t n_waiting;           /* service ports that wait */
    size_t n_refused;           /* frontends that lead to them */
    bool returned;              /* a number became unused since numbers_hand_out() */
};

/** @most  how many numbers there are; 0: MOST_PORTS */
void numbers_init(struct port_numbers *numbers, uint32_t most);
/** Once no service port is left. */
void numbers_free(struct port_numbers *numbers);

/** Counts @port to the namespace of @service_id ("namespace/name"; NULL: to a nameless one), unless
 * it is counted already; the second, before it is freed: takes its number back and its place. */
void numbers_join(struct ruleset *rs, struct port_entry *port, const char *service_id);
void numbers_leave(struct ruleset *rs, struct port_entry *port);

/** Gives @port the number P, of nobody; 0: takes it back. */
void ruleset_number_port(struct ruleset *rs, struct port_entry *port, uint32_t number);

/** @port, which is dirty or a dirty frontend leads there, gets a number if it needs one; or waits.
 * True if it waits. Constant time. */
bool numbers_request(struct ruleset *rs, struct port_entry *port);

/** A frontend was found to lead to the service port number P. Its desired port takes that number,
 * if it has none, no other port has this one, and no other port's affinity records are there. */
void ruleset_adopt_number(struct ruleset *rs, struct frontend_entry *frontend, uint32_t number);

/** Gives numbers that became unused to service ports that wait, and marks these and their frontends
 * dirty. True if some got one. */
bool numbers_hand_out(struct ruleset *rs);

#endif
