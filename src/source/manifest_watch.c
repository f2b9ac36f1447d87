/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Paths are resolved here part by part, as the kernel does it. A name on the way matters where it
 * is a link, where it is missing and where it is the last: it is a spot, in a place (a folder that
 * is watched). So there is no need to watch all folders up to the root. What is not noticed: a
 * folder further up that is renamed as a whole, since nothing happens then in any place.
 *
 * A place is an inode, and one watch for it is all that inotify gives. So the folder itself is a
 * place like others, and may have spots of its own.
 */
#include "manifest_watch.h"

#include "kube-nftd/base/log.h"
#include "kube-nftd/base/vec.h"

#include <errno.h>
#include <ev.h>
#include <limits.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#define EVENT_BUFFER_SIZE ((size_t)64 * 1024)

/* Links on one way; the kernel gives up there, too. */
#define MAX_LINKS 40

/* How often a way is walked again because of changes on it meanwhile. */
#define MAX_WALKS 8

#define WATCHED_EVENTS                                                                             \
    (IN_CLOSE_WRITE | IN_MOVED_TO | IN_MOVED_FROM | IN_CREATE | IN_DELETE | IN_DELETE_SELF |       \
     IN_MOVE_SELF | IN_ONLYDIR)

typedef VEC(char *) text_vec;

struct place {
    int wd;
    char *path;     /* a way to it, the last that was used */
    text_vec spots; /* names */
};

typedef VEC(struct place *) place_vec;

struct manifest_watch {
    char *folder;
    struct watch_handler handler;
    struct ev_loop *loop;
    ev_io watcher;
    int wd;           /* of the folder; -1 while there is none */
    struct stat seen; /* the folder */
    place_vec places; /* that were named since the present round began */
    place_vec before; /* in a round: all that were watched before it */
    text_vec refused; /* folders that could not be watched, which is said once */
};

/* ---- places ---- */

static bool has_text(const text_vec *texts, const char *text)
{
    vec_each (texts, it) {
        if (strcmp(*it, text) == 0)
            return true;
    }
    return false;
}

static void texts_free(text_vec *texts)
{
    vec_each (texts, text)
        free(*text);
    vec_free(texts);
}

static struct place *place_find(const place_vec *places, int wd)
{
    vec_each (places, place) {
        if ((*place)->wd == wd)
            return *place;
    }
    return NULL;
}

static void place_free(struct place *place)
{
    texts_free(&place->spots);
    free(place->path);
    free(place);
}

static void places_free(place_vec *places)
{
    vec_each (places, place)
        place_free(*place);
    vec_free(places);
}

static void place_drop(struct manifest_watch *watch, const struct place *place)
{
    vec_each (&watch->places, it) {
        if (*it == place) {
            place_free(*it);
            *it = watch->places.v[--watch->places.n];
            return;
        }
    }
}

/* Watches @path, for this round. NULL if that is not possible. Sets @added if it is new. */
static struct place *place_get(struct manifest_watch *watch, const char *path, bool *added)
{
    int wd = inotify_add_watch(watch->watcher.fd, path, WATCHED_EVENTS);
    if (wd < 0)
        return NULL;
    struct place *place = place_find(&watch->places, wd);
    if (!place) {
        place = xcalloc(1, sizeof(*place));
        place->wd = wd;
        vec_push(&watch->places, place);
        *added = *added || !place_find(&watch->before, wd);
    }
    free(place->path);
    place->path = xstrdup(path);
    return place;
}

/* A place that is gone by now will be found missing in its own place. */
static void refuse(struct manifest_watch *watch, const char *path, int reason)
{
    if (reason == ENOENT || reason == ENOTDIR || has_text(&watch->refused, path))
        return;
    vec_push(&watch->refused, xstrdup(path));
    log_warn("manifests", "%s: changes of links in this folder are not detected: %s", path,
             strerror(reason));
}

/* ---- ways ---- */

struct walk {
    struct manifest_watch *watch;
    char *at;   /* so far; no link in it */
    char *rest; /* what follows */
    size_t links;
    bool added; /* a place that was not watched before */
};

static void note(struct walk *walk, const char *name)
{
    struct place *place = place_get(walk->watch, walk->at, &walk->added);
    if (!place)
        refuse(walk->watch, walk->at, errno);
    else if (!has_text(&place->spots, name))
        vec_push(&place->spots, xstrdup(name));
}

