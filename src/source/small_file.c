/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "kube-nftd/source/small_file.h"

#include "kube-nftd/base/alloc.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Reads until the end of the file or of @text. -1 with errno set. */
static ssize_t read_all(int fd, char *text, size_t size)
{
    size_t length = 0;
    while (length < size) {
        ssize_t got = read(fd, text + length, size - length);
        if (got == 0)
            break;
        if (got > 0)
            length += (size_t)got;
        else if (errno != EINTR)
            return -1;
    }
    return (ssize_t)length;
}

static char *read_plain_file(int fd, const char *file, size_t limit, struct error *err)
{
    struct stat st;
    if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode)) {
        error_set(err, "cannot read %s: not a plain file", file);
        return NULL;
    }
    char *text = xcalloc(limit + 1, 1);
    ssize_t length = read_all(fd, text, limit + 1);
    if (length < 0)
        error_set(err, "cannot read %s: %s", file, strerror(errno));
    else if ((size_t)length > limit)
        error_set(err, "%s is larger than %zu bytes", file, limit);
    else if (memchr(text, '\0', (size_t)length))
        error_set(err, "%s is not text", file);
    else
        return xreallocarray(text, (size_t)length + 1, 1);
    free(text);
    return NULL;
}

char *small_file_read(const char *file, size_t limit, struct error *err)
{
    /* O_NONBLOCK: somebody's FIFO must not stop the daemon. */
    int fd = open(file, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) {
        error_set(err, "cannot open %s: %s", file, strerror(errno));
        return NULL;
    }
    char *text = read_plain_file(fd, file, limit, err);
    close(fd);
    return text;
}
