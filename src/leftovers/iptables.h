/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Which chains and rules of one table of iptables-nft kube-proxy left, and which of them can go.
 *
 * kube-proxy's are the chains with its names, all that is in them, and the rules of base chains
 * that lead to them with its comments. Where any other rule or a verdict map leads to one of its
 * chains, that chain stays, with all that it leads to: what leads there is somebody's, and would be
 * broken (the kernel would refuse to).
 */
#ifndef KUBE_NFTD_LEFTOVERS_IPTABLES_H
#define KUBE_NFTD_LEFTOVERS_IPTABLES_H

#include "kube-nftd/base.h"
#include "kube-nftd/netlink.h"

#include <stdbool.h>
#include <stdint.h>

struct iptables_chain {
    struct hash_link link; /* by name */
    char *name;
    bool base;  /* called by the kernel: PREROUTING and the like */
    bool drops; /* what no rule of it, a base chain, decides about */
    bool map;   /* no chain at all, but a verdict map */
    bool kube_proxys;
    const struct iptables_chain *holder; /* a stranger's that needs it; NULL: it can go */
    bool held_at_once; /* the holder's rule leads here itself, not by way of others */
    size_t rules;
    VEC(struct iptables_chain *) leads_to; /* kube-proxy's chains alone */
};

/* What is told of a chain; borrowed. */
struct iptables_chain_facts {
    const char *name;
    bool base, drops;
};

/* A rule of kube-proxy's in a base chain. */
struct iptables_jump {
    const struct iptables_chain *from, *to;
    uint64_t handle;
};

struct iptables_plan {
    const char *table;                   /* borrowed */
    VEC(struct iptables_chain *) chains; /* in the order in which they were added; owned */
    struct hash_table by_name, maps;     /* the maps are owned */
    VEC(struct iptables_jump) jumps;
};

/* A rule as far as it matters here; borrowed. */
struct iptables_rule {
    const char *chain;
    uint64_t handle;
    const char *to;      /* the chain it jumps or goes to; NULL if none */
    const char *map;     /* the set or map that it looks into; NULL if none */
    const char *comment; /* NULL if none */
};

/** An empty plan for the iptables table @table. Release with iptables_plan_clear(). */
void iptables_plan_init(struct iptables_plan *plan, const char *table);
void iptables_plan_clear(struct iptables_plan *plan);

/** Tells of a chain (the name is copied), once or more often. Chains come before all else. */
void iptables_plan_add_chain(struct iptables_plan *plan, const struct iptables_chain_facts *facts);

/**
 * Tells of an element of the verdict map @map, which leads to the chain @to. All come before the
 * first rule. An @anonymous map is part of the rule that looks into it, so that rule's chain is the
 * one that needs @to.
 */
void iptables_plan_add_element(struct iptables_plan *plan, const char *map, bool anonymous,
                               const char *to);

/**
 * Tells of a rule. One of a chain that was not told is passed over. One that is told twice counts
 * twice to the chain's rules, and once else.
 */
void iptables_plan_add_rule(struct iptables_plan *plan, const struct iptables_rule *rule);

/** Whether there is nothing of kube-proxy's. */
bool iptables_plan_is_empty(const struct iptables_plan *plan);

/** Whether a chain is kube-proxy's and can go. */
bool iptables_chain_goes(const struct iptables_chain *chain);

/** The chain @name; NULL if there is none. */
const struct iptables_chain *iptables_plan_find(const struct iptables_plan *plan, const char *name);

/**
 * Initializes @plan and tells it all that table @table of @family has. @overtaken says whether
 * others changed nf_tables meanwhile, so that something may be missing. -1 with @err: it cannot be
 * read, and @plan is empty.
 */
int iptables_plan_read(struct iptables_plan *plan, struct nft_socket *socket, enum family family,
                       const char *table, bool *overtaken, struct error *err);

#endif
