/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "kube-nftd/config.h"

#include "kube-nftd/base.h"

#include <errno.h>
#include <ev.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- waiting for a file ---- */

#define SECONDS_BETWEEN_LOOKS 1.0

struct awaited_file {
    struct ev_loop *loop;
    const char *path;
    void (*complete)(void *ctx);
    void *ctx;
    struct stat seen; /* st_size 0: not seen yet */
    ev_timer timer;
};

bool awaited_file_is_missing(const char *path)
{
    struct stat status;
    return stat(path, &status) < 0 && errno == ENOENT;
}

static void on_timer(struct ev_loop *loop, ev_timer *timer, int events)
{
    struct awaited_file *file = timer->data;
    struct stat status;
    (void)events;
    if (stat(file->path, &status) < 0)
        status = (struct stat){.st_size = 0};
    bool complete = status.st_size > 0 && file_is_same(&status, &file->seen);
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

/* ---- the configuration file ---- */

struct config_watch {
    struct ev_loop *loop;
    ev_io io;
    void (*edited)(void *ctx, const char *how);
    void *ctx;
};

/* Reads all pending events into one mask. Events of a file carry no name. */
static uint32_t read_events(int fd)
{
    struct inotify_event events[16];
    uint32_t mask = 0;
    ssize_t n;
    while ((n = read(fd, events, sizeof(events))) > 0)
        for (size_t i = 0; i < (size_t)n / sizeof(*events); i++)
            mask |= events[i].mask;
    return mask;
}

static void on_event(struct ev_loop *loop, ev_io *io, int events)
{
    struct config_watch *watch = io->data;
    (void)loop;
    (void)events;
    uint32_t mask = read_events(io->fd);
    if (mask & IN_MODIFY)
        watch->edited(watch->ctx, "written to");
    else if (mask & IN_MOVE_SELF)
        watch->edited(watch->ctx, "renamed away");
}

struct config_watch *config_watch_new(struct ev_loop *loop, const char *path,
                                      void (*edited)(void *ctx, const char *how), void *ctx,
                                      struct error *err)
{
    int fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    if (fd < 0 || inotify_add_watch(fd, path, IN_MODIFY | IN_MOVE_SELF) < 0) {
        error_set(err, "cannot watch %s: %s", path, strerror(errno));
        if (fd >= 0)
            close(fd);
        return NULL;
    }
    struct config_watch *watch = xcalloc(1, sizeof(*watch));
    *watch = (struct config_watch){.loop = loop, .edited = edited, .ctx = ctx};
    ev_io_init(&watch->io, on_event, fd, EV_READ);
    watch->io.data = watch;
    ev_io_start(loop, &watch->io);
    return watch;
}

void config_watch_free(struct config_watch *watch)
{
    if (!watch)
        return;
    ev_io_stop(watch->loop, &watch->io);
    close(watch->io.fd);
    free(watch);
}
