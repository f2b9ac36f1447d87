/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "kube-nftd/base.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

/* st_size may change, and is 0 in /proc, so reads up to @limit bytes and one more. */
static int read_plain(int fd, size_t limit, char **text, struct error *err)
{
    struct stat status;
    size_t length = 0;
    ssize_t n;
    if (fstat(fd, &status) < 0 || !S_ISREG(status.st_mode))
        return error_set(err, "is not a plain file");
    *text = xreallocarray(NULL, limit + 2, 1);
    while ((n = read(fd, *text + length, limit + 1 - length)) != 0) {
        if (n < 0 && errno != EINTR)
            return error_set(err, "%s", strerror(errno));
        length += n > 0 ? (size_t)n : 0;
    }
    if (length > limit)
        return error_set(err, "is larger than %zu bytes", limit);
    (*text)[length] = '\0';
    *text = xreallocarray(*text, length + 1, 1);
    return strlen(*text) == length ? 0 : error_set(err, "is not text");
}

char *file_read(const char *path, size_t limit, struct error *err)
{
    /* O_NONBLOCK: a FIFO must not stop the daemon. */
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    char *text = NULL;
    if (fd < 0) {
        error_set(err, "%s", strerror(errno));
        return NULL;
    }
    if (read_plain(fd, limit, &text, err)) {
        free(text);
        text = NULL;
    }
    close(fd);
    return text;
}

bool file_is_same(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino && a->st_size == b->st_size &&
           a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec &&
           a->st_ctim.tv_sec == b->st_ctim.tv_sec && a->st_ctim.tv_nsec == b->st_ctim.tv_nsec;
}
