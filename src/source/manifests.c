/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The files of a folder, and when to read which. The watch says which names changed. Where names
 * are not enough (a link leads elsewhere now, the folder is another one, events were lost, the time
 * between opening and following), all files are compared by their status.
 *
 * News of a file only say that there is something to look at; what is there then decides. One
 * exception: a file that was deleted or moved away and is there again is not read, since whoever
 * writes it will close it. News are collected and worked off at once, since an object may move from
 * one file to another.
 */
#include "kube-nftd/source.h"

#include "kube-nftd/base.h"
#include "manifest_file.h"
#include "manifest_objects.h"
#include "manifest_watch.h"

#include <dirent.h>
#include <errno.h>
#include <ev.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* A folder that was made anew is complete when it has been quiet for so many seconds. */
#define FILLING_TIME 2.0

enum news {
    NEWS_NONE,
    NEWS_CHANGED, /* it is to be read */
    NEWS_AWAY,    /* it may be gone */
};

struct file {
    char *path;
    struct holding holding;
    struct stat seen; /* when it was last read; zero before */
    enum news news;
    bool missing; /* it is kept although there is no file, which was said */
    bool gone;    /* it is dropped when all news are done with */
};

struct manifests {
    char *folder;             /* that is watched */
    char *path;               /* of the one file, or NULL: all files of the folder */
    VEC(struct file *) files; /* sorted by path */
    struct manifest_objects objects;

    struct ev_loop *loop;
    struct manifest_watch *watch; /* NULL while nothing is followed */
    bool lost;                    /* the folder is gone, which was said */
    ev_timer filling;             /* runs while a new folder may not be complete yet */
};

typedef VEC(char *) path_vec;

/* ---- names and paths ---- */

