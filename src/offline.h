/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the program does without programming anything. */
#ifndef KUBE_NFTD_OFFLINE_H
#define KUBE_NFTD_OFFLINE_H

#include "kube-nftd/base.h"
#include "kube-nftd/config.h"
#include "kube-nftd/serve.h"

/** Takes the objects once and prints the tables on stdout. */
int offline_dump_rules(const struct options *options, struct error *err);

/** Takes the objects of --manifests once, and answers @query by @answer. A command_compute_fn. */
cJSON *offline_compute(const struct options *options, explain_answer_fn answer, const void *query,
                       struct error *err);

/** Does what takes more privileges than the daemon's own work, and touches no table: sets
 * conntrack's limits and time-outs, looks at what the kernel has. -1 if no family can be proxied.
 */
int offline_init(const struct options *options, struct error *err);

/** Prints what this kernel can do on stdout. -1 if no family can be proxied. */
int offline_preflight(struct error *err);

#endif
