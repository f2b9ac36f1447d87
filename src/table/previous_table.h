/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Changes to the table of a previous process while it stays active. */
#ifndef KUBE_NFTD_TABLE_PREVIOUS_TABLE_H
#define KUBE_NFTD_TABLE_PREVIOUS_TABLE_H

#include "kube-nftd/table.h"

/**
 * Adds shadow chains to a table about to be replaced, of any layout: copies of its chains with
 * hooks, one priority earlier. They are deleted with it.
 *
 * The kernel hooks in the new table's chains before the old ones of the same priority, and both
 * exist while it commits. A packet that passes the new, still empty chains just as the generation
 * changes finds the old ones empty, too: of 600,000 new flows during 100 replacements, 2 were not
 * translated. With shadow chains the old rules come first: a packet that finds them empty finds the
 * new ones full. On failure (logged at debug level) the replacement goes on without them.
 */
void ruleset_add_shadow_chains(const struct ruleset *ruleset, struct nft_socket *socket);

/* When the rules of a previous table are repaired. Starts zeroed. */
struct protection {
    double checked;  /* last check; 0: never */
    bool look_again; /* an event about the table came since */
    bool previous;   /* at that check the kernel had services of the previous process */
};

/** See table_protect(). Leaves alone tables of other layouts and those owned by another program;
 * claims a table that can be owned. Elements and packets' records stay. Only before the ruleset has
 * read the kernel. Counts in @repairs. */
double protection_step(struct protection *protection, struct ruleset *ruleset,
                       struct nft_socket *socket, double now, uint64_t *repairs);

/**
 * While the desired state is unknown: makes a table of our layout leave packets to @frontend alone,
 * in one transaction, unless its address is a cluster IP there. Elements that become unreachable
 * are left to the first commit. Leaves other tables, and those owned by another program, as they
 * are. Logs that, or its failure.
 */
void ruleset_withdraw(struct ruleset *ruleset, struct nft_socket *socket,
                      const struct frontend *frontend);

#endif
