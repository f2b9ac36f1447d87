/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Objects from a file or a folder of files (*.yaml, *.yml, *.json; not below subfolders, names
 * with a leading dot are left out), followed by inotify.
 *
 * Contents are taken when a writer closes a file or moves one into place, so a change is not read
 * half-written; only at the start, and where all files are compared since names are not enough, is
 * a file taken as it is, and once more when its writer closes it. A file that does not parse, or
 * that looks like the first part of one (manifest_file.h), keeps what was loaded from it before. An
 * object that two files hold belongs to the file whose name sorts first; when that one drops it,
 * the next file is read again. Objects that the API server would keep from kube-proxy by its
 * selectors are left out.
 *
 * Links are followed, those in the way to @path too: what they lead to may be rewritten, replaced
 * or missing for a while, and they may be switched (as the kubelet does with a ConfigMap). The
 * folder may be replaced as a whole. While the folder, or what a link leads to, is away, what was
 * loaded is kept. One that was made anew is compared with it when nothing has changed in it for two
 * seconds, since it may be filled file by file. What is not noticed: another folder in the place of
 * one that holds the folder of the files, two levels or more above it.
 */
#ifndef KUBE_NFTD_SOURCE_MANIFESTS_H
#define KUBE_NFTD_SOURCE_MANIFESTS_H

#include "kube-nftd/base/error.h"
#include "kube-nftd/model/sink.h"

struct ev_loop;
struct manifests;

/** Whether @path is a folder or a file that can be read. -1 with an error if not. */
int manifests_check(const char *path, struct error *err);

/**
 * Reads @path once and hands everything to @sink: one replace for each kind.
 * A folder with an unreadable file is loaded without it (said in the log) unless @strict, which
 * --dump-rules wants. A @path that is not there, or a single file that does not parse, is an error.
 * Returns NULL on error.
 */
struct manifests *manifests_open(const char *path, const struct object_sink *sink, bool strict,
                                 struct error *err);

/** Follows the files from now on, on @loop: changes arrive as put and remove. */
int manifests_follow(struct manifests *manifests, struct ev_loop *loop, struct error *err);

/** Compares all files that are followed with what was read of them, without waiting to be told; a
 * folder that was unmounted is followed again. */
int manifests_look_again(struct manifests *manifests, struct error *err);

void manifests_free(struct manifests *manifests);

#endif
