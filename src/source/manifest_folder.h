/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Follows a folder: which names in it may have changed, and when to compare what.
 *
 * inotify reports names once a file is complete: closed, moved into place, or a link. Everything
 * else is polled every second: the targets of links, and whether the folder's path still leads to
 * the same folder. An event only says that a file may have changed; its current state decides. One
 * exception: a file that was deleted or moved away and exists again is not reported, because its
 * writer will close it. Events are collected and reported together, since an object may move from
 * one file to another.
 */
#ifndef KUBE_NFTD_SOURCE_MANIFEST_FOLDER_H
#define KUBE_NFTD_SOURCE_MANIFEST_FOLDER_H

#include "kube-nftd/base.h"
#include "manifest_files.h"

#include <ev.h>
#include <sys/stat.h>

enum folder_state {
    FOLDER_WATCHED,
    FOLDER_FILLING, /* it was replaced, and may be incomplete until it is quiet */
    FOLDER_GONE     /* which was logged */
};

/* What to compare with what was read. */
enum folder_news {
    NEWS_NAMES, /* what was named alone */
    NEWS_POLL,  /* targets of links, too: a change counts when two polls agree */
    NEWS_LINKS, /* those, at once */
    NEWS_ALL
};

/* Starts with what comes before the loop, else zeroed. */
struct manifest_folder {
    char *path;
    struct manifest_files *files; /* borrowed; those that may have changed are marked */
    /* Ends each group of names, and each poll. */
    void (*turn)(void *ctx, enum folder_news news);
    void *ctx;
    struct ev_loop *loop; /* NULL: not followed */
    ev_io events;         /* of inotify */
    ev_timer poll;
    int wd;             /* -1: none */
    struct stat status; /* of the watched folder */
    enum folder_state state;
    double quiet_since; /* time of its last event */
};

/** Follows the folder on @loop. -1 if it cannot be. */
int folder_follow(struct manifest_folder *folder, struct ev_loop *loop, struct error *err);

/** Looks the folder up by its path, and watches it. */
void folder_find(struct manifest_folder *folder);

/** Whether the path still leads to the folder that is watched. */
bool folder_is_watched(const struct manifest_folder *folder);

/** It is complete. */
void folder_filled(struct manifest_folder *folder);

/** Ends all that, and frees the path. */
void folder_clear(struct manifest_folder *folder);

#endif
