/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The lists of loadBalancerSourceRanges (base.nft). A list has a number, and all frontends with the
 * same ranges have the same one. It is never changed: other ranges are another list, which is
 * filled in portions before any frontend is led to it; one that none is led to is emptied likewise.
 */
#ifndef KUBE_NFTD_TABLE_SOURCE_LISTS_H
#define KUBE_NFTD_TABLE_SOURCE_LISTS_H

#include "kube-nftd/base.h"
#include "kube-nftd/model.h"
#include "plain.h"

struct source_list;

typedef VEC(uint32_t) list_value_vec;

/* Starts zeroed, but for the family. Lists leave when nobody holds them and they are empty. */
struct source_lists {
    enum family family;
    struct hash_table by_content;
    struct hash_table by_number; /* those that have one */
    VEC(struct source_list *) unused;
    double trim_time; /* when the first of them is to be emptied; clock_monotonic */
    uint32_t last_number;
};

/** The list of @n disjoint, ascending ranges, made if there is none. The caller holds it. */
struct source_list *source_lists_hold(struct source_lists *lists,
                                      const struct address_range *ranges, size_t n);

/** Holds @list, which may be NULL, once more; returns it. */
struct source_list *source_list_hold(struct source_list *list);

/** The list that frontends are led to by @value; NULL if there is none. */
struct source_list *source_lists_find(const struct source_lists *lists, uint32_t value);

/** The caller holds @list, which may be NULL, no more. @left_at is when the kernel has led packets
 * to it last (clock_monotonic), or 0: it stays for RULESET_TRIM_DELAY after that. */
void source_lists_release(struct source_lists *lists, struct source_list *list, double left_at);

/** The caller holds @list, which may be NULL, no more, but may want it again: then it calls
 * source_lists_unpark(), which returns it. What no packet was led to is not desired in @elements
 * any more, up to @most elements. */
void source_lists_park(struct source_lists *lists, struct plain_elements *elements,
                       struct source_list *list, size_t most);
struct source_list *source_lists_unpark(struct source_list *list);

/** What leads frontends to @list: its number, with room for the length of a prefix; 0 for NULL. */
uint32_t source_list_value(const struct source_list *list);

/** Gives @list a number if it has none, and makes more of it desired in @elements: as many as are
 * left of @most elements, which it takes off. Returns whether that is all of it. */
bool source_list_fill(struct source_lists *lists, struct plain_elements *elements,
                      struct source_list *list, size_t *most);

/** Makes less desired of the lists that nobody holds and that are due at @now, likewise. */
void source_lists_trim(struct source_lists *lists, struct plain_elements *elements, double now,
                       size_t *most);

/** Nothing is known to be in the kernel any more: no list has a number, nothing of them is desired.
 */
void source_lists_forget(struct source_lists *lists, struct plain_elements *elements);

/**
 * Makes lists of what @elements knows to be in the kernel; those that are known by their content
 * get their number back. @values: those that lead frontends to lists, which are preferred.
 */
void source_lists_adopt(struct source_lists *lists, struct plain_elements *elements,
                        const list_value_vec *values, double now);

#endif
