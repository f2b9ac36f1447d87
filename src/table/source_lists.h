/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The lists of loadBalancerSourceRanges (base.nft). A list has a number, which all service ports
 * with the same ranges share. Lists are immutable: changed ranges make another list. An unused list
 * is emptied when no packet can be between the lookups of its number and its elements.
 */
#ifndef KUBE_NFTD_TABLE_SOURCE_LISTS_H
#define KUBE_NFTD_TABLE_SOURCE_LISTS_H

#include "kube-nftd/base.h"
#include "kube-nftd/net.h"

struct ruleset;
struct source_list;

typedef VEC(uint32_t) list_value_vec;

/* Starts zeroed, except for the family. A list is freed once it is unheld and empty. */
struct source_lists {
    enum family family;
    struct hash_table by_content;
    struct hash_table by_number; /* those with a number */
    VEC(struct source_list *) unused;
    double trim_time; /* when to empty the first of these; clock_monotonic */
    uint32_t last_number;
};

/** The list of @n disjoint, ascending ranges, created if needed. Takes a hold for the caller. */
struct source_list *source_lists_hold(struct source_lists *lists,
                                      const struct address_range *ranges, size_t n);

/** Takes another hold on @list (may be NULL); returns it. */
struct source_list *source_list_hold(struct source_list *list);

/** The list that @value leads to; NULL if none. */
struct source_list *source_lists_find(const struct source_lists *lists, uint32_t value);

/** Drops a hold on @list (may be NULL). @left_at is when the kernel last led packets to it
 * (clock_monotonic), or 0: the list stays for RULESET_TRIM_DELAY after that. */
void source_lists_release(struct source_lists *lists, struct source_list *list, double left_at);

/** The value that gives service ports @list: its number, with room for a prefix length; 0 for
 * NULL. */
uint32_t source_list_value(const struct source_list *list);

/** Numbers @list (may be NULL) if needed and desires its prefixes. */
void source_list_fill(struct ruleset *rs, struct source_list *list);

/** Drops a hold on @list (may be NULL) that the caller may take back: source_lists_unpark() returns
 * it. If it was the last one, and no packet was led to the list, its elements stop being desired.
 */
void source_lists_park(struct ruleset *rs, struct source_list *list);
struct source_list *source_lists_unpark(struct source_list *list);

/** Stops desiring the elements of unheld lists that are due at @now. */
void source_lists_trim(struct ruleset *rs, double now);

/** Forgets the kernel's contents: no list has a number, and none of their elements are desired. */
void source_lists_forget(struct ruleset *rs);

/**
 * Makes lists of the applied elements; known lists with the same content get their
 * number back. Prefers the numbers in @values, which service ports have.
 */
void source_lists_adopt(struct ruleset *rs, const list_value_vec *values, double now);

#endif
