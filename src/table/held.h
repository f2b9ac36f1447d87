/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The elements that the kernel is believed to hold, by set and key: to compare them with what it
 * does hold, and to correct what is believed. What differs is put right by the next commit.
 */
#ifndef KUBE_NFTD_TABLE_HELD_H
#define KUBE_NFTD_TABLE_HELD_H

#include "contents.h"
#include "keys.h"
#include "kube-nftd/model.h"
#include "kube-nftd/netlink.h"
#include "schema.h"

#include <stdbool.h>

struct ruleset;
struct record;

/* What is believed of one element. */
struct held {
    bool there;
    struct key value; /* empty for sets */
    struct set_subject subject;
    struct record *record;   /* whose it is; NULL: there is none, or the set has contents */
    uint32_t at;             /* the slot, else 0 */
    struct content *content; /* of a set with contents */
};

/**
 * By the key of @element. False if that cannot be one of ours, or is an end of a range, which tells
 * something only together with all others (boundaries.h).
 */
bool held_find(const struct ruleset *ruleset, enum table_set set, const struct nft_element *element,
               struct held *out);

/** Whether @element is just as it is believed to be. */
bool held_is(const struct held *held, const struct nft_element *element);

/** How many keys @record has in @set (set_key()); whether an element is believed to be under the
 * one with number @i. For sets without contents. */
uint32_t held_room(enum table_set set, const struct record *record);
bool held_has(enum table_set set, const struct record *record, uint32_t i);

/**
 * @element is found in a table of which nothing was believed. False if it cannot be one of ours.
 * @again  set if it was believed already: it came twice
 */
bool held_adopt(struct ruleset *ruleset, enum table_set set, const struct nft_element *element,
                bool *again);

/** The same for @ranges of a ranged set. */
void held_adopt_ranges(struct ruleset *ruleset, enum table_set set, const range_vec *ranges,
                       bool *again);

enum held_verdict {
    HELD_SAME,
    HELD_CHANGED, /* it is pending now to be put right */
    HELD_ALIEN    /* this cannot be told by the element alone: the table has to be read back */
};

/**
 * The kernel was found to hold @element, or nothing under that key (@there is false, and only the
 * key counts).
 */
enum held_verdict held_observe(struct ruleset *ruleset, enum table_set set,
                               const struct nft_element *element, bool there);

/** Whether @found, ascending, is what a ranged set is believed to hold. */
bool held_has_ranges(const struct ruleset *ruleset, enum table_set set, const range_vec *found);

/** The kernel was found to hold @found, ascending, in a ranged set, and nothing else. */
enum held_verdict held_observe_ranges(struct ruleset *ruleset, enum table_set set,
                                      const range_vec *found);

#endif
