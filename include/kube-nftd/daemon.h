/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The commands that need the loop: the daemon itself and --dump-rules. */
#ifndef KUBE_NFTD_DAEMON_H
#define KUBE_NFTD_DAEMON_H

#include "kube-nftd/base/error.h"
#include "kube-nftd/config/options.h"

/** Runs until SIGTERM or SIGINT; the tables stay. -1 if it could not start. */
int daemon_run(const struct options *options, struct error *err);

/** Takes the objects once and prints the tables on stdout. */
int daemon_dump_rules(const struct options *options, struct error *err);

#endif
