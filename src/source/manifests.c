/*
 * A table of files with what is to be done about each, and an inotify watch that fills it in.
 *
 * Events only say which names to look at; what is there then decides. One exception: a name that
 * was deleted or moved away and is there again is not read, since whoever writes it will close it.
 * Where events are not enough (a queue overflow, the switch of a mounted ConfigMap, the time
 * between opening and following), all files are compared by their status.
 */
#include "kube-nftd/source/manifests.h"

#include "kube-nftd/base/hash.h"
#include "kube-nftd/base/log.h"
#include "kube-nftd/source/manifest_claims.h"
#include "kube-nftd/source/manifest_file.h"

#include <dirent.h>
#include <errno.h>
#include <ev.h>
#include <stdint.h>
#include <string.h>
#include <sys/inotify.h>
#include <unistd.h>

#define EVENT_BUFFER_SIZE ((size_t)64 * 1024)

enum pending {
    NOTHING,
    READ, /* it is to be read */
    LOOK, /* it may be gone */
};

struct file {
    UT_hash_handle hh; /* by name */
    struct manifest_holder holder;
    char *path;
    const char *name; /* the last part of path */
    struct stat seen; /* when it was last read; zero before */
    enum pending pending;
    unsigned check; /* the last check_all() that saw it */
};

struct manifests {
    char *folder; /* that is watched */
    char *path;   /* of the one file, or NULL: all files of the folder */
    struct object_sink sink;
    struct manifest_claims *claims;
    struct file *files;
    VEC(struct file *) pending;
    VEC(struct file *) dead; /* freed when nothing is pending any more */
    unsigned check;

    struct ev_loop *loop; /* NULL while nothing is followed */
    ev_io watcher;
    struct stat folder_seen;
};

typedef VEC(char *) name_vec;

/* ---- the table of files ---- */

