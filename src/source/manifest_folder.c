/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "manifest_folder.h"

#include <errno.h>
#include <string.h>
#include <sys/inotify.h>
#include <unistd.h>

/* Seconds between two polls. */
#define POLL_INTERVAL 1.0
/* A replaced folder is complete after this many quiet seconds. */
#define FILLING_TIME 2.0

#define EVENT_BUFFER_SIZE ((size_t)64 * 1024)
#define WATCHED_EVENTS                                                                             \
    (IN_CLOSE_WRITE | IN_MOVED_TO | IN_MOVED_FROM | IN_CREATE | IN_DELETE | IN_DELETE_SELF |       \
     IN_MOVE_SELF | IN_ONLYDIR)

/* ---- the folder itself ---- */

bool folder_is_watched(const struct manifest_folder *f)
{
    struct stat status;
    return f->wd >= 0 && stat(f->path, &status) == 0 && status.st_dev == f->status.st_dev &&
           status.st_ino == f->status.st_ino;
}

static bool watch_folder(struct manifest_folder *f)
{
    f->wd = -1;
    if (stat(f->path, &f->status) == 0)
        f->wd = inotify_add_watch(f->events.fd, f->path, WATCHED_EVENTS);
    return f->wd >= 0;
}

/* The only place that changes the state. */
static void enter(struct manifest_folder *f, enum folder_state state)
{
    if (state == FOLDER_GONE && f->state != FOLDER_GONE)
        log_error("source", "%s: the folder is gone (%s); its objects stay active until it is back",
                  f->path, strerror(errno));
    if (state == FOLDER_FILLING) {
        log_info("source", "the folder was replaced, comparing it once it is quiet folder=%s",
                 f->path);
        f->quiet_since = ev_now(f->loop);
    }
    f->state = state;
}

void folder_find(struct manifest_folder *f)
{
    if (folder_is_watched(f))
        return;
    if (f->wd >= 0)
        inotify_rm_watch(f->events.fd, f->wd);
    manifest_files_mark(f->files, false); /* what is marked is gone */
    enter(f, watch_folder(f) ? FOLDER_FILLING : FOLDER_GONE);
}

void folder_filled(struct manifest_folder *f)
{
    enter(f, FOLDER_WATCHED);
}

static void on_poll(struct ev_loop *loop, ev_timer *timer, int revents)
{
    struct manifest_folder *f = timer->data;
    (void)revents;
    folder_find(f);
    const bool filled = f->state == FOLDER_FILLING && ev_now(loop) - f->quiet_since >= FILLING_TIME;
    f->turn(f->ctx, filled ? NEWS_ALL : NEWS_POLL);
}

/* ---- events ---- */

/* Handles an event for @name. Returns whether links may point there. */
static bool take_name(struct manifest_folder *f, const char *name, uint32_t mask)
{
    char *path = xasprintf("%s/%s", f->path, name);
    struct stat status;
    bool exists = lstat(path, &status) == 0;
    /* Not complete, or not the file that went: its writer will close it. */
    bool being_written = exists && S_ISREG(status.st_mode) && status.st_nlink == 1;
    free(path);
    f->quiet_since = ev_now(f->loop);
    if (mask & IN_CREATE && being_written)
        return false;
    if (!manifest_files_follow(f->files, name))
        return true;
    if (!(mask & IN_ISDIR) && !(mask & (IN_MOVED_FROM | IN_DELETE) && exists))
        manifest_files_get(f->files, name)->changed = true;
    return false;
}

static enum folder_news take_event(struct manifest_folder *f, const struct inotify_event *event)
{
    enum folder_news news = event->mask & IN_Q_OVERFLOW ? NEWS_ALL : NEWS_NAMES;
    if (event->wd != f->wd) /* of a folder no longer watched */
        return news;
    if (event->len > 0 && take_name(f, event->name, event->mask) && news == NEWS_NAMES)
        news = NEWS_LINKS;
    if (event->mask & IN_IGNORED)
        f->wd = -1; /* removed by the kernel */
    if (event->mask & (IN_DELETE_SELF | IN_MOVE_SELF | IN_UNMOUNT | IN_IGNORED))
        folder_find(f);
    return news;
}

static void on_events(struct ev_loop *loop, ev_io *io, int revents)
{
    struct manifest_folder *f = io->data;
    char *buffer = xcalloc(EVENT_BUFFER_SIZE, 1);
    enum folder_news news = NEWS_NAMES;
    (void)loop;
    (void)revents;
    ssize_t n = read(io->fd, buffer, EVENT_BUFFER_SIZE);
    if (n < 0 && errno != EAGAIN && errno != EINTR)
        log_error("source", "%s: cannot read events: %s", f->path, strerror(errno));
    for (const char *p = buffer; n > 0 && p < buffer + n;) {
        const struct inotify_event *event = (const struct inotify_event *)(const void *)p;
        p += sizeof(*event) + event->len;
        const enum folder_news of_event = take_event(f, event);
        news = of_event > news ? of_event : news;
    }
    free(buffer);
    if (news == NEWS_ALL && f->state == FOLDER_FILLING)
        news = NEWS_NAMES; /* it is compared once it is quiet */
    f->turn(f->ctx, news);
}

/* ---- begin and end ---- */

int folder_follow(struct manifest_folder *f, struct ev_loop *loop, struct error *err)
{
    int fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    ev_io_init(&f->events, on_events, fd, EV_READ);
    if (fd < 0 || !watch_folder(f)) {
        error_set(err, "cannot follow %s: %s", f->path, strerror(errno));
        if (fd >= 0)
            close(fd);
        return -1;
    }
    f->loop = loop;
    ev_timer_init(&f->poll, on_poll, POLL_INTERVAL, POLL_INTERVAL);
    f->events.data = f->poll.data = f;
    ev_io_start(loop, &f->events);
    ev_timer_start(loop, &f->poll);
    return 0;
}

void folder_clear(struct manifest_folder *f)
{
    if (f->loop) {
        ev_timer_stop(f->loop, &f->poll);
        ev_io_stop(f->loop, &f->events);
        close(f->events.fd);
    }
    free(f->path);
}
