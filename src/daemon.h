/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The daemon: all modules on one event loop. */
#ifndef KUBE_NFTD_DAEMON_H
#define KUBE_NFTD_DAEMON_H

#include "kube-nftd/config.h"
#include "kube-nftd/host.h"

/** Runs until SIGTERM or SIGINT; the tables stay active. Notifies @manager. -1 with an error if
 * startup fails or the configuration file was edited. */
int daemon_run(const struct options *options, const struct service_manager *manager,
               struct error *err);

#endif
