/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The files of a folder, which file owns which object, and when to read which file.
 *
 * inotify reports names in the folder once a file is complete: closed, moved into place, or a link.
 * Everything else is polled every second: the targets of links, and whether the folder's path still
 * leads to the same folder. A change counts when two polls agree, since a file may be being written
 * or a folder being filled. All files are compared by status after lost events and on request.
 *
 * An event only says that a file may have changed; its current state decides. One exception: a file
 * that was deleted or moved away and exists again is not read, because its writer will close it.
 * Events are collected and processed together, since an object may move from one file to another.
 *
 * Objects are not kept, only the files that define them: of several files the one whose path sorts
 * first is the owner. When the owner drops an object, the other files are read again; until then
 * the sink keeps the old version.
 *
 * Initial contents are passed on as a whole. With MANIFESTS_WHOLE they wait for files that cannot
 * be read: then every change reads all files anew, since nothing of them is kept.
 */
#include "kube-nftd/source.h"

#include "manifest_file.h"

#include <dirent.h>
#include <errno.h>
#include <ev.h>
#include <stdio.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#define LOG "manifests"
/* Seconds between two polls. */
#define POLL_INTERVAL 1.0
/* A replaced folder is complete after this many quiet seconds. */
#define FILLING_TIME 2.0

#define EVENT_BUFFER_SIZE ((size_t)64 * 1024)
#define WATCHED_EVENTS                                                                             \
    (IN_CLOSE_WRITE | IN_MOVED_TO | IN_MOVED_FROM | IN_CREATE | IN_DELETE | IN_DELETE_SELF |       \
     IN_MOVE_SELF | IN_ONLYDIR)

/* An object that some file defines. */
struct definition {
    struct hash_link link;    /* by id */
    const struct file *owner; /* NULL: the owner dropped it, and no other file was read since */
    size_t files;             /* number of files that define it */
    enum object_kind kind;
    unsigned pass; /* the last pass that found it */
    size_t slot;   /* its index in that pass */
    char id[];
};

typedef VEC(struct definition *) definition_vec;

struct file {
    char *path;
    definition_vec defs;
    struct stat status; /* status when last read; zero: never */
    struct stat polled; /* status at the last poll */
    bool changed;       /* to be read, or gone */
    bool is_link;
    bool gone;     /* to be freed after processing */
    char *problem; /* why it is not read as it is, as logged; NULL: it is */
    bool unlogged; /* what follows from the problem is not known yet */
};

enum manifests_state {
    WAITING, /* nothing was passed on: some files cannot be read */
    PARTIAL, /* passed on without the files that cannot be read */
    WHOLE,   /* all files have been read */
};

/* What was read. */
struct counts {
    size_t files;
    size_t objects[KIND_COUNT];
    size_t bad; /* of those, undecodable ones */
};

struct manifests {
    struct object_sink sink;
    char *folder;             /* the watched folder */
    char *path;               /* the single file; NULL: all files of the folder */
    const char *name;         /* its last component */
    VEC(struct file *) files; /* sorted by path */

    struct hash_table by_id[KIND_COUNT];
    unsigned pass; /* counts file reads */
    bool orphans;  /* some objects have no owner yet */
    enum manifests_state state;
    object_vec first[KIND_COUNT]; /* collected until they are passed on; of these: */
    struct counts first_counts;
    char *problem; /* see manifests_problem() */

    struct reading_pauses pauses; /* in manifests_open() */
    struct ev_loop *loop;         /* NULL: not following */
    ev_io events;                 /* of inotify */
    ev_timer poll;
    int wd;                    /* of the folder; -1: none */
    struct stat folder_status; /* of the watched folder */
    bool lost;                 /* the folder is gone, which was logged */
    bool filling;              /* the folder was replaced and may be incomplete */
    double quiet_since;        /* time of its last event */
};

/* ---- owners ---- */

static struct hash_key file_object_key(const struct hash_link *link)
{
    return hash_key_of_text(((const struct definition *)link)->id);
}

static struct definition *definition_get(struct manifests *m, const struct object *object)
{
    struct hash_key id = hash_key_of_text(object->id);
    struct definition *def = hash_table_find(&m->by_id[object->kind], file_object_key, id);
    if (!def) {
        def = xcalloc(1, sizeof(*def) + id.length + 1);
        def->kind = object->kind;
        memcpy(def->id, id.bytes, id.length);
        hash_table_add(&m->by_id[object->kind], file_object_key, &def->link);
    }
    return def;
}

