/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The daemon: all rooms on one loop. */
#ifndef KUBE_NFTD_DAEMON_H
#define KUBE_NFTD_DAEMON_H

#include "kube-nftd/base/error.h"
#include "kube-nftd/config/options.h"
#include "kube-nftd/host/service_manager.h"

/** Runs until SIGTERM or SIGINT; the tables stay. @manager is told. -1 if it could not start, or if
 * it ended because its configuration file was edited. */
int daemon_run(const struct options *options, struct service_manager *manager, struct error *err);

#endif
