/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Facts by what they are about, in its order: the last one counts. */
#ifndef KUBE_NFTD_TESTS_FACTS_H
#define KUBE_NFTD_TESTS_FACTS_H

#include "kube-nftd/base.h"

#include <check.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

struct known_fact {
    char *about, *what;
};

struct facts {
    VEC(struct known_fact) all;
};

/* Takes both texts. @what replaces what there was @about that; NULL: nothing is left. Returns
 * whether there was something. */
bool facts_set(struct facts *facts, char *about, char *what);

void facts_clear(struct facts *facts);

void facts_write(FILE *out, const struct facts *facts);

/* Shows the first line that differs. */
void check_same_text(const char *what, const char *has, const char *wanted);

#endif
