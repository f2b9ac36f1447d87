/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "kube-nftd/base.h"
#include "kube-nftd/host.h"

#include <errno.h>
#include <string.h>
#include <sys/inotify.h>
#include <unistd.h>

int edits_open(const char *path, struct error *err)
{
    int fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    if (fd >= 0 && inotify_add_watch(fd, path, IN_MODIFY | IN_MOVE_SELF) >= 0)
        return fd;
    error_set(err, "cannot watch %s: %s", path, strerror(errno));
    if (fd >= 0)
        close(fd);
    return -1;
}

const char *edits_read(int fd)
{
    struct inotify_event events[16]; /* those of a file carry no name */
    uint32_t mask = 0;
    ssize_t n;
    while ((n = read(fd, events, sizeof(events))) > 0)
        for (size_t i = 0; i < (size_t)n / sizeof(*events); i++)
            mask |= events[i].mask;
    return mask & IN_MODIFY ? "written to" : mask & IN_MOVE_SELF ? "renamed away" : NULL;
}

bool file_is_complete(const char *path, struct stat *seen)
{
    struct stat status;
    if (stat(path, &status) < 0)
        status = (struct stat){.st_size = 0};
    bool complete = status.st_size > 0 && file_is_same(&status, seen);
    *seen = status;
    return complete;
}
