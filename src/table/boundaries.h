/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Ranges in a set of single addresses, of which the kernel tells the ends one by one. Pure. */
#ifndef KUBE_NFTD_TABLE_BOUNDARIES_H
#define KUBE_NFTD_TABLE_BOUNDARIES_H

#include "keys.h"
#include "kube-nftd/model.h"
#include "kube-nftd/netlink.h"

#include <stdbool.h>

/* One end of a range. */
struct boundary {
    struct address address;
    bool is_end; /* the first address behind the range */
};

/* Of one set, as they are read. Starts zeroed. */
struct boundaries {
    VEC(struct boundary) all;
    bool foreign; /* there was something that is no end of a range of addresses */
};

/** Takes an element of a set of @family. */
void boundaries_take(struct boundaries *boundaries, enum family family,
                     const struct nft_element *element);

/** Nothing is in it any more; frees what it holds. */
void boundaries_clear(struct boundaries *boundaries);

enum boundaries_verdict {
    BOUNDARIES_PAIRED,
    BOUNDARIES_TORN,   /* some came twice: read the set again */
    BOUNDARIES_FOREIGN /* they make no ranges, so they cannot be ours */
};

/** Pairs what was taken, and sorts it: the ranges are appended to @out in ascending order. */
enum boundaries_verdict boundaries_pair(struct boundaries *boundaries, enum family family,
                                        range_vec *out);

/** How many elements the kernel has for a range: no end is behind the highest address. */
size_t range_elements(enum family family, const struct address_range *range);

/** A range as the key of a struct content, and back. */
struct key key_of_range(enum family family, const struct address_range *range);
struct address_range range_of_key(enum family family, const uint8_t *key);

#endif
