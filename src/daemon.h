/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the binary does with all rooms together: the daemon, on one loop (daemon.c), and what it
 * does without programming anything (offline.c). */
#ifndef KUBE_NFTD_DAEMON_H
#define KUBE_NFTD_DAEMON_H

#include "kube-nftd/base.h"
#include "kube-nftd/config.h"
#include "kube-nftd/host.h"
#include "kube-nftd/serve.h"

/** Runs until SIGTERM or SIGINT; the tables stay. @manager is told. -1 if it could not start, or if
 * it ended because its configuration file was edited. */
int daemon_run(const struct options *options, struct service_manager *manager, struct error *err);

/** Takes the objects once and prints the tables on stdout. */
int offline_dump_rules(const struct options *options, struct error *err);

/** Takes the objects of --manifests once, and answers @query by @answer. A command_compute_fn. */
cJSON *offline_compute(const struct options *options, explain_answer_fn answer, const void *query,
                       struct error *err);

/** Does what takes more privilege than the daemon's own work, and touches no table: sets
 * conntrack's limits and time-outs, looks at what the kernel has. -1 if no family can be proxied.
 */
int offline_init(const struct options *options, struct error *err);

/** Prints what this kernel can do on stdout. -1 if no family can be proxied. */
int offline_preflight(struct error *err);

#endif
