/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Notices that the configuration file was edited, by inotify. As with kube-proxy
 * (docs/behaviour.md 8.1) that is writing into it and renaming it away; a file that takes its
 * place, as a ConfigMap's update brings, is not noticed: whoever replaces it so restarts the daemon
 * when it likes.
 *
 * And waits for a file that another program has yet to write, as a kubelet that just joins its
 * cluster writes its kubeconfig. A look a second; the file counts as complete when it is not empty
 * and two looks in a row found the same.
 */
#ifndef KUBE_NFTD_CONFIG_FILE_WATCH_H
#define KUBE_NFTD_CONFIG_FILE_WATCH_H

#include "kube-nftd/base/error.h"

#include <stdbool.h>

struct awaited_file;
struct config_watch;
struct ev_loop;

/** Calls @edited, with what was done to the file ("written to", "renamed away"), from the loop. */
struct config_watch *config_watch_new(struct ev_loop *loop, const char *path,
                                      void (*edited)(void *ctx, const char *how), void *ctx,
                                      struct error *err);

/** NULL is fine. */
void config_watch_free(struct config_watch *watch);

/** Whether there is no file at @path; one that cannot be reached for another reason is there. */
bool awaited_file_is_missing(const char *path);

/** Calls @complete, once, from the loop. @path is borrowed. */
struct awaited_file *awaited_file_new(struct ev_loop *loop, const char *path,
                                      void (*complete)(void *ctx), void *ctx);

/** NULL is fine. */
void awaited_file_free(struct awaited_file *file);

#endif
