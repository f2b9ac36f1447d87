/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Which files are followed, and which of them differ from what was read of them, by their status. A
 * file that is a link has that of its target.
 */
#ifndef KUBE_NFTD_SOURCE_MANIFEST_FILES_H
#define KUBE_NFTD_SOURCE_MANIFEST_FILES_H

#include "kube-nftd/base.h"
#include "manifest_owners.h"

#include <sys/stat.h>

struct followed_file {
    struct definer definer; /* has its path */
    struct stat status;     /* status when last read; zero: never */
    struct stat polled;     /* status at the last poll */
    bool changed;           /* to be read, or gone */
    bool is_link;
    bool gone;     /* to be freed after processing */
    char *problem; /* why it is not read as it is, as logged; NULL: it is */
    bool unlogged; /* what follows from the problem is not known yet */
};

/* Starts with folder and single, else zeroed. */
struct manifest_files {
    const char *folder; /* its path, borrowed */
    char *single;       /* the path of the only file, owned; NULL: all files of the folder */
    VEC(struct followed_file *) list; /* sorted by path */
};

/** Whether a file of this name is followed. */
bool manifest_files_follow(const struct manifest_files *files, const char *name);

/** The file of that name, which may be new. */
struct followed_file *manifest_files_get(struct manifest_files *files, const char *name);

/** Sets whether all have changed. */
void manifest_files_mark(struct manifest_files *files, bool changed);

/** The last one that has changed; NULL: none has. */
const struct followed_file *manifest_files_last_changed(const struct manifest_files *files);

/** Marks those that changed or are gone, and adds new ones. Returns how many there are, or -1. If
 * there is none and @filling, nothing is marked: an empty folder may be a mount point without its
 * file system. */
int manifest_files_compare(struct manifest_files *files, bool filling, struct error *err);

/** The same for links alone. @patient: a change counts when two polls agree,
 * since a target may be being written. */
void manifest_files_compare_links(struct manifest_files *files, bool patient);

/** Whether @path leads to no file. */
bool leads_nowhere(const char *path);

/** Frees those that are gone, or everything but the folder. */
void manifest_files_drop_gone(struct manifest_files *files);
void manifest_files_clear(struct manifest_files *files);

#endif
