/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A rule as text, for comparison: equal texts act alike. */
#ifndef KUBE_NFTD_TABLE_RULE_TEXT_H
#define KUBE_NFTD_TABLE_RULE_TEXT_H

struct nftnl_rule;

/** Appends a line with all operands of @rule's expressions to *@text, the same whichever kernel
 * returned them. The name of an anonymous set in it, of which a chain of ours has at most one,
 * replaces *@anonymous. */
void rule_text_append(char **text, char **anonymous, struct nftnl_rule *rule);

#endif
