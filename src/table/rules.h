/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The table without its elements: chains, rules, and the targets of verdicts. Compares the kernel's
 * version with that of the templates and rewrites chains that differ, in one transaction: packets
 * see either the old or the new rules, with the same elements. All repairs of rules use this:
 * before the first programming, at adoption, after another program changed rules, and after an
 * upgrade.
 *
 * Compares hooks and policies of chains, all operands of their rules in order, and the target
 * chains of verdicts.
 */
#ifndef KUBE_NFTD_TABLE_RULES_H
#define KUBE_NFTD_TABLE_RULES_H

#include "kube-nftd/base.h"
#include "kube-nftd/netlink.h"

struct layout;
struct ruleset;

/* A chain, or an element of a verdict map. */
struct rules_item {
    char *name;      /* "pick"; for an element, "@picks 5" */
    const char *map; /* static string; NULL: a chain */
    uint32_t key;
    char *hook;  /* chains: type, priority, policy; "" without a hook */
    char *rules; /* chains: one line each; elements: the target, or "" */
};

/* An anonymous set, and the index of the chain that uses it. */
struct rules_set {
    char *set;
    size_t chain;
};

/* Starts zeroed. */
struct rules {
    VEC(struct rules_item) items; /* sorted by name */
    VEC(struct rules_set) anonymous;
};

void rules_free(struct rules *rules);
void rules_free_item(struct rules_item *item);

/** Appends the kernel's version to @rules, sorted. Also -1 if an element came twice: the kernel was
 * resizing the table and may have skipped others. */
int rules_read(enum family family, struct nft_socket *socket, struct rules *rules,
               struct error *err);

/** Appends what a template makes; call rules_sort() after the last. */
int rules_expect(struct rules *rules, const struct layout *layout, struct error *err);
void rules_sort(struct rules *rules);

/** The item with that name; NULL if none. */
struct rules_item *rules_find(const struct rules *rules, const char *name);

/** Whether @rules has an equal item; whether all items are equal. */
bool rules_have(const struct rules *rules, const struct rules_item *item);
bool rules_same(const struct rules *a, const struct rules *b);

/** The name of a verdict map, always the same pointer; NULL for other sets. */
const char *rules_map(const char *name);

/** Whether the kernel's rules match the templates, with the instances of @ruleset and those found
 * as chains in the kernel. An unused instance may be gone as a whole, collected by another daemon.
 * Then @same is false, too, but the repair only records that. */
int rules_check(const struct ruleset *ruleset, struct nft_socket *socket, bool *same,
                struct error *err);

struct rules_repaired {
    size_t bytes;    /* sent; 0: nothing was wrong */
    size_t verdicts; /* in the table now */
};

/** Repairs the rules and records the existing instances. -1: nothing changed, or the table changed
 * while it was read. */
int rules_repair(struct ruleset *ruleset, struct nft_socket *socket, struct rules_repaired *done,
                 struct error *err);

#endif
