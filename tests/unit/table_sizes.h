/* SPDX-License-Identifier: GPL-2.0-or-later */
/* How many elements the tables of the fake kernel hold: for comparing one with another. */
#ifndef KUBE_NFTD_TESTS_TABLE_SIZES_H
#define KUBE_NFTD_TESTS_TABLE_SIZES_H

#include "kube-nftd/net.h"

/* The sets and maps that do not just grow. */
#define SIZED 17
extern const char *const sized[SIZED];

/* How many elements each of them has. */
struct sizes {
    size_t v[SIZED];
};

struct sizes sizes_now(enum family family);
void check_same_sizes(const struct sizes *a, const struct sizes *b);

#endif
