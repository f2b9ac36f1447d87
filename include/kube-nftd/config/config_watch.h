/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Notices that the configuration file was edited, by inotify. As with kube-proxy
 * (docs/behaviour.md 8.1) that is writing into it and renaming it away; a file that takes its
 * place, as a ConfigMap's update brings, is not noticed: whoever replaces it so restarts the daemon
 * when it likes.
 */
#ifndef KUBE_NFTD_CONFIG_CONFIG_WATCH_H
#define KUBE_NFTD_CONFIG_CONFIG_WATCH_H

#include "kube-nftd/base/error.h"

struct config_watch;
struct ev_loop;

/** Calls @edited, with what was done to the file ("written to", "renamed away"), from the loop. */
struct config_watch *config_watch_new(struct ev_loop *loop, const char *path,
                                      void (*edited)(void *ctx, const char *how), void *ctx,
                                      struct error *err);

/** NULL is fine. */
void config_watch_free(struct config_watch *watch);

#endif
