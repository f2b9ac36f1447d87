/* SPDX-License-Identifier: GPL-2.0-or-later */
/* How full a set is that packets write. When one has no room, the kernel tells nobody. */
#ifndef KUBE_NFTD_TABLE_FILL_H
#define KUBE_NFTD_TABLE_FILL_H

#include "element.h"
#include "kube-nftd/base.h"

/* Seconds between two looks; and on kernels that do not count elements (before Linux 6.18), where
 * one takes a transaction that is not applied. */
#define FILL_PERIOD 1.0
#define FILL_PERIOD_UNCOUNTED 5.0

struct ruleset;

enum fill {
    FILL_COUNTED,
    FILL_FULL,   /* the kernel does not count, and rejects another element */
    FILL_UNKNOWN /* it does not count, and has room; or it did not answer */
};

/** Counts the elements of @set, or, if the kernel does not, tries to add @element, with a value if
 * @is_map. */
enum fill set_fill(struct ruleset *rs, struct nft_socket *socket, const char *set,
                   const struct key *element, bool is_map, uint32_t *n);

#endif
