/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The lists of loadBalancerSourceRanges (base.nft). A list has a number, which all service ports
 * with the same ranges share, and is immutable: changed ranges make another list. Its elements are
 * plain ones, desired while somebody holds it:
 *
 *     a service port that desires it, unless it is quarantined; only a plan takes the first hold
 *     a service port whose value leads to it in the kernel, and for RULESET_TRIM_DELAY after that
 *
 * With the last hold the number is given back.
 */
#ifndef KUBE_NFTD_TABLE_SOURCE_LISTS_H
#define KUBE_NFTD_TABLE_SOURCE_LISTS_H

#include "kube-nftd/base.h"
#include "kube-nftd/net.h"

struct port_entry;
struct ruleset;
struct source_list;

/* A hold that ends RULESET_TRIM_DELAY after @at. */
struct left_list {
    struct source_list *list;
    double at; /* clock_monotonic */
};

/* A list that keeps its number and elements while the table is read. */
struct kept_list {
    struct source_list *list;
    uint32_t number;
};

/* Starts zeroed. */
struct source_lists {
    struct hash_table by_content;
    struct hash_table by_number; /* those that are held */
    VEC(struct left_list) left;  /* ascending */
    VEC(struct kept_list) kept;
    double now; /* of the present commit; clock_monotonic */
    uint32_t last_number;
};

/** Sets the sources of @port: @n disjoint, ascending ranges; NULL: none. */
void port_set_sources(struct ruleset *rs, struct port_entry *port,
                      const struct address_range *ranges, size_t n);

/** Holds the desired list of @port, if there is one and it does not yet; or no longer. */
void port_hold_sources(struct ruleset *rs, struct port_entry *port, bool holds);

/** The value that leads @port to its desired list: its number, with room for a prefix length; 0:
 * none, or nobody holds it. */
uint32_t port_list_value(const struct port_entry *port);

/** The applied value of a service port changes from @before to @after; 0: none. */
void source_lists_lead(struct ruleset *rs, uint32_t before, uint32_t after);

/** A commit begins at @now: ends holds that are due; when that deletes a list, or 0. */
void source_lists_trim(struct ruleset *rs, double now);
double source_lists_due(const struct source_lists *lists);

/** Once no service port holds a list: ends all other holds. */
void source_lists_forget(struct ruleset *rs);

/** The list that a service port's value leads to is to be as it is, once the table has been read;
 * or no list is any more. */
void source_lists_keep(struct ruleset *rs, uint32_t value);
void source_lists_unkeep(struct ruleset *rs);

/** Makes lists of the applied elements: known lists with the same content get their number back. */
void source_lists_adopt(struct ruleset *rs, double now);

#endif
