/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The commands that ask the running daemon, or compute from --manifests, and print the answer. */
#ifndef KUBE_NFTD_CLIENT_COMMANDS_H
#define KUBE_NFTD_CLIENT_COMMANDS_H

#include "kube-nftd/base/error.h"
#include "kube-nftd/config/options.h"

/* Exit statuses of explain, documented in kube-nftd(8). */
enum explain_status {
    EXPLAIN_AGREES = 0,  /* or the kernel was not asked */
    EXPLAIN_FAILED = 1,  /* with an error */
    EXPLAIN_UNKNOWN = 2, /* no Service has it */
    EXPLAIN_DIFFERS = 3, /* the kernel does not hold what it should */
};

/* Of status. */
enum well_status { WELL = 0, NOT_WELL = 1, NOT_REACHABLE = 2 };

/** Whether @command is one of these. */
bool command_asks(enum command command);

/** Carries out options->command. Its exit status, or -1 with an error. */
int command_run(const struct options *options, struct error *err);

#endif