static void replace(char **text, char *by)
{
    free(*text);
    *text = by;
}

/* Takes the first part off the rest; NULL at the end. */
static char *take_part(struct walk *walk)
{
    const char *from = walk->rest + strspn(walk->rest, "/");
    size_t length = strcspn(from, "/");
    if (length == 0)
        return NULL;
    char *part = xstrndup(from, length);
    from += length;
    replace(&walk->rest, xstrdup(from + strspn(from, "/")));
    return part;
}

/* Goes on with what the link @path says. */
static bool walk_link(struct walk *walk, const char *path)
{
    char *target = xcalloc(PATH_MAX, 1);
    bool good = walk->links++ < MAX_LINKS && readlink(path, target, PATH_MAX - 1) > 0;
    if (good) {
        if (*target == '/')
            replace(&walk->at, xstrdup("/"));
        replace(&walk->rest, xasprintf("%s/%s", target, walk->rest));
    }
    free(target);
    return good;
}

/* One part further; false where the way ends. */
static bool walk_part(struct walk *walk, const char *part)
{
    struct stat status;
    bool last = !*walk->rest;
    char *path = xasprintf("%s%s%s", walk->at, strcmp(walk->at, "/") == 0 ? "" : "/", part);
    bool known = lstat(path, &status) == 0;
    bool is_link = known && S_ISLNK(status.st_mode);
    bool on = is_link || (known && S_ISDIR(status.st_mode) && !last);
    if ((last || is_link || !on) && strcmp(part, ".") != 0 && strcmp(part, "..") != 0)
        note(walk, part);
    if (is_link)
        on = walk_link(walk, path);
    else if (on)
        replace(&walk->at, xstrdup(path));
    free(path);
    return on;
}

/* Notes all spots on the way of @path. Returns whether one is in a new place. */
static bool walk_once(struct manifest_watch *watch, const char *path)
{
    struct walk walk = {.watch = watch};
    walk.at = xstrdup(*path == '/' ? "/" : ".");
    walk.rest = xstrdup(path);
    bool on = true;
    while (on) {
        char *part = take_part(&walk);
        on = part && walk_part(&walk, part);
        free(part);
    }
    free(walk.at);
    free(walk.rest);
    return walk.added;
}

/* What a new place held may have changed before it was watched. */
static void walk_way(struct manifest_watch *watch, const char *path)
{
    for (int i = 0; i < MAX_WALKS && walk_once(watch, path); i++)
        ;
}

/* ---- rounds ---- */

enum watch_folder manifest_watch_begin(struct manifest_watch *watch, struct error *err)
{
    bool added = false;
    int before = watch->wd;
    watch->before = watch->places;
    watch->places = (place_vec){0};
    walk_way(watch, watch->folder);
    struct place *place = place_get(watch, watch->folder, &added);
    if (!place || stat(watch->folder, &watch->seen)) {
        error_set(err, "%s", strerror(errno));
        watch->wd = -1;
        return WATCH_FOLDER_GONE;
    }
    watch->wd = place->wd;
    return place->wd == before ? WATCH_FOLDER_SAME : WATCH_FOLDER_NEW;
}

void manifest_watch_link(struct manifest_watch *watch, const char *path)
{
    struct stat status;
    if (lstat(path, &status) == 0 && S_ISLNK(status.st_mode))
        walk_way(watch, path);
}

void manifest_watch_end(struct manifest_watch *watch)
{
    vec_each (&watch->before, place) {
        if (!place_find(&watch->places, (*place)->wd))
            inotify_rm_watch(watch->watcher.fd, (*place)->wd);
    }
    places_free(&watch->before);
}

bool manifest_watch_holds(const struct manifest_watch *watch)
{
    struct stat status;
    return watch->wd >= 0 && stat(watch->folder, &status) == 0 &&
           status.st_dev == watch->seen.st_dev && status.st_ino == watch->seen.st_ino;
}

/* ---- events ---- */

/* Whether a name that was made, or that went and may be there again, is worth a look: not if it is
 * a file that somebody writes now and will close. */
static bool is_settled(const struct place *place, const char *name)
{
    struct stat status;
    char *path = xasprintf("%s/%s", place->path, name);
    bool settled = lstat(path, &status) != 0 || !S_ISREG(status.st_mode) || status.st_nlink > 1;
    free(path);
    return settled;
}

