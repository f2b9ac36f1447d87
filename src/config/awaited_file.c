/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "kube-nftd/config/awaited_file.h"

#include "kube-nftd/base/alloc.h"

#include <errno.h>
#include <ev.h>
#include <stdlib.h>
#include <sys/stat.h>

#define SECONDS_BETWEEN_LOOKS 1.0

struct awaited_file {
    struct ev_loop *loop;
    const char *path;
    void (*complete)(void *ctx);
    void *ctx;
    struct stat seen; /* st_size 0: nothing yet */
    ev_timer timer;
};

bool awaited_file_is_missing(const char *path)
{
    struct stat status;
    return stat(path, &status) < 0 && errno == ENOENT;
}

static bool is_same(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino && a->st_size == b->st_size &&
           a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

static void on_timer(struct ev_loop *loop, ev_timer *timer, int events)
{
    struct awaited_file *file = timer->data;
    struct stat status;
    (void)events;
    if (stat(file->path, &status) < 0)
        status = (struct stat){.st_size = 0};
    bool complete = status.st_size > 0 && is_same(&status, &file->seen);
    file->seen = status;
    if (complete) {
        ev_timer_stop(loop, timer);
        file->complete(file->ctx);
    }
}

struct awaited_file *awaited_file_new(struct ev_loop *loop, const char *path,
                                      void (*complete)(void *ctx), void *ctx)
{
    struct awaited_file *file = xcalloc(1, sizeof(*file));
    *file = (struct awaited_file){.loop = loop, .path = path, .complete = complete, .ctx = ctx};
    ev_timer_init(&file->timer, on_timer, SECONDS_BETWEEN_LOOKS, SECONDS_BETWEEN_LOOKS);
    file->timer.data = file;
    ev_timer_start(loop, &file->timer);
    return file;
}

void awaited_file_free(struct awaited_file *file)
{
    if (!file)
        return;
    ev_timer_stop(file->loop, &file->timer);
    free(file);
}
