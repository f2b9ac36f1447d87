/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Puts the rules of a table right while nothing is known of what its elements shall be: what
 * another program did to them might keep this one from ever learning that.
 */
#ifndef KUBE_NFTD_RULESET_MEND_H
#define KUBE_NFTD_RULESET_MEND_H

#include "kube-nftd/ruleset/ruleset.h"

/**
 * If there is a table of our shape from an earlier run whose chains, rules or verdicts are not
 * those that the templates make, makes them so in one transaction; elements and the records of
 * packets stay. Any other table, and one that another program owns, is left alone; one that can be
 * owned is claimed. For a ruleset that knows nothing of the kernel yet.
 * @mended  whether something was wrong
 * -1: it is as it was; the error says why
 */
int ruleset_mend(struct ruleset *ruleset, struct nft_socket *socket, bool *mended,
                 struct error *err);

#endif