static void definition_free(struct manifests *m, struct definition *def)
{
    hash_table_remove(&m->by_id[def->kind], &def->link);
    free(def);
}

/* Records the objects of @file, each once, with the slot of the last. */
static void name_objects(struct manifests *m, struct file *file, object_vec *objects)
{
    m->pass++;
    vec_reserve(&file->defs, objects->n);
    for (size_t i = 0; i < objects->n; i++) {
        struct definition *def = definition_get(m, &objects->v[i]);
        if (def->pass == m->pass) {
            log_warn(LOG, "%s: %s %s is a duplicate; the last one is used", file->path,
                     object_kind_name(def->kind), def->id);
            object_clear(&objects->v[def->slot]);
        } else {
            vec_push(&file->defs, def);
            def->files++;
        }
        if (!def->owner || strcmp(file->path, def->owner->path) < 0)
            def->owner = file;
        def->pass = m->pass;
        def->slot = i;
    }
}

/* Drops objects that @file defined @before but not in this pass. */
static void drop_objects(struct manifests *m, const struct file *file, definition_vec *before)
{
    vec_each (before, it) {
        struct definition *def = *it;
        if (--def->files == 0) {
            m->sink.remove(m->sink.ctx, def->kind, def->id);
            definition_free(m, def);
        } else if (def->owner == file && def->pass != m->pass) {
            def->owner = NULL;
            m->orphans = true;
        }
    }
    vec_free(before);
}

/* Passes the objects that @file owns to the sink. */
static void put_objects(struct manifests *m, const struct file *file, object_vec *objects)
{
    size_t shared = 0;
    const struct definition *first = NULL;
    vec_each (&file->defs, it) {
        struct object *object = &objects->v[(*it)->slot];
        if ((*it)->files > 1 && shared++ == 0)
            first = *it;
        if ((*it)->owner != file)
            continue;
        if (m->state != WAITING) {
            m->sink.put(m->sink.ctx, object);
        } else {
            vec_push(&m->first[object->kind], *object);
            *object = (struct object){0};
        }
    }
    if (shared > 0)
        log_warn(LOG,
                 "%s: objects are also in other files; the file that sorts first is used "
                 "objects=%zu first=\"%s %s\" from=%s",
                 file->path, shared, object_kind_name(first->kind), first->id, first->owner->path);
}

/* Replaces the objects of @file with @objects, which are taken. Removals come first: a new object
 * may use the address of an old one. */
static void set_objects(struct manifests *m, struct file *file, object_vec *objects)
{
    definition_vec before = file->defs;
    file->defs = (definition_vec){0};
    name_objects(m, file, objects);
    drop_objects(m, file, &before);
    put_objects(m, file, objects);
    object_vec_clear(objects);
}

/* ---- files ---- */

/* Whether a file of a folder is read. */
static bool is_manifest(const char *name)
{
    const char *dot = strrchr(name, '.');
    return dot && name[0] != '.' &&
           (strcmp(dot, ".yaml") == 0 || strcmp(dot, ".yml") == 0 || strcmp(dot, ".json") == 0);
}

static int filter(const struct dirent *entry)
{
    return is_manifest(entry->d_name);
}

