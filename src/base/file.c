/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "kube-nftd/base.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PIECE ((size_t)64 * 1024)

/* Reads up to @limit bytes and one more, if they are there. -1 with errno. */
static ssize_t read_all(int fd, char **text, size_t limit)
{
    size_t length = 0;
    for (;;) {
        size_t most = limit + 1 - length < PIECE ? limit + 1 - length : PIECE;
        *text = xreallocarray(*text, length + most + 1, 1);
        ssize_t got = read(fd, *text + length, most);
        if (got > 0)
            length += (size_t)got;
        else if (got == 0 || most == 0)
            break;
        else if (errno != EINTR)
            return -1;
    }
    (*text)[length] = '\0';
    return (ssize_t)length;
}

static int read_plain(int fd, size_t limit, char **text, struct error *err)
{
    struct stat st;
    if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
        return error_set(err, "is not a plain file");
    ssize_t length = read_all(fd, text, limit);
    if (length < 0)
        return error_set(err, "%s", strerror(errno));
    if ((size_t)length > limit)
        return error_set(err, "is larger than %zu bytes", limit);
    return strlen(*text) == (size_t)length ? 0 : error_set(err, "is not text");
}

char *file_read(const char *path, size_t limit, struct error *err)
{
    /* O_NONBLOCK: somebody's FIFO must not stop the daemon. */
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    char *text = NULL;
    if (fd < 0) {
        error_set(err, "%s", strerror(errno));
        return NULL;
    }
    int result = read_plain(fd, limit, &text, err);
    close(fd);
    if (result == 0)
        return text;
    free(text);
    return NULL;
}

bool file_is_same(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino && a->st_size == b->st_size &&
           a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec &&
           a->st_ctim.tv_sec == b->st_ctim.tv_sec && a->st_ctim.tv_nsec == b->st_ctim.tv_nsec;
}
