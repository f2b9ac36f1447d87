/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A name on a way matters where it is a link, where it is missing and where it is the last: it is a
 * spot, and the folder that has it is watched. So there is no need to watch all folders up to the
 * root. What is not noticed: a folder further up that is renamed as a whole, since nothing happens
 * then in any folder that is watched.
 */
#include "manifest_watch.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#define EVENT_BUFFER_SIZE ((size_t)64 * 1024)

#define WATCHED_EVENTS                                                                             \
    (IN_CLOSE_WRITE | IN_MOVED_TO | IN_MOVED_FROM | IN_CREATE | IN_DELETE | IN_DELETE_SELF |       \
     IN_MOVE_SELF | IN_ONLYDIR)

struct spot {
    int wd; /* of the folder that has it */
    char *path;
    const char *name; /* the last part of the path; "" for the folder of the files itself */
};

typedef VEC(struct spot) spot_vec;

struct manifest_watch {
    char *folder;
    int fd;
    int wd;           /* of the folder; -1 while there is none */
    struct stat seen; /* the folder */
    spot_vec spots;   /* that were named since the present round began */
    spot_vec before;  /* in a round: those of the one before */
    bool refused;     /* a folder could not be watched, which was logged */
};

/* That of @name; with NULL, any one in the folder @wd. */
static const struct spot *find(const spot_vec *spots, int wd, const char *name)
{
    vec_each (spots, spot) {
        if (spot->wd == wd && (!name || strcmp(spot->name, name) == 0))
            return spot;
    }
    return NULL;
}

static void spots_free(spot_vec *spots)
{
    vec_each (spots, spot)
        free(spot->path);
    vec_free(spots);
}

/* ---- ways ---- */

static char *folder_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? xstrndup(path, (size_t)(slash + 1 - path)) : xstrdup(".");
}

/* Watches the folder of @path. Returns whether that was not among the spots of this round. */
static bool note(struct manifest_watch *watch, const char *path)
{
    char *folder = folder_of(path);
    int wd = inotify_add_watch(watch->fd, folder, WATCHED_EVENTS);
    /* A folder that is gone by now will be found missing by the spot that it is. */
    if (wd < 0 && errno != ENOENT && errno != ENOTDIR && !watch->refused) {
        watch->refused = true;
        log_warn("manifests", "%s: changes of links in this folder are not detected: %s", folder,
                 strerror(errno));
    }
    free(folder);
    struct spot spot = {.wd = wd, .path = xstrdup(path)};
    const char *slash = strrchr(spot.path, '/');
    spot.name = slash ? slash + 1 : spot.path;
    if (wd >= 0 && !find(&watch->spots, wd, spot.name)) {
        vec_push(&watch->spots, spot);
        return true;
    }
    free(spot.path);
    return false;
}

static void walk(struct manifest_watch *watch, const char *path);

static void walk_target(struct manifest_watch *watch, const char *link)
{
    char *target = xcalloc(PATH_MAX, 1);
    if (readlink(link, target, PATH_MAX - 1) > 0) {
        char *folder = folder_of(link);
        char *path = *target == '/' ? xstrdup(target) : xasprintf("%s/%s", folder, target);
        walk(watch, path);
        free(path);
        free(folder);
    }
    free(target);
}

/* One part further, the last of @path; false where the way ends. It is looked at again once it is
 * watched. Links that lead in a circle come to a spot that was there before. */
static bool walk_part(struct manifest_watch *watch, const char *path, bool last)
{
    struct stat status;
    if (lstat(path, &status) == 0 && S_ISDIR(status.st_mode) && !last)
        return true;
    bool is_new = note(watch, path);
    if (lstat(path, &status))
        return false;
    if (S_ISLNK(status.st_mode) && is_new)
        walk_target(watch, path);
    return true;
}

static void walk(struct manifest_watch *watch, const char *path)
{
    const char *end = path + strspn(path, "/");
    for (bool on = true; on && *end;) {
        size_t length = strcspn(end, "/"), dots = strspn(end, ".");
        const char *next = end + length + strspn(end + length, "/");
        char *part = xstrndup(path, (size_t)(end + length - path));
        if (dots != length || dots > 2)
            on = walk_part(watch, part, !*next);
        free(part);
        end = next;
    }
}

/* ---- rounds ---- */

enum watch_folder manifest_watch_begin(struct manifest_watch *watch, struct error *err)
{
    int before = watch->wd;
    watch->before = watch->spots;
    watch->spots = (spot_vec){0};
    walk(watch, watch->folder);
    watch->wd = inotify_add_watch(watch->fd, watch->folder, WATCHED_EVENTS);
    if (watch->wd < 0 || stat(watch->folder, &watch->seen)) {
        error_set(err, "%s", strerror(errno));
        watch->wd = -1;
        return WATCH_FOLDER_GONE;
    }
    vec_push(&watch->spots, (struct spot){watch->wd, xstrdup(watch->folder), ""});
    return watch->wd == before ? WATCH_FOLDER_SAME : WATCH_FOLDER_NEW;
}

