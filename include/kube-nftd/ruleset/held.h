/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The elements that the kernel is believed to hold, by set and key: to compare them with what it
 * does hold, and to correct what is believed. What differs is put right by the next commit.
 */
#ifndef KUBE_NFTD_RULESET_HELD_H
#define KUBE_NFTD_RULESET_HELD_H

#include "kube-nftd/model/cidr.h"
#include "kube-nftd/netlink/nft_element.h"
#include "kube-nftd/ruleset/contents.h"
#include "kube-nftd/ruleset/keys.h"

#include <stdbool.h>

struct ruleset;
struct record;

/* A set or map with elements that are known, as a number from 0 on: all but what packets write and
 * where verdicts lead. */
#define HELD_SETS 17

/** The number of a set by its name; -1 if it is none of these. Its name, always the same pointer.
 */
int held_set_of(const char *name);
const char *held_set_name(int set);

/* What is believed of one element. */
struct held {
    bool there;
    struct key value;        /* empty for sets */
    struct record *record;   /* of its frontend; NULL: none, or the set has no frontends */
    uint32_t at;             /* the number of its key there (held_key()) */
    struct content *content; /* likewise, for sets without frontends */
};

/**
 * Whether the elements are ends of ranges, which tell something only all together (boundaries.h):
 * then held_find() and held_observe() know none of them.
 */
bool held_is_ranged(int set);

/** By the key of @element. False if that cannot be one of ours. */
bool held_find(const struct ruleset *ruleset, int set, const struct nft_element *element,
               struct held *out);

/** Whether @element is just as it is believed to be. */
bool held_is(const struct held *held, const struct nft_element *element);

/** How many keys @record has in @set; whether an element is believed to be under the one with
 * number @i; and that key. For sets with frontends. */
uint32_t held_room(int set, const struct record *record);
bool held_has(int set, const struct record *record, uint32_t i);
struct key held_key(int set, const struct record *record, uint32_t i);

/** CONTENT_SETS if it is a set with frontends. */
enum content_set held_content_set(int set);

enum held_verdict {
    HELD_SAME,
    HELD_CHANGED, /* it is pending now to be put right */
    HELD_ALIEN    /* this cannot be told by the element alone: the table has to be read back */
};

/**
 * The kernel was found to hold @element, or nothing under that key (@there is false, and only the
 * key counts).
 */
enum held_verdict held_observe(struct ruleset *ruleset, int set, const struct nft_element *element,
                               bool there);

/** Whether @found, ascending, is what a ranged set is believed to hold. */
bool held_has_ranges(const struct ruleset *ruleset, int set, const range_vec *found);

/** The kernel was found to hold @found, ascending, in a ranged set, and nothing else. */
enum held_verdict held_observe_ranges(struct ruleset *ruleset, int set, const range_vec *found);

#endif
