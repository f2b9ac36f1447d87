/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Chain instances of templates: chains added to a table when a number of backends or an affinity
 * timeout first appears, or when source ranges or affinity are first used.
 */
#ifndef KUBE_NFTD_TABLE_INSTANCES_H
#define KUBE_NFTD_TABLE_INSTANCES_H

#include "kube-nftd/base.h"
#include "template.h"

/* A template and its parameter: a number of backends, or a timeout in seconds; 0 for a template
 * with a single instance. */
struct instance {
    enum template_id template;
    uint32_t key;
};

typedef VEC(struct instance) instance_vec;

/* The instances in a table, and their use counts. Starts zeroed. */
struct instances {
    struct hash_table entries;
    size_t unused; /* how many exist without being used, and are not kept */
};

/** The instance that a kernel chain belongs to, by its name. False for chains of the fixed part and
 * unknown ones. */
bool instance_of_chain(const char *chain, struct instance *instance);

/** Likewise the one that an element of a verdict map belongs to, by its key and the chain that it
 * leads to. */
bool instance_of_verdict(uint32_t key, const char *chain, struct instance *instance);

/** Whether an instance builds on another one; @other is that one. */
bool instance_needs(struct instance instance, struct instance *other);

bool instances_have(const struct instances *instances, struct instance instance);
/** False if it exists already. */
bool instances_add(struct instances *instances, struct instance instance);
/** Removes an instance that no longer exists. */
void instances_drop(struct instances *instances, struct instance instance);
void instances_clear(struct instances *instances);

/** An applied element starts or stops using the instance, and with it those it builds on. */
void instances_use(struct instances *instances, struct instance instance, bool more);

/** Sets the existing instances to exactly those of @found. */
void instances_become(struct instances *instances, const instance_vec *found);

/** Returns, sorted, the unused instances that were also unused at the last check, but for those
 * that are kept. */
void instances_look_for_idle(struct instances *instances, instance_vec *out);

/** Appends all existing instances to @out; with @used, all used ones, whether they exist or not. */
void instances_list(const struct instances *instances, bool used, instance_vec *out);

/** Sorts and deduplicates instances, each after those it builds on. */
void instances_sort(instance_vec *instances);

#endif
