/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What a table has besides elements: chains, their rules, and where verdicts lead. Once as the
 * kernel has them and once as the templates make them; what differs is rewritten, chain by chain,
 * in one transaction: packets meet either the old rules or the new ones, and the same elements.
 * That is the one repair of rules: before the first programming, when a table is taken over, after
 * another program changed them, and when a new version has others.
 *
 * Compared are hooks and policies of chains, all operands of their rules in their order, and the
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
    char *name;      /* "pick"; of an element "@picks 5" */
    const char *map; /* one of our own strings; NULL: it is a chain */
    uint32_t key;
    char *hook;  /* of a chain, with its priority and policy; "" without one */
    char *rules; /* of a chain, a line each; of an element where it leads, "" if nowhere */
};

/* A set without a name of its own, and the place of the chain whose rule looks into it. */
struct rules_set {
    char *set;
    size_t chain;
};

/* Starts zeroed. */
struct rules {
    VEC(struct rules_item) items; /* by name */
    VEC(struct rules_set) anonymous;
};

void rules_free(struct rules *rules);
void rules_free_item(struct rules_item *item);

/** Appends what the kernel has to @rules, sorted. -1 also if an element came twice: the kernel was
 * moving them to a larger table, and may have left out others as well. */
int rules_read(enum family family, struct nft_socket *socket, struct rules *rules,
               struct error *err);

/** Appends what a template makes; to be sorted when all is there. */
int rules_expect(struct rules *rules, const struct layout *layout, struct error *err);
void rules_sort(struct rules *rules);

/** The item of that name; NULL if there is none. */
struct rules_item *rules_find(const struct rules *rules, const char *name);

/** Whether @rules has just the same; whether both have the same in all. */
bool rules_have(const struct rules *rules, const struct rules_item *item);
bool rules_same(const struct rules *a, const struct rules *b);

/** The name of a map whose elements are verdicts, always the same pointer; NULL for others. */
const char *rules_map(const char *name);

/** Whether the kernel has what the templates make with the instances of @ruleset, and those that
 * only the kernel's chains tell of. An instance that nothing uses may be gone as a whole, another
 * daemon collects them too; then it is not the same either, but the repair just notes that. */
int rules_check(const struct ruleset *ruleset, struct nft_socket *socket, bool *same,
                struct error *err);

struct rules_repaired {
    size_t bytes;    /* that had to be sent; 0: all was right */
    size_t verdicts; /* that there are now */
};

/** Makes it so; notes which instances there are then. -1: it is as it was, or changes while it
 * is read. */
int rules_repair(struct ruleset *ruleset, struct nft_socket *socket, struct rules_repaired *done,
                 struct error *err);

#endif
