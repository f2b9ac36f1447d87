/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The table without its elements and declarations: chains, rules, the flowtable, and the targets of
 * verdicts. Compares the kernel's version with that of the templates and rewrites chains that
 * differ, in one transaction: packets see either the old or the new rules, with the same elements.
 * All repairs of rules use this: before the first programming, at adoption, after another program
 * changed rules, and after an upgrade.
 *
 * Compares hooks and policies of chains, all operands of their rules in order, and the target
 * chains of verdicts.
 */
#ifndef KUBE_NFTD_TABLE_RULES_H
#define KUBE_NFTD_TABLE_RULES_H

#include "kube-nftd/base.h"
#include "kube-nftd/netlink.h"

struct nftnl_rule;
struct ruleset;

/** The name of a verdict map, as long as @ruleset exists; NULL for other sets. */
const char *rules_map(const struct ruleset *ruleset, const char *name);

/** Whether the kernel's rules match the templates, with the instances of @ruleset and those found
 * as chains in the kernel. An unused instance may be gone as a whole, collected by another daemon.
 * Then @same is false, too, but the repair only records that. */
int rules_check(const struct ruleset *ruleset, struct nft_socket *socket, bool *same,
                struct error *err);

/** Appends a line with all operands of @rule's expressions to *@text, the same whichever kernel
 * returned them: equal texts act alike (rule_text.c). The name of an anonymous set in it, of which
 * a chain of ours has at most one, replaces *@anonymous. */
void rule_text_append(char **text, char **anonymous, struct nftnl_rule *rule);

struct rules_repaired {
    size_t bytes;    /* sent; 0: nothing was wrong */
    size_t verdicts; /* in the table now */
    bool rejected;   /* the kernel rejected the rewritten rules */
};

/** Repairs the rules and records the existing instances. -1: nothing changed, or the table changed
 * while it was read. */
int rules_repair(struct ruleset *ruleset, struct nft_socket *socket, struct rules_repaired *done,
                 struct error *err);

/** The same for a table that is known: logs a repair, and counts it for the next commit. */
int ruleset_repair_rules(struct ruleset *ruleset, struct nft_socket *socket,
                         struct rules_repaired *done, struct error *err);

#endif
