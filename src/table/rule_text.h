/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A rule as text with every operand of every expression, to compare the rules of a table with those
 * of the templates: two rules of one text do the same to each packet, whichever kernel gave them.
 */
#ifndef KUBE_NFTD_TABLE_RULE_TEXT_H
#define KUBE_NFTD_TABLE_RULE_TEXT_H

#include "kube-nftd/base.h"

struct nftnl_rule;

/* Sets without a name of their own are called differently each time, so they are no part of the
 * text: what they hold is to be compared apart. */
typedef VEC(char *) set_name_vec;

/** The text, to be freed. Names of anonymous sets are appended to @anonymous, each to be freed. */
char *rule_text(struct nftnl_rule *rule, set_name_vec *anonymous);

#endif
