/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The commands that query the running daemon, or compute from --manifests, and print the answer. */
#ifndef KUBE_NFTD_CLIENT_H
#define KUBE_NFTD_CLIENT_H

#include "kube-nftd/base.h"
#include "kube-nftd/config.h"
#include "kube-nftd/serve.h"

/** Whether @command is one of them. */
bool command_asks(enum command command);

/* Answers @query with @answer from the objects in --manifests; owned by the caller. NULL with an
 * error. */
typedef cJSON *(*command_compute_fn)(const struct options *options, answer_fn answer,
                                     const void *query, struct error *err);

/** Runs options->command, with @compute if --manifests is given. Returns the exit status of
 * kube-nftd(8), or -1 with an error. */
int command_run(const struct options *options, command_compute_fn compute, struct error *err);

/** Prints the features of a family and the kernel's answers, then what follows of those it lacks.
 */
void preflight_print(const struct preflight *preflight, const struct view_style *style, FILE *out);

#endif
