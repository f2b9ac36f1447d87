/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The commands that ask the running daemon, or compute from --manifests, and print the answer. */
#ifndef KUBE_NFTD_CLIENT_H
#define KUBE_NFTD_CLIENT_H

#include "kube-nftd/base.h"
#include "kube-nftd/config.h"
#include "kube-nftd/serve.h"

/** Whether @command is one of these. */
bool command_asks(enum command command);

/* Answers @query by @answer from objects in --manifests. The caller deletes it; NULL with an error.
 */
typedef cJSON *(*command_compute_fn)(const struct options *options, explain_answer_fn answer,
                                     const void *query, struct error *err);

/** Carries out options->command, by @compute if there is no daemon to ask. Its exit status, as in
 * kube-nftd(8), or -1 with an error. */
int command_run(const struct options *options, command_compute_fn compute, struct error *err);

#endif
