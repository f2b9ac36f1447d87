/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What is done to a table of a previous process while it stays active. */
#ifndef KUBE_NFTD_TABLE_PREVIOUS_TABLE_H
#define KUBE_NFTD_TABLE_PREVIOUS_TABLE_H

#include "kube-nftd/table.h"

/**
 * Gives a table that is about to be replaced, of whatever layout, shadow chains: copies of its
 * chains with hooks, one priority earlier. They go with it.
 *
 * The kernel hooks the new table's chains in before those of the old one, where both have the same
 * priority, and both are there while it commits. A packet that has passed the new ones, empty yet,
 * when the generation turns finds the old ones empty, too: of 600,000 new flows under 100
 * replacements, 2 were not translated. If the old rules are asked first, whoever finds them empty
 * finds the new ones full. If it cannot be done (it is logged for those who debug), the replacement
 * is as good as without.
 */
void ruleset_add_shadow_chains(const struct ruleset *ruleset, struct nft_socket *socket);

/**
 * While nothing is known of what the table shall hold: if there is one of our layout that does
 * something about packets to @frontend, and its address is no cluster IP there, makes it leave them
 * alone, in one transaction. What nothing leads to then is left to the first commit. Another table,
 * and one that another program owns, is left alone.
 * @gave  whether there was something
 * -1: it is as it was; the error says why
 */
int ruleset_give_way(struct ruleset *ruleset, struct nft_socket *socket,
                     const struct frontend *frontend, bool *gave, struct error *err);

#endif