static const char *last_part(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static bool has_suffix(const char *name, const char *suffix)
{
    size_t length = strlen(name), suffix_length = strlen(suffix);
    return length > suffix_length && strcmp(name + length - suffix_length, suffix) == 0;
}

/* Files of a folder that are read. */
static bool is_manifest(const char *name)
{
    return name[0] != '.' &&
           (has_suffix(name, ".yaml") || has_suffix(name, ".yml") || has_suffix(name, ".json"));
}

static int filter(const struct dirent *entry)
{
    return is_manifest(entry->d_name);
}

/* The path of a file that is wanted; the caller frees it. */
static char *path_of(const struct manifests *manifests, const char *name)
{
    return manifests->path ? xstrdup(manifests->path) : xasprintf("%s/%s", manifests->folder, name);
}

static void paths_clear(path_vec *paths)
{
    vec_each (paths, path)
        free(*path);
    vec_free(paths);
}

/* The paths of all files that are wanted, sorted. */
static int list_paths(const struct manifests *manifests, path_vec *paths, struct error *err)
{
    struct dirent **entries;
    if (manifests->path) {
        vec_push(paths, xstrdup(manifests->path));
        return 0;
    }
    int n = scandir(manifests->folder, &entries, filter, alphasort);
    if (n < 0)
        return error_set(err, "%s: %s", manifests->folder, strerror(errno));
    for (int i = 0; i < n; i++) {
        vec_push(paths, path_of(manifests, entries[i]->d_name));
        free(entries[i]);
    }
    free(entries);
    return 0;
}

/* ---- files ---- */

/* Where the file at @path is, or would have to be. */
static size_t place_of(const struct manifests *manifests, const char *path)
{
    size_t low = 0, high = manifests->files.n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (strcmp(manifests->files.v[middle]->path, path) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static struct file *file_get(struct manifests *manifests, const char *path)
{
    size_t place = place_of(manifests, path);
    if (place < manifests->files.n && strcmp(manifests->files.v[place]->path, path) == 0)
        return manifests->files.v[place];
    struct file *file = xcalloc(1, sizeof(*file));
    file->holding.path = file->path = xstrdup(path);
    vec_push(&manifests->files, file);
    struct file **at = manifests->files.v + place;
    memmove(at + 1, at, (manifests->files.n - 1 - place) * sizeof(*at));
    *at = file;
    return file;
}

static void file_free(struct file *file)
{
    vec_free(&file->holding.objects);
    free(file->path);
    free(file);
}

struct counts {
    size_t files;
    size_t objects[KIND_COUNT];
    size_t bad; /* of them: those that cannot be read */
};

/* Of a folder, how many files that were. */
static void log_loaded(bool folder, const char *path, const struct counts *counts)
{
    char files[32] = "";
    if (folder)
        snprintf(files, sizeof(files), " files=%zu", counts->files);
    log_info("manifests", "loaded %s=%s%s services=%zu slices=%zu cidrs=%zu nodes=%zu bad=%zu",
             folder ? "folder" : "file", path, files, counts->objects[KIND_SERVICE],
             counts->objects[KIND_ENDPOINTSLICE], counts->objects[KIND_SERVICECIDR],
             counts->objects[KIND_NODE], counts->bad);
}

/* Reads @file and makes its objects what it holds; adds them to @counts. */
static enum manifest_result read_manifest(struct manifests *manifests, struct file *file,
                                          struct counts *counts, struct error *err)
{
    object_vec objects = {0};
    struct stat status = {0};
    enum manifest_result result = manifest_file_read(file->path, &objects, &status, err);
    file->seen = status;
    file->missing = file->missing && result == MANIFEST_GONE;
    if (result != MANIFEST_OK)
        return result;
    counts->files++;
    vec_each (&objects, object) {
        counts->objects[object->kind]++;
        counts->bad += !object->payload;
    }
    manifest_objects_set(&manifests->objects, &file->holding, &objects);
    return result;
}

/* There is no file at the path: it was deleted, or is a link to nothing, or the folder is away.
 * Only the first means that its objects are gone, and not of the one file. */
static void note_missing(struct manifests *manifests, struct file *file)
{
    struct stat status;
    size_t held = file->holding.objects.n;
    bool is_link = lstat(file->path, &status) == 0;
    if (!manifest_watch_holds(manifests->watch))
        return;
    if (!manifests->path && !is_link) {
        object_vec none = {0};
        manifest_objects_set(&manifests->objects, &file->holding, &none);
        if (held > 0)
            log_info("manifests", "the file is gone, removing its objects file=%s objects=%zu",
                     file->path, held);
        file->gone = true;
        return;
    }
    if (!file->missing)
        log_warn("manifests", "%s: %s; its objects stay active objects=%zu", file->path,
                 is_link ? "the link points to no file" : "the file is gone", held);
    file->missing = true;
    file->seen = (struct stat){0};
}

static void reload(struct manifests *manifests, struct file *file)
{
    struct error err = {0};
    struct counts counts = {0};
    switch (read_manifest(manifests, file, &counts, &err)) {
    case MANIFEST_OK:
        log_loaded(false, file->path, &counts);
        break;
    case MANIFEST_GONE:
        note_missing(manifests, file);
        break;
    case MANIFEST_BAD:
        log_error("manifests", "%s: %s; its previous objects stay active objects=%zu", file->path,
                  err.text, file->holding.objects.n);
        break;
    }
    error_clear(&err);
}

/* ---- news ---- */

static void note_all(struct manifests *manifests, enum news news)
{
    vec_each (&manifests->files, file)
        (*file)->news = news;
}

static void compare(struct file *file)
{
    struct stat status;
    if (stat(file->path, &status))
        file->news = NEWS_AWAY;
    else
        file->news = file_is_same(&status, &file->seen) ? NEWS_NONE : NEWS_CHANGED;
}

static void look_for_missing(struct manifests *manifests)
{
    struct stat status;
    vec_each (&manifests->files, file) {
        if ((*file)->news != NEWS_AWAY)
            continue;
        (*file)->news = NEWS_NONE;
        if (stat((*file)->path, &status) && (errno == ENOENT || errno == ENOTDIR || errno == ELOOP))
            note_missing(manifests, *file);
    }
}

/* Files that hold what has lost its owner are to be read. */
static void note_heirs(struct manifests *manifests)
{
    if (!manifests->objects.orphans)
        return;
    manifests->objects.orphans = false;
    vec_each (&manifests->files, file) {
        if (manifest_objects_inherits(&(*file)->holding))
            (*file)->news = NEWS_CHANGED;
    }
}

/* Returns whether any was to be read. */
static bool read_changed(struct manifests *manifests)
{
    bool any = false;
    note_heirs(manifests);
    vec_each (&manifests->files, file) {
        if ((*file)->news != NEWS_CHANGED)
            continue;
        any = true;
        (*file)->news = NEWS_NONE;
        reload(manifests, *file);
    }
    return any;
}

/* All that is gone first: an heir that is gone as well need not be read. */
static void work_off(struct manifests *manifests)
{
    look_for_missing(manifests);
    while (read_changed(manifests))
        ;
    size_t kept = 0;
    vec_each (&manifests->files, file) {
        if ((*file)->gone)
            file_free(*file);
        else
            manifests->files.v[kept++] = *file;
    }
    manifests->files.n = kept;
}

/* ---- the first load ---- */

static int first_read(struct manifests *manifests, const char *path, bool strict,
                      struct counts *counts, struct error *err)
{
    struct error why = {0};
    enum manifest_result result = read_manifest(manifests, file_get(manifests, path), counts, &why);
    int status = 0;
    if (result == MANIFEST_OK) {
        log_debug(2, "manifests", "loaded file=%s", path);
    } else if (strict || manifests->path) {
        status = error_set(err, "%s: %s", path, why.text ? why.text : strerror(ENOENT));
    } else if (result == MANIFEST_BAD) {
        log_error("manifests", "%s: %s; skipped until it changes", path, why.text);
    }
    error_clear(&why);
    return status;
}

static int first_load(struct manifests *manifests, bool strict, struct error *err)
{
    struct counts counts = {0};
    path_vec paths = {0};
    int result = list_paths(manifests, &paths, err);
    for (size_t i = 0; result == 0 && i < paths.n; i++)
        result = first_read(manifests, paths.v[i], strict, &counts, err);
    paths_clear(&paths);
    if (result)
        return -1;
    log_loaded(!manifests->path, manifests->path ? manifests->path : manifests->folder, &counts);
    manifest_objects_start(&manifests->objects);
    return 0;
}

int manifests_check(const char *path, struct error *err)
{
    return access(path, R_OK) ? error_set(err, "%s: %s", path, strerror(errno)) : 0;
}

/* Tells a folder from a file; a file is watched through its folder. */
static int set_path(struct manifests *manifests, const char *path, struct error *err)
{
    struct stat status;
    if (stat(path, &status))
        return error_set(err, "%s: %s", path, strerror(errno));
    const char *name = last_part(path);
    if (S_ISDIR(status.st_mode)) {
        manifests->folder = xstrdup(path);
        size_t length = strlen(path);
        while (length > 1 && manifests->folder[length - 1] == '/')
            manifests->folder[--length] = '\0';
        return 0;
    }
    manifests->path = xstrdup(path);
    if (name == path)
        manifests->folder = xstrdup(".");
    else
        manifests->folder = xstrndup(path, name - path == 1 ? 1 : (size_t)(name - path) - 1);
    return 0;
}

struct manifests *manifests_open(const char *path, const struct object_sink *sink, bool strict,
                                 struct error *err)
{
    struct manifests *manifests = xcalloc(1, sizeof(*manifests));
    manifests->objects.sink = *sink;
    if (set_path(manifests, path, err) == 0 && first_load(manifests, strict, err) == 0)
        return manifests;
    manifests_free(manifests);
    return NULL;
}

/* ---- all of them ---- */

/* Where a link leads is watched before it is looked at, so that no change is missed. */
static void compare_files(struct manifests *manifests)
{
    struct error err = {0};
    path_vec paths = {0};
    if (list_paths(manifests, &paths, &err)) {
        log_error("manifests", "%s; its previous objects stay active", err.text);
    } else {
        note_all(manifests, NEWS_AWAY); /* unless it is named now */
        vec_each (&paths, path) {
            manifest_watch_link(manifests->watch, *path);
            compare(file_get(manifests, *path));
        }
    }
    paths_clear(&paths);
    error_clear(&err);
}

static void lose_folder(struct manifests *manifests, const char *why)
{
    if (!manifests->lost)
        log_error("manifests",
                  "%s: the folder is gone (%s); its objects stay active until it is back",
                  manifests->folder, why);
    manifests->lost = true;
}

/* A folder that was moved into place or that a link leads to is complete. One that was made is not:
 * compared at once, it would remove what is about to be copied into it. */
static void find_folder(struct manifests *manifests, bool made)
{
    log_info("manifests", "the folder was replaced%s folder=%s",
             made ? ", comparing it once it is quiet" : "", manifests->folder);
    manifests->lost = false;
    if (made)
        ev_timer_again(manifests->loop, &manifests->filling);
}

static void compare_all(struct manifests *manifests, bool made)
{
    struct error err = {0};
    enum watch_folder folder = manifest_watch_begin(manifests->watch, &err);
    if (folder != WATCH_FOLDER_SAME) {
        /* what was noted was about the folder before */
        note_all(manifests, NEWS_NONE);
        ev_timer_stop(manifests->loop, &manifests->filling);
    }
    if (folder == WATCH_FOLDER_GONE)
        lose_folder(manifests, err.text);
    else if (folder == WATCH_FOLDER_NEW)
        find_folder(manifests, made);
    if (folder != WATCH_FOLDER_GONE && !ev_is_active(&manifests->filling))
        compare_files(manifests);
    manifest_watch_end(manifests->watch);
    error_clear(&err);
}

/* ---- following ---- */

static void on_filled(struct ev_loop *loop, ev_timer *timer, int revents)
{
    struct manifests *manifests = timer->data;
    (void)revents;
    ev_timer_stop(loop, timer);
    compare_all(manifests, false);
    work_off(manifests);
}

static void on_name(void *ctx, const char *name, bool gone)
{
    struct manifests *manifests = ctx;
    if (manifests->path ? strcmp(last_part(manifests->path), name) != 0 : !is_manifest(name))
        return;
    char *path = path_of(manifests, name);
    if (!gone)
        manifest_watch_link(manifests->watch, path);
    file_get(manifests, path)->news = gone ? NEWS_AWAY : NEWS_CHANGED;
    free(path);
}

static void stop_following(struct manifests *manifests)
{
    if (!manifests->watch)
        return;
    ev_timer_stop(manifests->loop, &manifests->filling);
    manifest_watch_free(manifests->watch);
    manifests->watch = NULL;
}

static void on_news(void *ctx, enum watch_news news)
{
    struct manifests *manifests = ctx;
    if (news == WATCH_NEWS_END) {
        log_error("manifests",
                  "%s: the folder was unmounted; its changes are no longer followed, its objects "
                  "stay active",
                  manifests->folder);
        stop_following(manifests);
        return;
    }
    if (ev_is_active(&manifests->filling))
        ev_timer_again(manifests->loop, &manifests->filling);
    if (news != WATCH_NEWS_NAMES)
        compare_all(manifests, news == WATCH_NEWS_MADE);
    work_off(manifests);
}

int manifests_follow(struct manifests *manifests, struct ev_loop *loop, struct error *err)
{
    const struct watch_handler handler = {on_name, on_news, manifests};
    manifests->loop = loop;
    ev_timer_init(&manifests->filling, on_filled, 0, FILLING_TIME);
    manifests->filling.data = manifests;
    manifests->watch = manifest_watch_new(manifests->folder, loop, &handler, err);
    if (!manifests->watch)
        return error_prefix(err, "cannot follow %s", manifests->folder);
    compare_all(manifests, false);
    work_off(manifests);
    return 0;
}

int manifests_look_again(struct manifests *manifests, struct error *err)
{
    if (!manifests->watch)
        return manifests_follow(manifests, manifests->loop, err);
    compare_all(manifests, false);
    work_off(manifests);
    return 0;
}

void manifests_free(struct manifests *manifests)
{
    if (!manifests)
        return;
    stop_following(manifests);
    vec_each (&manifests->files, file)
        file_free(*file);
    vec_free(&manifests->files);
    manifest_objects_clear(&manifests->objects);
    free(manifests->folder);
    free(manifests->path);
    free(manifests);
}
