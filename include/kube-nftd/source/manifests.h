/*
 * Objects from a file or a folder of files (*.yaml, *.yml, *.json; not below subfolders, names
 * with a leading dot are left out), followed by inotify.
 *
 * Contents are taken when a writer closes a file or moves one into place, so a change is not read
 * half-written; only at the start, and where all files are compared since events were lost or a
 * ConfigMap was switched, is a file taken as it is, and once more when its writer closes it. A file
 * that does not parse keeps what was loaded from it before. An object that
 * two files hold belongs to the file whose name sorts first; when that one drops it, the next file
 * is read again. Objects that the API server would keep from kube-proxy by its selectors are left
 * out.
 *
 * What is followed is the folder: links in it that are replaced are noticed (so the kubelet
 * switches a ConfigMap), a change elsewhere of what a link points to is not.
 */
#ifndef KUBE_NFTD_SOURCE_MANIFESTS_H
#define KUBE_NFTD_SOURCE_MANIFESTS_H

#include "kube-nftd/base/error.h"
#include "kube-nftd/model/sink.h"

struct ev_loop;
struct manifests;

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

void manifests_free(struct manifests *manifests);

#endif
