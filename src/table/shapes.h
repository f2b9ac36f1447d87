/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Shapes: the chains that a table grows by, each made from a template when a number of backends or
 * an affinity timeout appears for the first time, or source ranges or affinity at all.
 */
#ifndef KUBE_NFTD_TABLE_SHAPES_H
#define KUBE_NFTD_TABLE_SHAPES_H

#include "kube-nftd/base.h"
#include "template.h"

/* A template, and what it is made for: a number of backends, or a timeout in seconds; 0 for a
 * template that a table has once at most. */
struct shape {
    enum template_id template;
    uint32_t key;
};

typedef VEC(struct shape) shape_vec;

/* Those that a table has, and how often each is used. Starts zeroed. */
struct shapes {
    struct hash_table entries;
    size_t unused; /* how many are there and not used */
};

/** The shape that a chain in the kernel tells of, by its name. False for those of the table's fixed
 * part and all others. */
bool shape_of_chain(const char *chain, struct shape *shape);

/** Whether a shape builds on another one, and on which. */
bool shape_needs(struct shape shape, struct shape *other);

bool shapes_have(const struct shapes *shapes, struct shape shape);
/** False if it is there already. */
bool shapes_add(struct shapes *shapes, struct shape shape);
/** It is not there any more. */
void shapes_drop(struct shapes *shapes, struct shape shape);
void shapes_clear(struct shapes *shapes);

/** Something applied uses the shape once more, or once less, and with it what it builds on. */
void shapes_use(struct shapes *shapes, struct shape shape, bool more);

/** Those that are there are the ones of @found, and no others. */
void shapes_become(struct shapes *shapes, const shape_vec *found);

/** How many are there and not used; and those of them, sorted, that were not used at the last look
 * either. */
size_t shapes_unused(const struct shapes *shapes);
void shapes_look_for_idle(struct shapes *shapes, shape_vec *out);

/** Appends all that are there to @out; all that are used, there or not. */
void shapes_list(const struct shapes *shapes, shape_vec *out);
void shapes_list_used(const struct shapes *shapes, shape_vec *out);

/** Sorts shapes so that each is once in @shapes, after those that it builds on. */
void shapes_sort(shape_vec *shapes);

#endif
