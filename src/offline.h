/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Modes that program no table. */
#ifndef KUBE_NFTD_OFFLINE_H
#define KUBE_NFTD_OFFLINE_H

#include "kube-nftd/base.h"
#include "kube-nftd/config.h"
#include "kube-nftd/serve.h"

/** Reads all objects once and prints the resulting tables to stdout. */
int offline_dump_rules(const struct options *options, struct error *err);

/** Reads the objects of --manifests once and answers @query with @answer. A command_compute_fn. */
cJSON *offline_compute(const struct options *options, answer_fn answer, const void *query,
                       struct error *err);

/** --init-only: the steps that need more privileges than the daemon. Sets the conntrack sysctls and
 * checks the kernel. -1 if no family can be proxied. */
int offline_init(const struct options *options, struct error *err);

/** Prints the features of this kernel to stdout. -1 if no family can be proxied. */
int offline_preflight(struct error *err);

#endif