void manifest_watch_link(struct manifest_watch *watch, const char *path)
{
    struct stat status;
    if (lstat(path, &status) == 0 && S_ISLNK(status.st_mode))
        walk_part(watch, path, true);
}

void manifest_watch_end(struct manifest_watch *watch)
{
    vec_each (&watch->before, spot) {
        if (!find(&watch->spots, spot->wd, NULL))
            inotify_rm_watch(watch->fd, spot->wd);
    }
    spots_free(&watch->before);
}

bool manifest_watch_holds(const struct manifest_watch *watch)
{
    struct stat status;
    return watch->wd >= 0 && stat(watch->folder, &status) == 0 &&
           status.st_dev == watch->seen.st_dev && status.st_ino == watch->seen.st_ino;
}

/* ---- news ---- */

/* Whether what was made, or went and may be there again, is worth a look: not if it is a file that
 * somebody writes now and will close. */
static bool is_settled(const char *path)
{
    struct stat status;
    return lstat(path, &status) != 0 || !S_ISREG(status.st_mode) || status.st_nlink > 1;
}

/* Something happened to @name in the folder @wd. Returns whether it is that of a file to tell of.
 */
static bool take_name(const struct manifest_watch *watch, const struct inotify_event *event,
                      struct watch_news *news)
{
    const struct spot *spot = find(&watch->spots, event->wd, event->name);
    if (spot) {
        news->all |= event->mask & (IN_CLOSE_WRITE | IN_MOVED_TO) || is_settled(spot->path);
        news->made |= event->mask & IN_CREATE && event->mask & IN_ISDIR;
    }
    if (event->wd != watch->wd || event->mask & IN_ISDIR)
        return false;
    char *path = xasprintf("%s/%s", watch->folder, event->name);
    bool being_written = event->mask & IN_CREATE && !is_settled(path);
    free(path);
    return !being_written;
}

static void take_event(struct manifest_watch *watch, const struct inotify_event *event,
                       struct watch_news *news, watch_name_fn name, void *ctx)
{
    news->all |= (event->mask & IN_Q_OVERFLOW) != 0;
    if (!find(&watch->spots, event->wd, NULL)) /* of a folder that is watched no more */
        return;
    bool is_folder = event->wd == watch->wd;
    news->unmounted |= event->mask & IN_UNMOUNT && is_folder;
    news->all |= (event->mask & (IN_DELETE_SELF | IN_MOVE_SELF | IN_UNMOUNT | IN_IGNORED)) != 0;
    if (event->len > 0 && take_name(watch, event, news)) {
        news->any = true;
        name(ctx, event->name, event->mask & (IN_MOVED_FROM | IN_DELETE));
    }
    if (event->mask & IN_IGNORED && is_folder)
        watch->wd = -1; /* the kernel has removed it */
}

struct watch_news manifest_watch_read(struct manifest_watch *watch, watch_name_fn name, void *ctx)
{
    struct watch_news news = {0};
    char *buffer = xcalloc(EVENT_BUFFER_SIZE, 1);
    ssize_t n = read(watch->fd, buffer, EVENT_BUFFER_SIZE);
    if (n < 0 && errno != EAGAIN && errno != EINTR)
        log_error("manifests", "%s: cannot read events: %s", watch->folder, strerror(errno));
    for (const char *p = buffer; n > 0 && p < buffer + n;) {
        const struct inotify_event *event = (const struct inotify_event *)(const void *)p;
        take_event(watch, event, &news, name, ctx);
        p += sizeof(*event) + event->len;
    }
    free(buffer);
    news.any |= news.all || news.unmounted;
    return news;
}

/* ---- public ---- */

struct manifest_watch *manifest_watch_new(const char *folder, struct error *err)
{
    int fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    if (fd < 0) {
        error_set(err, "%s", strerror(errno));
        return NULL;
    }
    struct manifest_watch *watch = xcalloc(1, sizeof(*watch));
    watch->folder = xstrdup(folder);
    watch->fd = fd;
    watch->wd = -1;
    enum watch_folder found = manifest_watch_begin(watch, err);
    manifest_watch_end(watch);
    if (found != WATCH_FOLDER_GONE)
        return watch;
    manifest_watch_free(watch);
    return NULL;
}

void manifest_watch_free(struct manifest_watch *watch)
{
    spots_free(&watch->spots);
    close(watch->fd);
    free(watch->folder);
    free(watch);
}

int manifest_watch_fd(const struct manifest_watch *watch)
{
    return watch->fd;
}
