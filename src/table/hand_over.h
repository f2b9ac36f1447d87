/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Lets no packet fall between a table and the one that replaces it.
 *
 * The kernel hooks the new table's chains in before those of the old one, where both have the same
 * priority, and both are there while it commits. A packet that has passed the new ones, empty yet,
 * when the generation turns finds the old ones empty, too: of 600,000 new flows under 100
 * replacements, 2 were not translated. If the old rules are asked first, whoever finds them empty
 * finds the new ones full. So the old table gets copies of its chains with hooks, one priority
 * earlier, in a transaction ahead; they go with it.
 */
#ifndef KUBE_NFTD_TABLE_HAND_OVER_H
#define KUBE_NFTD_TABLE_HAND_OVER_H

#include "kube-nftd/table.h"

/** Prepares the table in the kernel, of whatever layout, for being replaced. If that cannot be done
 * (it is logged for those who debug) the replacement is as good as without. */
void ruleset_hand_over(struct ruleset *ruleset, struct nft_socket *socket);

#endif
