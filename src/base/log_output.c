/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "kube-nftd/base/log_output.h"

#include "kube-nftd/base/alloc.h"

#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int output = STDERR_FILENO;
static bool is_journal;
static bool cut; /* the last line has no end */

/* Whether JOURNAL_STREAM, which children inherit, is about this one. */
static bool is_journal_stream(const struct stat *status)
{
    const char *stream = getenv("JOURNAL_STREAM");
    char *own = xasprintf("%llu:%llu", (unsigned long long)status->st_dev,
                          (unsigned long long)status->st_ino);
    bool same = stream && strcmp(stream, own) == 0;
    free(own);
    return same;
}

void log_output_open(void)
{
    struct stat status;
    bool is_there = fstat(STDERR_FILENO, &status) == 0;
    output = is_there ? STDERR_FILENO : -1; /* the number will be something else's */
    cut = false;
    if (!is_there)
        return;
    is_journal = is_journal_stream(&status);
    if (!S_ISFIFO(status.st_mode) && !S_ISCHR(status.st_mode))
        return;
    int own = open("/proc/self/fd/2", O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (own >= 0)
        output = own;
}

bool log_output_is_journal(void)
{
    return is_journal;
}

/* Returns how many bytes were taken. */
static size_t write_some(const char *bytes, size_t length)
{
    struct pollfd room = {.fd = output, .events = POLLOUT};
    if (poll(&room, 1, 0) != 1 || !(room.revents & POLLOUT))
        return 0;
    ssize_t n = write(output, bytes, length < PIPE_BUF ? length : PIPE_BUF);
    return n > 0 ? (size_t)n : 0;
}

bool log_output_write(const char *line)
{
    char *text = xasprintf("%s%s\n", cut ? "\n" : "", line);
    size_t length = strlen(text), done = 0, n;
    while (done < length && (n = write_some(text + done, length - done)) > 0)
        done += n;
    free(text);
    if (done > 0)
        cut = done < length;
    return done + 1 >= length; /* the next line brings the end */
}
