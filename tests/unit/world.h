/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A world of objects that change by chance, the same in every run: what there is of each, and how
 * that reaches a sink.
 */
#ifndef KUBE_NFTD_TESTS_WORLD_H
#define KUBE_NFTD_TESTS_WORLD_H

#include "history.h"
#include "objects.h"

#define N_SLICES 8

/* Histories with big Services have slices of many endpoints that are mostly alike, and cluster IPs
 * that are theirs alone. */
extern bool big;

/* ---- what there is ---- */

#define NODE "here"

/* What an object is made of. */
struct world_object {
    bool there;
    uint64_t chance;   /* of Services and slices */
    const char *words; /* of ServiceCIDRs and the Node */
};

extern struct world_object world[KIND_COUNT][N_SLICES];

/* Where changes go. */
extern const struct object_sink *world_sink;

/* There is nothing. */
void forget_world(void);

/* How many there may be. */
unsigned count_of(enum object_kind kind);

/* Passes on all there is of a kind. */
void list_kind(enum object_kind kind);

/* Changes what there is, and passes nothing on. */
void change_object(enum object_kind kind, unsigned number);
void forget_object(enum object_kind kind, unsigned number);

/* By chance: slices and Services more often than others. */
enum object_kind any_kind(void);

/* Removes, changes or lists something: @what is below 40, and nothing happens if it is 1. */
void change_world(enum object_kind kind, unsigned number, unsigned what);

#endif
