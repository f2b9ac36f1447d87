/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Shapes: the chains that a table grows by, each made from a template when a class, number of
 * backends or affinity timeout appears for the first time, or source ranges or affinity at all.
 */
#ifndef KUBE_NFTD_RULESET_SHAPES_H
#define KUBE_NFTD_RULESET_SHAPES_H

#include "kube-nftd/base/hash.h"
#include "kube-nftd/base/vec.h"
#include "kube-nftd/ruleset/template.h"

#include <stdbool.h>
#include <stdint.h>

/* The classes of a service value, as base.nft says them; CLASS_AFFINE is added to others. */
enum service_class {
    CLASS_PLAIN = 0,
    CLASS_MASQUERADE = 1,
    CLASS_EXTERNAL_LOCAL = 2,
    CLASS_LOCAL = 3,
    CLASS_CLUSTER = 4,
    CLASS_CLUSTER_LOCAL = 5,
    CLASS_AFFINE = 8
};

/* A template, and the classid that it is made for: class:count, or a timeout in seconds; 0 for a
 * template that a table has once at most. */
struct shape {
    enum template_id template;
    uint32_t key;
};

typedef VEC(struct shape) shape_vec;

struct shape_entry;

/* A set of shapes. Starts zeroed. */
struct shapes {
    struct shape_entry *entries;
};

/** The service value of a class and a number of backends. */
uint32_t service_value(unsigned class_id, size_t n);

/** The shape behind a service value; false for one that the table's fixed part has, or that is none
 * of ours. */
bool shape_of_service(uint32_t value, struct shape *shape);

/** The shape behind an affinity timeout in seconds. */
struct shape shape_of_timeout(uint32_t seconds);

/** The shape that the first frontend with source ranges needs. */
struct shape shape_of_source_ranges(void);

/** The shape that a chain in the kernel tells of, by its name. False for those of the table's fixed
 * part and all others. */
bool shape_of_chain(const char *chain, struct shape *shape);

/** Whether a shape builds on another one, and on which. */
bool shape_needs(struct shape shape, struct shape *other);

bool shapes_have(const struct shapes *shapes, struct shape shape);
/** False if it is there already. */
bool shapes_add(struct shapes *shapes, struct shape shape);
/** Adds all that @from has. */
void shapes_copy(struct shapes *to, const struct shapes *from);
void shapes_clear(struct shapes *shapes);

/** Puts all of them into @out, each after those that it builds on. */
void shapes_list(const struct shapes *shapes, shape_vec *out);

/** Sorts shapes so that each is after those that it builds on. */
void shapes_sort(shape_vec *shapes);

#endif
