/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The chains that values in the table lead to: instances of templates (instances.h), which are
 * added when a value first needs them and deleted some seconds after their last use.
 */
#ifndef KUBE_NFTD_TABLE_CHAINS_H
#define KUBE_NFTD_TABLE_CHAINS_H

#include "element.h"
#include "instances.h"

struct ruleset;

/* An instance whose messages are in the batch. */
struct new_instance {
    struct instance instance;
    size_t end; /* end of its messages */
};

/** The chain instance that a value in @set leads to; false if the chains are in the fixed part. */
bool set_instance(enum table_set set, uint32_t number, struct instance *instance);

/** The instances that desired values need and the table lacks, each after those it builds on. The
 * caller frees the array in @out. */
void ruleset_new_instances(const struct ruleset *rs, instance_vec *out);

/** Adds the template of @instance to @layout, with this table's variables; the second, the fixed
 * part of the table and then the instances. */
void ruleset_add_template(const struct ruleset *rs, struct instance instance,
                          struct layout *layout);
void ruleset_add_templates(const struct ruleset *rs, const instance_vec *instances,
                           struct layout *layout);

/** Deletes unused chains, when due. A failure is harmless: the chains stay. */
void ruleset_collect(struct ruleset *rs, struct nft_socket *socket, double now);

#endif
