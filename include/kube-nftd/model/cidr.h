/* SPDX-License-Identifier: GPL-2.0-or-later */
/* CIDRs and ranges of addresses, as plain values. */
#ifndef KUBE_NFTD_MODEL_CIDR_H
#define KUBE_NFTD_MODEL_CIDR_H

#include "kube-nftd/base/vec.h"
#include "kube-nftd/model/address.h"

/* Host bits are zero. */
struct cidr {
    struct address address;
    uint8_t length; /* of the prefix, in bits */
};

typedef VEC(struct cidr) cidr_vec;

/* Both ends belong to it. */
struct address_range {
    struct address first, last;
};

typedef VEC(struct address_range) range_vec;

/**
 * Reads a CIDR (docs/behaviour.md 1.6): the address as address_parse() reads it, host bits are
 * cleared. Returns false and leaves the outputs alone if @text is none.
 */
bool cidr_parse(const char *text, enum family *family, struct cidr *cidr);

bool cidr_equal(const struct cidr *a, const struct cidr *b);

/** Whether @address, of the same family, is inside. */
bool cidr_contains(const struct cidr *cidr, const struct address *address);

/** The range that a CIDR of @family covers. */
struct address_range cidr_range(enum family family, const struct cidr *cidr);

/** Puts the prefixes that a range is made of behind @out, as few as can be, in ascending order.
 * None has a length of 0: two halves stand for everything. */
void range_prefixes(enum family family, const struct address_range *range, cidr_vec *out);

/** Whether @address is in one of the ranges. */
bool ranges_contain(const range_vec *ranges, const struct address *address);

/* Room for two addresses with a dash, or one with the length of a prefix. */
#define RANGE_TEXT_SIZE (2 * ADDRESS_TEXT_SIZE + 1)

/** Writes @range as "10.0.0.0/8" if it is a CIDR, else as "10.0.0.1-10.0.0.9". Returns @out. */
const char *range_format(enum family family, const struct address_range *range,
                         char out[RANGE_TEXT_SIZE]);

/**
 * Sorts ranges of one family and merges those that overlap or touch, so that they are disjoint and
 * ascending, as an interval set wants them.
 */
void ranges_normalize(enum family family, range_vec *ranges);

#endif
