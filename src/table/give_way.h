/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Takes a single frontend out of a table while nothing is known of what that shall hold. */
#ifndef KUBE_NFTD_TABLE_GIVE_WAY_H
#define KUBE_NFTD_TABLE_GIVE_WAY_H

#include "kube-nftd/table.h"

/**
 * If there is a table of our shape from an earlier run that does something about packets to
 * @frontend, and its address is no cluster IP there, makes it leave them alone, in one transaction.
 * What nothing leads to then is left to the first commit. Another table, and one that another
 * program owns, is left alone.
 * @gave  whether there was something
 * -1: it is as it was; the error says why
 */
int ruleset_give_way(struct ruleset *ruleset, struct nft_socket *socket,
                     const struct frontend *frontend, bool *gave, struct error *err);

#endif
