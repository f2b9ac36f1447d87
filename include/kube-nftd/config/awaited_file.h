/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Waits for a file that another program has yet to write, as a kubelet that just joins its cluster
 * writes its kubeconfig. A look a second; the file counts as complete when it is not empty and two
 * looks in a row found the same.
 */
#ifndef KUBE_NFTD_CONFIG_AWAITED_FILE_H
#define KUBE_NFTD_CONFIG_AWAITED_FILE_H

#include <stdbool.h>

struct awaited_file;
struct ev_loop;

/** Whether there is no file at @path; one that cannot be reached for another reason is there. */
bool awaited_file_is_missing(const char *path);

/** Calls @complete, once, from the loop. @path is borrowed. */
struct awaited_file *awaited_file_new(struct ev_loop *loop, const char *path,
                                      void (*complete)(void *ctx), void *ctx);

/** NULL is fine. */
void awaited_file_free(struct awaited_file *file);

#endif
