/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A layout (template.h) as netlink messages: sets and maps from their declarations, rules from
 * their statements.
 */
#ifndef KUBE_NFTD_TABLE_PROGRAM_H
#define KUBE_NFTD_TABLE_PROGRAM_H

#include "kube-nftd/base.h"
#include "kube-nftd/netlink.h"
#include "kube-nftd/table.h"

struct nftnl_rule;
struct nftnl_set;

/* Which of a layout's blocks become messages. */
enum program_part {
    PROGRAM_ALL,         /* a new table: sets, chains, rules, verdict elements */
    PROGRAM_WITHOUT_SETS /* what a template adds to a table that has the sets already */
};

/** Puts the messages for @layout into @batch. The error says file and line. */
int program_layout(const struct layout *layout, enum program_part part, struct nft_batch *batch,
                   struct error *err);

/** Puts the message for one chain of @layout into @batch; for all of its rules. */
int program_chain(const struct layout *layout, const struct layout_chain *chain,
                  struct nft_batch *batch, struct error *err);
int program_rules(const struct layout *layout, const struct layout_chain *chain,
                  struct nft_batch *batch, struct error *err);

/** The kernel's number of a hook by its name: "prerouting"; -1 if there is none. */
int program_hook(const char *name);

/**
 * Adds the expressions of one rule, given as text, to @rule; anonymous sets that it needs go into
 * @batch, before the rule does. The error names the statement that is not known.
 */
int statements_add(const char *text, enum family family, struct nftnl_rule *rule,
                   struct nft_batch *batch, struct error *err);

/* What each anonymous set of a rule holds: "meta l4proto { tcp, udp, sctp }". */
#define ANONYMOUS_PROTOCOLS 3
extern const uint8_t anonymous_protocols[ANONYMOUS_PROTOCOLS];

/**
 * Fills in the types, lengths, flags, size and user data of @set from its declaration: "type A . B
 * : C" or "typeof EXPR . EXPR : EXPR". The user data is of the form that every nft since 1.0.6 can
 * list.
 */
int set_declare(const struct layout_set *layout, struct nftnl_set *set, struct error *err);

#endif
