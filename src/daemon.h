/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The daemon: all modules on one event loop. */
#ifndef KUBE_NFTD_DAEMON_H
#define KUBE_NFTD_DAEMON_H

#include "kube-nftd/config.h"
#include "kube-nftd/host.h"

#include <sys/stat.h>

/** Runs until SIGTERM or SIGINT; the tables stay active. Notifies @manager. -1 with an error if
 * startup fails or the configuration file was edited. */
int daemon_run(const struct options *options, const struct service_manager *manager,
               struct error *err);

/**
 * Watches the configuration file @path; returns a descriptor that is readable after events, -1 with
 * an error. As in kube-proxy (docs/behaviour.md 8.1), a replacement at the same path, such as a
 * ConfigMap update, is not noticed: whoever replaces the file restarts the daemon.
 */
int edits_open(const char *path, struct error *err);

/** Reads all events; how the file was edited, "written to" or "renamed away", or NULL. */
const char *edits_read(int fd);

/** Whether the file @path is not empty and did not change since the last call, which left its
 * status in @seen (zeroed at first): programs write files piece by piece. */
bool file_is_complete(const char *path, struct stat *seen);

#endif
