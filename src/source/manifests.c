/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Strings together a folder, a table of its files and a watch. The watch says which names changed,
 * and the table reads them. Where names are not enough (a link leads elsewhere now, the folder is
 * another one, events were lost, the time between opening and following), all files are compared
 * by their status.
 */
#include "kube-nftd/source/manifests.h"

#include "kube-nftd/base/log.h"
#include "kube-nftd/base/vec.h"
#include "manifest_table.h"
#include "manifest_watch.h"

#include <dirent.h>
#include <errno.h>
#include <ev.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* A folder that was made anew is complete when it has been quiet for so many seconds. */
#define FILLING_TIME 2.0

struct manifests {
    char *folder; /* that is watched */
    char *path;   /* of the one file, or NULL: all files of the folder */
    struct manifest_table *table;

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

static bool is_wanted(const struct manifests *manifests, const char *name)
{
    if (manifests->path)
        return strcmp(last_part(manifests->path), name) == 0;
    return name[0] != '.' &&
           (has_suffix(name, ".yaml") || has_suffix(name, ".yml") || has_suffix(name, ".json"));
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

static int compare_paths(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static int list_folder(const struct manifests *manifests, path_vec *paths, struct error *err)
{
    DIR *dir = opendir(manifests->folder);
    if (!dir)
        return error_set(err, "%s: %s", manifests->folder, strerror(errno));
    struct dirent *entry;
    while ((errno = 0, entry = readdir(dir)) != NULL) {
        if (is_wanted(manifests, entry->d_name))
            vec_push(paths, path_of(manifests, entry->d_name));
    }
    int reason = errno;
    closedir(dir);
    if (reason) {
        paths_clear(paths);
        return error_set(err, "%s: %s", manifests->folder, strerror(reason));
    }
    return 0;
}

/* The paths of all files that are wanted, sorted. */
static int list_paths(const struct manifests *manifests, path_vec *paths, struct error *err)
{
    if (manifests->path)
        vec_push(paths, xstrdup(manifests->path));
    else if (list_folder(manifests, paths, err))
        return -1;
    if (paths->n > 1)
        qsort(paths->v, paths->n, sizeof(*paths->v), compare_paths);
    return 0;
}

/* ---- the first load ---- */

static int first_read(struct manifests *manifests, const char *path, bool strict,
                      struct manifest_counts *counts, struct error *err)
{
    struct error why = {0};
    enum manifest_result result = manifest_table_load(manifests->table, path, counts, &why);
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
    struct manifest_counts counts = {0};
    path_vec paths = {0};
    int result = list_paths(manifests, &paths, err);
    for (size_t i = 0; result == 0 && i < paths.n; i++)
        result = first_read(manifests, paths.v[i], strict, &counts, err);
    paths_clear(&paths);
    if (result)
        return -1;
    if (manifests->path)
        log_info("manifests", "loaded file=%s " MANIFEST_COUNTS_FORMAT, manifests->path,
                 MANIFEST_COUNTS_ARGS(&counts));
    else
        log_info("manifests", "loaded folder=%s files=%zu " MANIFEST_COUNTS_FORMAT,
                 manifests->folder, counts.files, MANIFEST_COUNTS_ARGS(&counts));
    manifest_table_start(manifests->table);
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

/* Asked for what changed only, so there is a watch. */
static bool folder_is_there(void *ctx)
{
    return manifest_watch_holds(((struct manifests *)ctx)->watch);
}

struct manifests *manifests_open(const char *path, const struct object_sink *sink, bool strict,
                                 struct error *err)
{
    struct manifests *manifests = xcalloc(1, sizeof(*manifests));
    if (set_path(manifests, path, err) == 0) {
        const struct manifest_owner owner = {folder_is_there, manifests, manifests->path != NULL};
        manifests->table = manifest_table_new(sink, &owner);
        if (first_load(manifests, strict, err) == 0)
            return manifests;
    }
    manifests_free(manifests);
    return NULL;
}

/* ---- comparing ---- */

/* Where a link leads is watched before it is looked at, so that no change is missed. */
static void compare_files(struct manifests *manifests)
{
    struct error err = {0};
    path_vec paths = {0};
    if (list_paths(manifests, &paths, &err)) {
        log_error("manifests", "%s; its previous objects stay active", err.text);
    } else {
        manifest_table_note_all(manifests->table, MANIFEST_AWAY); /* unless it is named now */
        vec_each (&paths, path) {
            manifest_watch_link(manifests->watch, *path);
            manifest_table_compare(manifests->table, *path);
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
        manifest_table_note_all(manifests->table, MANIFEST_SAME);
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
    manifest_table_run(manifests->table);
}

static void on_name(void *ctx, const char *name, bool gone)
{
    struct manifests *manifests = ctx;
    if (!is_wanted(manifests, name))
        return;
    char *path = path_of(manifests, name);
    if (!gone)
        manifest_watch_link(manifests->watch, path);
    manifest_table_note(manifests->table, path, gone ? MANIFEST_AWAY : MANIFEST_CHANGED);
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
    manifest_table_run(manifests->table);
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
    manifest_table_run(manifests->table);
    return 0;
}

int manifests_look_again(struct manifests *manifests, struct error *err)
{
    if (!manifests->watch)
        return manifests_follow(manifests, manifests->loop, err);
    compare_all(manifests, false);
    manifest_table_run(manifests->table);
    return 0;
}

void manifests_free(struct manifests *manifests)
{
    if (!manifests)
        return;
    stop_following(manifests);
    manifest_table_free(manifests->table);
    free(manifests->folder);
    free(manifests->path);
    free(manifests);
}