/* Finds the file of that name, or inserts it in order. */
static struct file *file_get(struct manifests *m, const char *name)
{
    char *path = m->path ? xstrdup(m->path) : xasprintf("%s/%s", m->folder, name);
    size_t low = 0, high = m->files.n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (strcmp(m->files.v[middle]->path, path) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    if (low < m->files.n && strcmp(m->files.v[low]->path, path) == 0) {
        free(path);
        return m->files.v[low];
    }
    struct file *file = xcalloc(1, sizeof(*file));
    file->path = path;
    vec_push(&m->files, file);
    memmove(&m->files.v[low + 1], &m->files.v[low], (m->files.n - 1 - low) * sizeof(file));
    m->files.v[low] = file;
    return file;
}

static void file_free(struct file *file)
{
    vec_free(&file->defs);
    free(file->problem);
    free(file->path);
    free(file);
}

/* For a folder, also logs the number of files. */
static void log_loaded(bool folder, const char *path, const struct counts *counts)
{
    char files[32] = "";
    if (folder)
        snprintf(files, sizeof(files), " files=%zu", counts->files);
    log_info(LOG, "loaded %s=%s%s services=%zu slices=%zu cidrs=%zu nodes=%zu bad=%zu",
             folder ? "folder" : "file", path, files, counts->objects[KIND_SERVICE],
             counts->objects[KIND_ENDPOINTSLICE], counts->objects[KIND_SERVICECIDR],
             counts->objects[KIND_NODE], counts->bad);
}

/* Returns whether @problem (NULL: none) is another one than before. */
static bool set_problem(struct file *file, const char *problem)
{
    bool same = file->problem && problem && strcmp(file->problem, problem) == 0;
    char *before = file->problem;
    file->problem = problem ? xstrdup(problem) : NULL;
    free(before);
    return !same;
}

static const char *why_missing(const struct file *file)
{
    return file->is_link ? "the link points to no file" : "the file is gone";
}

/* Reads @file, replaces its objects and adds them to @counts. */
static enum manifest_result read_file(struct manifests *m, struct file *file, struct counts *counts,
                                      struct error *err)
{
    object_vec objects = {0};
    struct stat status = {0};
    enum manifest_result result =
        manifest_file_read(file->path, &m->pauses, &objects, &status, err);
    struct stat itself;
    file->is_link = lstat(file->path, &itself) == 0 && S_ISLNK(itself.st_mode);
    file->status = status;
    file->changed = false;
    if (result != MANIFEST_OK)
        return result;
    set_problem(file, NULL);
    counts->files++;
    vec_each (&objects, object) {
        counts->objects[object->kind]++;
        counts->bad += !object->payload;
    }
    set_objects(m, file, &objects);
    return result;
}

/* Whether the path still leads to the folder that is watched. */
static bool folder_is_watched(const struct manifests *m)
{
    struct stat status;
    return m->wd >= 0 && stat(m->folder, &status) == 0 &&
           status.st_dev == m->folder_status.st_dev && status.st_ino == m->folder_status.st_ino;
}

/* The path leads to no file: it was deleted, or is a dangling link, or the folder is missing. Only
 * a deletion removes the objects, and not those of a single file. */
static void handle_missing(struct manifests *m, struct file *file)
{
    struct stat status;
    size_t objects = file->defs.n;
    file->is_link = lstat(file->path, &status) == 0;
    if (!folder_is_watched(m))
        return;
    if (!m->path && !file->is_link) {
        object_vec none = {0};
        set_objects(m, file, &none);
        if (objects > 0)
            log_info(LOG, "the file is gone, removing its objects file=%s objects=%zu", file->path,
                     objects);
        file->gone = true;
        return;
    }
    if (set_problem(file, why_missing(file)))
        log_warn(LOG, "%s: %s; its objects stay active objects=%zu", file->path, file->problem,
                 objects);
    file->status = (struct stat){0};
}

static void reload(struct manifests *m, struct file *file)
{
    struct error err = {0};
    struct counts counts = {0};
    enum manifest_result result = read_file(m, file, &counts, &err);
    if (result == MANIFEST_OK)
        log_loaded(false, file->path, &counts);
    else if (result == MANIFEST_GONE)
        handle_missing(m, file);
    else {
        set_problem(file, err.text);
        log_error(LOG, "%s: %s; its previous objects stay active objects=%zu", file->path, err.text,
                  file->defs.n);
    }
    error_clear(&err);
}

/* ---- changes ---- */

static void mark_all(struct manifests *m, bool changed)
{
    vec_each (&m->files, file)
        (*file)->changed = changed;
}

/* Whether the path leads to no file. */
static bool leads_nowhere(const char *path)
{
    struct stat status;
    return stat(path, &status) && (errno == ENOENT || errno == ENOTDIR || errno == ELOOP);
}

/* Compares all files with what was read of them. */
static int compare_files(struct manifests *m, struct error *err)
{
    struct dirent **entries = NULL;
    int n = m->path ? 1 : scandir(m->folder, &entries, filter, alphasort);
    if (n < 0)
        return error_set(err, "%s: %s", m->folder, strerror(errno));
    /* An empty replacement may be a mount point without its file system. */
    if (n == 0 && m->filling) {
        free(entries);
        return 0;
    }
    m->filling = false;
    mark_all(m, true); /* gone unless found below */
    for (int i = 0; i < n; i++) {
        struct stat status;
        struct file *file = file_get(m, entries ? entries[i]->d_name : NULL);
        file->changed = stat(file->path, &status) ? leads_nowhere(file->path)
                                                  : !file_is_same(&status, &file->status);
        if (entries)
            free(entries[i]);
    }
    free(entries);
    return 0;
}

/* Polls the targets of links. @patient: wait for a second poll, the file may be being written. */
static void compare_links(struct manifests *m, bool patient)
{
    if (m->lost || m->filling)
        return;
    vec_each (&m->files, it) {
        struct file *file = *it;
        struct stat status;
        if (!file->is_link || file->changed)
            continue;
        if (stat(file->path, &status)) {
            file->changed = leads_nowhere(file->path);
        } else {
            bool stable = !patient || file_is_same(&status, &file->polled);
            file->changed = stable && !file_is_same(&status, &file->status);
            file->polled = status;
        }
    }
}

/* Marks the files that define objects without an owner. */
static void mark_new_owners(struct manifests *m)
{
    if (!m->orphans)
        return;
    m->orphans = false;
    vec_each (&m->files, file) {
        vec_each (&(*file)->defs, def) {
            if (!(*def)->owner)
                (*file)->changed = true;
        }
    }
}

static void free_gone_files(struct manifests *m)
{
    size_t kept = 0;
    vec_each (&m->files, file) {
        if ((*file)->gone)
            file_free(*file);
        else
            m->files.v[kept++] = *file;
    }
    m->files.n = kept;
}

/* Once everything was passed on. */
static void apply_changes(struct manifests *m)
{
    /* Missing files first: removals precede additions, and a new owner may be missing too. */
    vec_each (&m->files, file) {
        if (!(*file)->changed || !leads_nowhere((*file)->path))
            continue;
        (*file)->changed = false;
        handle_missing(m, *file);
    }
    do {
        mark_new_owners(m);
        vec_each (&m->files, file) {
            if ((*file)->changed)
                reload(m, *file);
        }
    } while (m->orphans);
    free_gone_files(m);
}

/* ---- the initial contents ---- */

/* Forgets all that was read. */
static void forget_objects(struct manifests *m)
{
    vec_each (&m->files, file)
        vec_clear(&(*file)->defs);
    for (int kind = 0; kind < KIND_COUNT; kind++) {
        hash_table_each (&m->by_id[kind], struct definition, def)
            definition_free(m, def);
        object_vec_clear(&m->first[kind]);
    }
    m->orphans = false;
}

/* Looks for the current problem. */
static void judge(struct manifests *m)
{
    const struct file *first = NULL;
    size_t n = 0;
    vec_each (&m->files, file) {
        first = !first && (*file)->problem ? *file : first;
        n += (*file)->problem != NULL;
    }
    free(m->problem);
    m->problem = NULL;
    if (m->lost)
        m->problem = xasprintf("%s: the folder is gone", m->folder);
    else if (m->filling)
        m->problem = xasprintf("%s: the folder was replaced and is not filled yet", m->folder);
    else if (m->state == WAITING && m->files.n == 0)
        m->problem = xasprintf("%s: the folder has no manifests", m->folder);
    else if (n > 1)
        m->problem = xasprintf("%s: %s (and %zu more files)", first->path, first->problem, n - 1);
    else if (n > 0)
        m->problem = xasprintf("%s: %s", first->path, first->problem);
    if (m->state == PARTIAL && !m->problem)
        m->state = WHOLE;
}

static void log_problems(const struct manifests *m, const char *consequence)
{
    vec_each (&m->files, file) {
        if ((*file)->problem && (*file)->unlogged)
            log_error(LOG, "%s: %s; %s", (*file)->path, (*file)->problem, consequence);
        (*file)->unlogged = false;
    }
}

static void pass_on(struct manifests *m)
{
    log_problems(m, "skipped until it changes");
    log_loaded(!m->path, m->path ? m->path : m->folder, &m->first_counts);
    m->state = PARTIAL;
    judge(m);
    for (int kind = 0; kind < KIND_COUNT; kind++) {
        m->sink.replace(m->sink.ctx, (enum object_kind)kind, &m->first[kind]);
        object_vec_clear(&m->first[kind]);
    }
}

/* Reads all files anew, and passes them on as @mode says: else manifests_begin() does. */
static int load_folder(struct manifests *m, enum manifests_mode mode, struct error *err)
{
    m->first_counts = (struct counts){.files = 0};
    forget_objects(m);
    vec_each (&m->files, it) {
        struct file *file = *it;
        enum manifest_result result = read_file(m, file, &m->first_counts, err);
        if (result == MANIFEST_GONE)
            error_set(err, "%s", why_missing(file));
        if (result != MANIFEST_OK && mode == MANIFESTS_STRICT)
            return error_prefix(err, "%s", file->path);
        if (result != MANIFEST_OK && set_problem(file, err->text))
            file->unlogged = true;
        error_clear(err);
    }
    judge(m);
    if (!m->problem || mode != MANIFESTS_WHOLE)
        pass_on(m);
    return 0;
}

/* While nothing was passed on. */
static void load_again(struct manifests *m)
{
    struct error err = {0};
    struct stat status;
    bool any = false;
    vec_each (&m->files, it) {
        struct file *file = *it;
        any = any || file->changed;
        file->gone = file->changed && lstat(file->path, &status) && errno == ENOENT;
    }
    if (!any || m->lost || m->filling)
        return;
    free_gone_files(m);
    load_folder(m, MANIFESTS_WHOLE, &err);
    error_clear(&err);
}

static void process_changes(struct manifests *m)
{
    if (m->state == WAITING)
        load_again(m);
    else
        apply_changes(m);
    judge(m);
}

/* ---- the folder ---- */

static bool watch_folder(struct manifests *m)
{
    m->wd = -1;
    if (stat(m->folder, &m->folder_status) == 0)
        m->wd = inotify_add_watch(m->events.fd, m->folder, WATCHED_EVENTS);
    return m->wd >= 0;
}

/* Looks up the folder by its path and watches it. Pending changes concern the old folder. */
static void find_folder(struct manifests *m)
{
    if (folder_is_watched(m))
        return;
    if (m->wd >= 0)
        inotify_rm_watch(m->events.fd, m->wd);
    mark_all(m, false);
    if (!watch_folder(m)) {
        if (!m->lost)
            log_error(LOG, "%s: the folder is gone (%s); its objects stay active until it is back",
                      m->folder, strerror(errno));
        m->lost = true;
        return;
    }
    log_info(LOG, "the folder was replaced, comparing it once it is quiet folder=%s", m->folder);
    m->lost = false;
    m->filling = true;
    m->quiet_since = ev_now(m->loop);
}

static void compare_all(struct manifests *m)
{
    struct error err = {0};
    if (!m->lost && compare_files(m, &err))
        log_error(LOG, "%s; its previous objects stay active", err.text);
    error_clear(&err);
}

static void on_poll(struct ev_loop *loop, ev_timer *timer, int revents)
{
    struct manifests *m = timer->data;
    (void)revents;
    find_folder(m);
    if (m->filling && ev_now(loop) - m->quiet_since >= FILLING_TIME)
        compare_all(m);
    else
        compare_links(m, true);
    process_changes(m);
}

/* ---- events ---- */

/* Handles an event for @name in the folder. Returns whether links may point there. */
static bool take_name(struct manifests *m, const char *name, uint32_t mask)
{
    char *path = xasprintf("%s/%s", m->folder, name);
    struct stat status;
    bool exists = lstat(path, &status) == 0;
    /* Not complete, or not the file that went: its writer will close it. */
    bool being_written = exists && S_ISREG(status.st_mode) && status.st_nlink == 1;
    free(path);
    m->quiet_since = ev_now(m->loop);
    if (mask & IN_CREATE && being_written)
        return false;
    if (m->path ? strcmp(m->name, name) != 0 : !is_manifest(name))
        return true;
    if (!(mask & IN_ISDIR) && !(mask & (IN_MOVED_FROM | IN_DELETE) && exists))
        file_get(m, name)->changed = true;
    return false;
}

static void on_events(struct ev_loop *loop, ev_io *io, int revents)
{
    struct manifests *m = io->data;
    char *buffer = xcalloc(EVENT_BUFFER_SIZE, 1);
    bool lost_events = false, of_links = false;
    (void)loop;
    (void)revents;
    ssize_t n = read(io->fd, buffer, EVENT_BUFFER_SIZE);
    if (n < 0 && errno != EAGAIN && errno != EINTR)
        log_error(LOG, "%s: cannot read events: %s", m->folder, strerror(errno));
    for (const char *p = buffer; n > 0 && p < buffer + n;) {
        const struct inotify_event *event = (const struct inotify_event *)(const void *)p;
        p += sizeof(*event) + event->len;
        lost_events |= (event->mask & IN_Q_OVERFLOW) != 0;
        if (event->wd != m->wd) /* of a folder no longer watched */
            continue;
        if (event->len > 0)
            of_links |= take_name(m, event->name, event->mask);
        if (event->mask & IN_IGNORED)
            m->wd = -1; /* removed by the kernel */
        if (event->mask & (IN_DELETE_SELF | IN_MOVE_SELF | IN_UNMOUNT | IN_IGNORED))
            find_folder(m);
    }
    free(buffer);
    if (lost_events && !m->filling)
        compare_all(m);
    else if (of_links)
        compare_links(m, false);
    process_changes(m);
}

/* ---- the first load ---- */

/* A single file is watched through its folder. */
static int set_path(struct manifests *m, const char *path, struct error *err)
{
    struct stat status;
    if (stat(path, &status))
        return error_set(err, "%s: %s", path, strerror(errno));
    size_t length = strlen(path);
    if (!S_ISDIR(status.st_mode)) {
        m->path = xstrdup(path);
        const char *slash = strrchr(m->path, '/');
        m->name = slash ? slash + 1 : m->path;
        length = (size_t)(m->name - m->path);
    }
    while (length > 1 && path[length - 1] == '/')
        length--;
    m->folder = length == 0 ? xstrdup(".") : xstrndup(path, length);
    return 0;
}

static int first_load(struct manifests *m, enum manifests_mode mode, struct error *err)
{
    /* A single file is there, or there is nothing to follow. */
    if (compare_files(m, err) || load_folder(m, m->path ? MANIFESTS_STRICT : mode, err))
        return -1;
    if (m->files.n == 0 && m->problem)
        log_error(LOG, "%s; waiting for one", m->problem);
    return 0;
}

struct manifests *manifests_open(const char *path, const struct object_sink *sink,
                                 enum manifests_mode mode, struct ev_loop *between,
                                 struct error *err)
{
    struct manifests *m = xcalloc(1, sizeof(*m));
    m->sink = *sink;
    m->pauses.loop = between;
    const bool loaded = set_path(m, path, err) == 0 && first_load(m, mode, err) == 0;
    m->pauses.loop = NULL;
    if (loaded)
        return m;
    manifests_free(m);
    return NULL;
}

bool manifests_begin(struct manifests *m, bool previous)
{
    if (!m || m->state != WAITING)
        return false;
    if (previous) {
        log_problems(m, "no file is used until all can be read, since a table of the previous "
                        "process is active");
        return false;
    }
    pass_on(m);
    return true;
}

const char *manifests_problem(const struct manifests *m)
{
    return m->problem;
}

bool manifests_are_whole(const struct manifests *m)
{
    return m->state == WHOLE;
}

/* ---- following ---- */

int manifests_follow(struct manifests *m, struct ev_loop *loop, struct error *err)
{
    int fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    ev_io_init(&m->events, on_events, fd, EV_READ);
    if (fd < 0 || !watch_folder(m)) {
        error_set(err, "cannot follow %s: %s", m->folder, strerror(errno));
        if (fd >= 0)
            close(fd);
        return -1;
    }
    m->loop = loop;
    ev_timer_init(&m->poll, on_poll, POLL_INTERVAL, POLL_INTERVAL);
    m->events.data = m->poll.data = m;
    ev_io_start(loop, &m->events);
    ev_timer_start(loop, &m->poll);
    manifests_rescan(m);
    return 0;
}

bool manifests_rescan(struct manifests *m)
{
    find_folder(m);
    compare_all(m);
    process_changes(m);
    return !m->lost && !m->filling;
}

void manifests_free(struct manifests *m)
{
    if (!m)
        return;
    if (m->loop) {
        ev_timer_stop(m->loop, &m->poll);
        ev_io_stop(m->loop, &m->events);
        close(m->events.fd);
    }
    forget_objects(m);
    vec_each (&m->files, file)
        file_free(*file);
    vec_free(&m->files);
    free(m->problem);
    free(m->folder);
    free(m->path);
    free(m);
}
