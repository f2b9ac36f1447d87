/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Chain instances of templates: the chains that a table grows by, made when a number of backends or
 * an affinity timeout appears for the first time, or source ranges or affinity at all.
 */
#ifndef KUBE_NFTD_TABLE_INSTANCES_H
#define KUBE_NFTD_TABLE_INSTANCES_H

#include "kube-nftd/base.h"
#include "template.h"

/* A template, and what it is made for: a number of backends, or a timeout in seconds; 0 for a
 * template that a table has once at most. */
struct instance {
    enum template_id template;
    uint32_t key;
};

typedef VEC(struct instance) instance_vec;

/* Those that a table has, and how often each is used. Starts zeroed. */
struct instances {
    struct hash_table entries;
    size_t unused; /* how many are there and not used */
};

/** The instance that a chain in the kernel tells of, by its name. False for those of the table's
 * fixed part and all others. */
bool instance_of_chain(const char *chain, struct instance *instance);

/** Whether an instance builds on another one, and on which. */
bool instance_needs(struct instance instance, struct instance *other);

bool instances_have(const struct instances *instances, struct instance instance);
/** False if it is there already. */
bool instances_add(struct instances *instances, struct instance instance);
/** It is not there any more. */
void instances_drop(struct instances *instances, struct instance instance);
void instances_clear(struct instances *instances);

/** Something applied uses the instance once more, or once less, and with it what it builds on. */
void instances_use(struct instances *instances, struct instance instance, bool more);

/** Those that are there are the ones of @found, and no others. */
void instances_become(struct instances *instances, const instance_vec *found);

/** How many are there and not used; and those of them, sorted, that were not used at the last look
 * either. */
size_t instances_unused(const struct instances *instances);
void instances_look_for_idle(struct instances *instances, instance_vec *out);

/** Appends all that are there to @out; or with @used all that are used, there or not. */
void instances_list(const struct instances *instances, bool used, instance_vec *out);

/** Sorts instances so that each is once in @instances, after those that it builds on. */
void instances_sort(instance_vec *instances);

#endif
