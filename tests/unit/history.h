/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Chance in a history over the fake kernel, the same in every run, and what goes wrong in it. */
#ifndef KUBE_NFTD_TESTS_HISTORY_H
#define KUBE_NFTD_TESTS_HISTORY_H

#include "fake_kernel.h"

#include <errno.h>
#include <stdlib.h>

/* Of the history; set before its first step. */
extern unsigned seed;

unsigned below(unsigned n);

#define ONE_OF(list) (list)[below(sizeof(list) / sizeof((list)[0]))]

/* One time in @odds each, transactions and reads that come next go wrong. That may come too late
 * for the next commit. */
void fail_somehow(unsigned odds);

/* Takes back what is still to come of it. Returns whether something was. */
bool fail_no_more(void);

/* Elements of @frontend are rejected. */
void begrudge(const struct frontend *frontend);

/* Elements of the service port with @number are rejected. */
void begrudge_port(uint32_t number);

/* There is room for what is there in some set, and a little more. Returns whether that is so. */
bool crowd(enum family family);

#endif