static const char *last_part(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static struct file *file_get(struct manifests *manifests, const char *name)
{
    struct file *file;
    HASH_FIND_STR(manifests->files, name, file);
    if (file)
        return file;
    file = xcalloc(1, sizeof(*file));
    file->path =
        manifests->path ? xstrdup(manifests->path) : xasprintf("%s/%s", manifests->folder, name);
    file->name = last_part(file->path);
    file->holder.name = file->path;
    HASH_ADD_KEYPTR(hh, manifests->files, file->name, strlen(file->name), file);
    return file;
}

static void file_free(struct file *file)
{
    vec_free(&file->holder.claims);
    free(file->path);
    free(file);
}

static void file_pending(struct manifests *manifests, struct file *file, enum pending pending)
{
    if (file->pending == NOTHING)
        vec_push(&manifests->pending, file);
    file->pending = pending;
}

/* The file has got an object that another one dropped. */
static void file_inherits(void *ctx, struct manifest_holder *holder)
{
    struct file *file = (struct file *)((char *)holder - offsetof(struct file, holder));
    file_pending(ctx, file, READ);
}

/* Takes @file off the table; the list of what is pending may still name it. */
static void file_bury(struct manifests *manifests, struct file *file)
{
    HASH_DEL(manifests->files, file);
    file->pending = NOTHING;
    vec_push(&manifests->dead, file);
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

static void names_clear(name_vec *names)
{
    vec_each (names, name)
        free(*name);
    vec_free(names);
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* The names of the folder that are wanted, sorted. */
static int list_names(const struct manifests *manifests, name_vec *names, struct error *err)
{
    DIR *dir = opendir(manifests->folder);
    if (!dir)
        return error_set(err, "%s: %s", manifests->folder, strerror(errno));
    struct dirent *entry;
    while ((errno = 0, entry = readdir(dir)) != NULL) {
        if (is_wanted(manifests, entry->d_name))
            vec_push(names, xstrdup(entry->d_name));
    }
    int reason = errno;
    closedir(dir);
    if (reason) {
        names_clear(names);
        return error_set(err, "%s: %s", manifests->folder, strerror(reason));
    }
    if (names->n > 1)
        qsort(names->v, names->n, sizeof(*names->v), compare_names);
    return 0;
}

/* ---- reading ---- */

struct counts {
    size_t files;
    size_t objects[KIND_COUNT];
    size_t bad; /* of them: those that cannot be read */
};

static void count_objects(struct counts *counts, const object_vec *objects)
{
    counts->files++;
    vec_each (objects, object) {
        counts->objects[object->kind]++;
        counts->bad += !object->payload;
    }
}

#define COUNTS_FORMAT "services=%zu slices=%zu nodes=%zu bad=%zu"
#define COUNTS_ARGS(counts)                                                                        \
    (counts)->objects[KIND_SERVICE], (counts)->objects[KIND_ENDPOINTSLICE],                        \
        (counts)->objects[KIND_NODE], (counts)->bad

/* Reads @file and makes its objects what it holds; adds them to @counts. */
static enum manifest_result file_read(struct manifests *manifests, struct file *file,
                                      struct counts *counts, struct error *err)
{
    object_vec objects = {0};
    struct stat status = {0};
    enum manifest_result result = manifest_file_read(file->path, &objects, &status, err);
    file->seen = status;
    if (result == MANIFEST_OK) {
        count_objects(counts, &objects);
        manifest_claims_set(manifests->claims, &file->holder, &objects);
    }
    return result;
}

static void file_gone(struct manifests *manifests, struct file *file)
{
    size_t held = file->holder.claims.n;
    if (manifests->path) {
        log_warn("manifests", "%s: the file is gone; what was loaded from it is kept objects=%zu",
                 file->path, held);
        memset(&file->seen, 0, sizeof(file->seen));
        return;
    }
    object_vec none = {0};
    manifest_claims_set(manifests->claims, &file->holder, &none);
    if (held > 0)
        log_info("manifests", "file is gone, its objects are removed file=%s objects=%zu",
                 file->path, held);
    file_bury(manifests, file);
}

static void file_reload(struct manifests *manifests, struct file *file)
{
    struct error err = {0};
    struct counts counts = {0};
    switch (file_read(manifests, file, &counts, &err)) {
    case MANIFEST_OK:
        log_info("manifests", "loaded file=%s " COUNTS_FORMAT, file->path, COUNTS_ARGS(&counts));
        break;
    case MANIFEST_GONE:
        file_gone(manifests, file);
        break;
    case MANIFEST_BAD:
        log_error("manifests", "%s: %s; what was loaded from it before is kept objects=%zu",
                  file->path, err.text, file->holder.claims.n);
        break;
    }
    error_clear(&err);
}

/* ---- the first load ---- */

static int first_read(struct manifests *manifests, const char *name, bool strict,
                      struct counts *counts, struct error *err)
{
    struct file *file = file_get(manifests, name);
    struct error why = {0};
    enum manifest_result result = file_read(manifests, file, counts, &why);
    int status = 0;
    if (result == MANIFEST_OK) {
        log_debug(2, "manifests", "loaded file=%s objects=%zu", file->path, file->holder.claims.n);
    } else if (strict || manifests->path) {
        status = error_set(err, "%s: %s", file->path, why.text ? why.text : strerror(ENOENT));
    } else if (result == MANIFEST_BAD) {
        log_error("manifests", "%s: %s; it is left out until it changes", file->path, why.text);
    }
    error_clear(&why);
    return status;
}

static int first_load(struct manifests *manifests, bool strict, struct error *err)
{
    struct counts counts = {0};
    name_vec names = {0};
    int result = 0;
    if (manifests->path)
        vec_push(&names, xstrdup(last_part(manifests->path)));
    else
        result = list_names(manifests, &names, err);
    for (size_t i = 0; result == 0 && i < names.n; i++)
        result = first_read(manifests, names.v[i], strict, &counts, err);
    names_clear(&names);
    if (result)
        return -1;
    if (manifests->path)
        log_info("manifests", "loaded file=%s " COUNTS_FORMAT, manifests->path,
                 COUNTS_ARGS(&counts));
    else
        log_info("manifests", "loaded folder=%s files=%zu " COUNTS_FORMAT, manifests->folder,
                 counts.files, COUNTS_ARGS(&counts));
    manifest_claims_start(manifests->claims);
    return 0;
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
    manifests->sink = *sink;
    manifests->claims = manifest_claims_new(&manifests->sink, file_inherits, manifests);
    if (set_path(manifests, path, err) || first_load(manifests, strict, err)) {
        manifests_free(manifests);
        return NULL;
    }
    return manifests;
}

/* ---- changes ---- */

/* While the folder is away, so is every file in it, and that means nothing. */
static bool folder_is_there(const struct manifests *manifests)
{
    struct stat status;
    return stat(manifests->folder, &status) == 0 &&
           status.st_dev == manifests->folder_seen.st_dev &&
           status.st_ino == manifests->folder_seen.st_ino;
}

static void look_at_pending(struct manifests *manifests)
{
    bool there = folder_is_there(manifests);
    size_t n = manifests->pending.n; /* heirs come behind them, to be read */
    for (size_t i = 0; i < n; i++) {
        struct file *file = manifests->pending.v[i];
        struct stat status;
        if (file->pending != LOOK)
            continue;
        file->pending = NOTHING;
        if (there && stat(file->path, &status) && (errno == ENOENT || errno == ENOTDIR))
            file_gone(manifests, file);
    }
}

/* All that is gone first: an heir that is gone as well need not be read. */
static void do_pending(struct manifests *manifests)
{
    look_at_pending(manifests);
    for (size_t i = 0; i < manifests->pending.n; i++) {
        struct file *file = manifests->pending.v[i];
        if (file->pending != READ)
            continue;
        file->pending = NOTHING;
        file_reload(manifests, file);
    }
    vec_clear(&manifests->pending);
    vec_each (&manifests->dead, file)
        file_free(*file);
    vec_clear(&manifests->dead);
}

static bool is_same(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino && a->st_size == b->st_size &&
           a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec &&
           a->st_ctim.tv_sec == b->st_ctim.tv_sec && a->st_ctim.tv_nsec == b->st_ctim.tv_nsec;
}

static void check_file(struct manifests *manifests, struct file *file)
{
    struct stat status;
    file->check = manifests->check;
    if (stat(file->path, &status))
        file_pending(manifests, file, LOOK);
    else if (!is_same(&status, &file->seen))
        file_pending(manifests, file, READ);
}

/* Compares every file's status with what was last read. */
static void check_all(struct manifests *manifests)
{
    struct error err = {0};
    name_vec names = {0};
    manifests->check++;
    if (manifests->path) {
        check_file(manifests, file_get(manifests, last_part(manifests->path)));
    } else if (list_names(manifests, &names, &err)) {
        log_error("manifests", "%s; what was loaded from it is kept", err.text);
    } else {
        vec_each (&names, name)
            check_file(manifests, file_get(manifests, *name));
        for (struct file *file = manifests->files; file; file = file->hh.next) {
            if (file->check != manifests->check)
                file_pending(manifests, file, LOOK);
        }
    }
    names_clear(&names);
    error_clear(&err);
}

/* ---- inotify ---- */

#define WATCHED_EVENTS                                                                             \
    (IN_CLOSE_WRITE | IN_MOVED_TO | IN_MOVED_FROM | IN_CREATE | IN_DELETE | IN_DELETE_SELF |       \
     IN_MOVE_SELF)

/* A name that was just made is complete if it is a link: nobody will close it. */
static bool is_link(const struct file *file)
{
    struct stat status;
    return lstat(file->path, &status) == 0 && (S_ISLNK(status.st_mode) || status.st_nlink > 1);
}

static void take_name(struct manifests *manifests, const char *name, uint32_t mask)
{
    if (mask & IN_ISDIR || !is_wanted(manifests, name))
        return;
    struct file *file = file_get(manifests, name);
    if (mask & (IN_MOVED_FROM | IN_DELETE))
        file_pending(manifests, file, LOOK);
    else if (mask & (IN_CLOSE_WRITE | IN_MOVED_TO) || is_link(file))
        file_pending(manifests, file, READ);
}

static void stop_following(struct manifests *manifests)
{
    if (!manifests->loop)
        return;
    ev_io_stop(manifests->loop, &manifests->watcher);
    close(manifests->watcher.fd);
    manifests->loop = NULL;
}

static void lose_folder(struct manifests *manifests)
{
    log_error("manifests",
              "%s: the folder was deleted or moved; its changes are followed no more, what was "
              "loaded from it is kept",
              manifests->folder);
    stop_following(manifests);
    vec_each (&manifests->pending, file)
        (*file)->pending = NOTHING;
    vec_clear(&manifests->pending);
}

/* What a bunch of events says beside single names. */
struct news {
    bool check; /* names are not enough */
    bool lost;  /* the folder itself went */
};

static void take_event(struct manifests *manifests, const struct inotify_event *event,
                       struct news *news)
{
    if (event->mask & (IN_DELETE_SELF | IN_MOVE_SELF | IN_UNMOUNT | IN_IGNORED))
        news->lost = true;
    else if (event->mask & IN_Q_OVERFLOW || (event->len > 1 && strncmp(event->name, "..", 2) == 0))
        news->check = true;
    else if (event->len > 0)
        take_name(manifests, event->name, event->mask);
}

static void take_events(struct manifests *manifests, const char *buffer, size_t length)
{
    struct news news = {0};
    for (const char *p = buffer; p < buffer + length;) {
        const struct inotify_event *event = (const struct inotify_event *)(const void *)p;
        take_event(manifests, event, &news);
        p += sizeof(*event) + event->len;
    }
    if (news.lost) {
        lose_folder(manifests);
        return;
    }
    if (news.check)
        check_all(manifests);
    do_pending(manifests);
}

static void on_events(struct ev_loop *loop, ev_io *watcher, int revents)
{
    (void)loop;
    (void)revents;
    struct manifests *manifests = watcher->data;
    char *buffer = xcalloc(EVENT_BUFFER_SIZE, 1);
    ssize_t n = read(watcher->fd, buffer, EVENT_BUFFER_SIZE);
    if (n > 0)
        take_events(manifests, buffer, (size_t)n);
    else if (n < 0 && errno != EAGAIN && errno != EINTR)
        log_error("manifests", "%s: events cannot be read: %s", manifests->folder, strerror(errno));
    free(buffer);
}

int manifests_follow(struct manifests *manifests, struct ev_loop *loop, struct error *err)
{
    int fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    if (fd < 0)
        return error_set(err, "%s cannot be followed: %s", manifests->folder, strerror(errno));
    if (inotify_add_watch(fd, manifests->folder, WATCHED_EVENTS | IN_ONLYDIR) < 0 ||
        stat(manifests->folder, &manifests->folder_seen)) {
        error_set(err, "%s cannot be followed: %s", manifests->folder, strerror(errno));
        close(fd);
        return -1;
    }
    manifests->loop = loop;
    ev_io_init(&manifests->watcher, on_events, fd, EV_READ);
    manifests->watcher.data = manifests;
    ev_io_start(loop, &manifests->watcher);
    check_all(manifests);
    do_pending(manifests);
    return 0;
}

void manifests_free(struct manifests *manifests)
{
    if (!manifests)
        return;
    stop_following(manifests);
    struct file *file, *after;
    HASH_ITER(hh, manifests->files, file, after)
    {
        HASH_DEL(manifests->files, file);
        file_free(file);
    }
    manifest_claims_free(manifests->claims);
    vec_free(&manifests->pending);
    vec_free(&manifests->dead);
    free(manifests->folder);
    free(manifests->path);
    free(manifests);
}
