/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What keys of maps and sets are made of in rules: "ip daddr . meta l4proto . th dport". */
#ifndef KUBE_NFTD_TABLE_TERMS_H
#define KUBE_NFTD_TABLE_TERMS_H

#include "expressions.h"

#define TERM_LIST_LENGTH 5

struct term_list;

/* One term: its pattern (pattern.h) and what loads it into a register. */
struct term {
    const char *pattern;
    bool is_address; /* else it fills 4 bytes */
    void (*load)(struct builder *b, uint32_t what, const struct term_list *list, uint32_t to);
    uint32_t what[FAMILY_COUNT]; /* for @load: an offset, a kernel's number */
};

/* All terms; one that begins another stands behind it. */
#define TERMS 10
extern const struct term terms[TERMS];

struct term_list {
    const struct term *v[TERM_LIST_LENGTH];
    size_t n;
    uint32_t modulus;    /* of a random term */
    uint32_t bits;       /* of a priority, the others are masked */
    struct address mask; /* of a source */
};

/** Loads a key into the registers from 1 on. Returns how many words of 4 bytes it has. */
size_t terms_load(const struct term_list *list, struct builder *b);

#endif