/* What a bunch of events says. */
struct bunch {
    bool names;
    bool all;
    bool made;
    bool end;
};

static void take_spot(const struct place *place, const struct inotify_event *event,
                      struct bunch *bunch)
{
    if (!has_text(&place->spots, event->name))
        return;
    if (event->mask & (IN_CLOSE_WRITE | IN_MOVED_TO) || is_settled(place, event->name))
        bunch->all = true;
    if (event->mask & IN_CREATE && event->mask & IN_ISDIR)
        bunch->made = true;
}

static void take_name(struct manifest_watch *watch, const struct place *place,
                      const struct inotify_event *event, struct bunch *bunch)
{
    bool gone = event->mask & (IN_MOVED_FROM | IN_DELETE);
    if (event->mask & IN_ISDIR || (event->mask & IN_CREATE && !is_settled(place, event->name)))
        return;
    bunch->names = true;
    watch->handler.name(watch->handler.ctx, event->name, gone);
}

static void take_event(struct manifest_watch *watch, const struct inotify_event *event,
                       struct bunch *bunch)
{
    struct place *place = place_find(&watch->places, event->wd);
    if (event->mask & IN_Q_OVERFLOW)
        bunch->all = true;
    if (!place) /* one that is watched no more */
        return;
    if (event->mask & IN_UNMOUNT && event->wd == watch->wd)
        bunch->end = true;
    if (event->mask & (IN_DELETE_SELF | IN_MOVE_SELF | IN_UNMOUNT | IN_IGNORED))
        bunch->all = true;
    if (event->len > 0) {
        take_spot(place, event, bunch);
        if (event->wd == watch->wd)
            take_name(watch, place, event, bunch);
    }
    if (event->mask & IN_IGNORED) { /* the kernel has removed it */
        if (event->wd == watch->wd)
            watch->wd = -1;
        place_drop(watch, place);
    }
}

static void take_events(struct manifest_watch *watch, const char *buffer, size_t length)
{
    struct bunch bunch = {0};
    for (const char *p = buffer; p < buffer + length;) {
        const struct inotify_event *event = (const struct inotify_event *)(const void *)p;
        take_event(watch, event, &bunch);
        p += sizeof(*event) + event->len;
    }
    enum watch_news news = bunch.end    ? WATCH_NEWS_END
                           : !bunch.all ? WATCH_NEWS_NAMES
                           : bunch.made ? WATCH_NEWS_MADE
                                        : WATCH_NEWS_ALL;
    if (bunch.names || news != WATCH_NEWS_NAMES)
        watch->handler.news(watch->handler.ctx, news);
}

static void on_events(struct ev_loop *loop, ev_io *watcher, int revents)
{
    (void)loop;
    (void)revents;
    struct manifest_watch *watch = watcher->data;
    char *buffer = xcalloc(EVENT_BUFFER_SIZE, 1);
    ssize_t n = read(watcher->fd, buffer, EVENT_BUFFER_SIZE);
    if (n > 0)
        take_events(watch, buffer, (size_t)n);
    else if (n < 0 && errno != EAGAIN && errno != EINTR)
        log_error("manifests", "%s: cannot read events: %s", watch->folder, strerror(errno));
    free(buffer);
}

/* ---- life ---- */

struct manifest_watch *manifest_watch_new(const char *folder, struct ev_loop *loop,
                                          const struct watch_handler *handler, struct error *err)
{
    int fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    if (fd < 0) {
        error_set(err, "%s", strerror(errno));
        return NULL;
    }
    struct manifest_watch *watch = xcalloc(1, sizeof(*watch));
    watch->folder = xstrdup(folder);
    watch->handler = *handler;
    watch->loop = loop;
    watch->wd = -1;
    ev_io_init(&watch->watcher, on_events, fd, EV_READ);
    watch->watcher.data = watch;
    ev_io_start(loop, &watch->watcher);
    enum watch_folder found = manifest_watch_begin(watch, err);
    manifest_watch_end(watch);
    if (found != WATCH_FOLDER_GONE)
        return watch;
    manifest_watch_free(watch);
    return NULL;
}

void manifest_watch_free(struct manifest_watch *watch)
{
    if (!watch)
        return;
    ev_io_stop(watch->loop, &watch->watcher);
    close(watch->watcher.fd);
    places_free(&watch->places);
    texts_free(&watch->refused);
    free(watch->folder);
    free(watch);
}
