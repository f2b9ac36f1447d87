/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Patterns of nft text. Words are separated by blanks; these stand for others:
 *
 *     IP       the family's name
 *     KEY      terms with " . " between them
 *     N, Ns    a number; a number of seconds
 *     MODULUS  that of a random term
 *     MASK     the mask of a source, as an address
 *     CLASSID  two numbers of 16 bits with a colon between them, in hexadecimal
 *     BITS     the same, as the mask of a term
 *     @S       a map or set
 *     C        a chain
 *     I        an interface in quotes: "cni0"; all whose names begin alike: "cali*"
 */
#ifndef KUBE_NFTD_TABLE_PATTERN_H
#define KUBE_NFTD_TABLE_PATTERN_H

#include "terms.h"

#define NAME_SIZE 64

/* What a pattern picked up from the text. */
struct words {
    uint32_t number;
    char name[NAME_SIZE]; /* of the set, chain or interface, without @ and quotes */
    struct term_list terms;
};

/** Matches @pattern with the beginning of @text; the rest of the text, or NULL if it does not fit.
 */
const char *pattern_match(const char *pattern, const char *text, enum family family,
                          struct words *words);

#endif
