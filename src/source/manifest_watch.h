/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * An inotify watch of one folder that holds on to it by its path: it notices files by name, and
 * beside that every change of what the path of the folder, or a link in it, leads to.
 *
 * What is watched beside the folder is found in rounds: begin, name all links, end. News that say
 * "all" ask for a round.
 */
#ifndef KUBE_NFTD_SOURCE_MANIFEST_WATCH_H
#define KUBE_NFTD_SOURCE_MANIFEST_WATCH_H

#include "kube-nftd/base.h"

#include <stdbool.h>

struct manifest_watch;

/* What has happened. */
struct watch_news {
    bool any;
    bool all;       /* anything may have changed: names are not enough */
    bool made;      /* a folder on the way was made, so it may yet be filled */
    bool unmounted; /* the folder's file system is gone; no more news will come */
};

/* Takes a name in the folder: @gone, or its file is complete: closed, moved into place, or a link.
 * A file that was made and is not closed yet is not told of. */
typedef void (*watch_name_fn)(void *ctx, const char *name, bool gone);

/** Watches @folder. NULL if that is not possible. */
struct manifest_watch *manifest_watch_new(const char *folder, struct error *err);

void manifest_watch_free(struct manifest_watch *watch);

/** Readable when there are news. */
int manifest_watch_fd(const struct manifest_watch *watch);

/** Reads what news there are. */
struct watch_news manifest_watch_read(struct manifest_watch *watch, watch_name_fn name, void *ctx);

enum watch_folder {
    WATCH_FOLDER_SAME, /* as in the round before */
    WATCH_FOLDER_NEW,  /* the path leads to another folder than before, or to one again */
    WATCH_FOLDER_GONE, /* it leads to none; the error says why. Its return will be news. */
};

/** Begins a round: looks up the folder by its path, and watches the way there. */
enum watch_folder manifest_watch_begin(struct manifest_watch *watch, struct error *err);

/**
 * If @path, in the folder, is a link, watches all places that decide what it leads to, down to the
 * file itself, which need not be there. What changes from now on will be news.
 */
void manifest_watch_link(struct manifest_watch *watch, const char *path);

/** Ends a round: what was not named in it is watched no more. */
void manifest_watch_end(struct manifest_watch *watch);

/** Whether the folder's path still leads to the folder that is watched. */
bool manifest_watch_holds(const struct manifest_watch *watch);

#endif
