/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The files of a folder: when to read which.
 *
 * manifest_folder.h says what may have changed. All files are compared by status
 * (manifest_files.h) after lost events and on request. What they define goes to the sink by way of
 * manifest_owners.h.
 *
 * Initial contents are passed on as a whole. With MANIFESTS_WHOLE they wait for files that cannot
 * be read: then every change reads all files anew, since nothing of them is kept.
 */
#include "kube-nftd/source.h"

#include "manifest_file.h"
#include "manifest_files.h"
#include "manifest_folder.h"
#include "manifest_owners.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

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
    struct manifest_folder folder;
    struct manifest_files files;
    struct manifest_owners owners;
    const struct followed_file *last; /* that is read in this turn; NULL: not known yet */

    enum manifests_state state;
    object_vec first[KIND_COUNT]; /* collected until they are passed on; of these: */
    struct counts first_counts;
    char *problem; /* see manifests_problem() */

    struct reading_pauses pauses; /* in manifests_open() */
};

/* ---- one file ---- */

/* For a folder, also logs the number of files. */
static void log_loaded(bool folder, const char *path, const struct counts *counts)
{
    char files[32] = "";
    if (folder)
        snprintf(files, sizeof(files), " files=%zu", counts->files);
    log_info("source", "loaded %s=%s%s services=%zu slices=%zu cidrs=%zu nodes=%zu bad=%zu",
             folder ? "folder" : "file", path, files, counts->objects[KIND_SERVICE],
             counts->objects[KIND_ENDPOINTSLICE], counts->objects[KIND_SERVICECIDR],
             counts->objects[KIND_NODE], counts->bad);
}

/* Returns whether @problem (NULL: none) is another one than before. */
static bool set_problem(struct followed_file *file, const char *problem)
{
    bool same = file->problem && problem && strcmp(file->problem, problem) == 0;
    char *before = file->problem;
    file->problem = problem ? xstrdup(problem) : NULL;
    free(before);
    return !same;
}

static const char *why_missing(const struct followed_file *file)
{
    return file->is_link ? "the link points to no file" : "the file is gone";
}

/* Until the initial contents are complete. */
static void collect(void *ctx, struct object *object)
{
    struct manifests *m = ctx;
    vec_push(&m->first[object->kind], *object);
    *object = (struct object){0};
}

/* Takes @objects. Before the first contents are passed on, nothing is removed: all is read anew. */
static void set_objects(struct manifests *m, struct followed_file *file, object_vec *objects)
{
    const struct object_sink first = {.ctx = m, .put = collect};
    owners_set(&m->owners, &file->definer, objects, file != m->last,
               m->state == WAITING ? &first : &m->sink);
}

/* Reads @file, replaces its objects and adds them to @counts. */
static enum manifest_result read_file(struct manifests *m, struct followed_file *file,
                                      struct counts *counts, struct error *err)
{
    object_vec objects = {0};
    struct stat status = {0};
    enum manifest_result result =
        manifest_file_read(file->definer.path, &m->pauses, &objects, &status, err);
    struct stat itself;
    file->is_link = lstat(file->definer.path, &itself) == 0 && S_ISLNK(itself.st_mode);
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

/* The path leads to no file: it was deleted, or is a dangling link, or the folder is missing. Only
 * a deletion removes the objects, and not those of a single file. */
static void handle_missing(struct manifests *m, struct followed_file *file)
{
    struct stat status;
    size_t objects = file->definer.defs.n;
    file->is_link = lstat(file->definer.path, &status) == 0;
    if (!folder_is_watched(&m->folder))
        return;
    if (!m->files.single && !file->is_link) {
        object_vec none = {0};
        set_objects(m, file, &none);
        if (objects > 0)
            log_info("source",
                     "the file is gone, and its objects that no other file has file=%s "
                     "objects=%zu",
                     file->definer.path, objects);
        file->gone = true;
        return;
    }
    if (set_problem(file, why_missing(file)))
        log_warn("source", "%s: %s; its objects stay active objects=%zu", file->definer.path,
                 file->problem, objects);
    file->status = (struct stat){0};
}

static void reload(struct manifests *m, struct followed_file *file)
{
    struct error err = {0};
    struct counts counts = {0};
    enum manifest_result result = read_file(m, file, &counts, &err);
    if (result == MANIFEST_OK)
        log_loaded(false, file->definer.path, &counts);
    else if (result == MANIFEST_GONE)
        handle_missing(m, file);
    else {
        set_problem(file, err.text);
        log_error("source", "%s: %s; its previous objects stay active objects=%zu",
                  file->definer.path, err.text, file->definer.defs.n);
    }
    error_clear(&err);
}

/* ---- changes ---- */

/* Marks the files that define objects without an owner. */
static void mark_new_owners(struct manifests *m)
{
    if (!owners_next_round(&m->owners))
        return;
    vec_each (&m->files.list, file)
        (*file)->changed = (*file)->changed || owners_need(&(*file)->definer);
}

/* Once everything was passed on. */
static void apply_changes(struct manifests *m)
{
    /* Missing files first: a new owner may be missing too. */
    m->last = NULL;
    vec_each (&m->files.list, file) {
        if (!(*file)->changed || !leads_nowhere((*file)->definer.path))
            continue;
        (*file)->changed = false;
        handle_missing(m, *file);
    }
    do {
        mark_new_owners(m);
        m->last = manifest_files_last_changed(&m->files);
        vec_each (&m->files.list, file) {
            if ((*file)->changed)
                reload(m, *file);
        }
    } while (m->owners.orphans);
    owners_remove_abandoned(&m->owners, &m->sink);
    manifest_files_drop_gone(&m->files);
}

/* ---- the initial contents ---- */

/* Forgets all that was read. */
static void forget_objects(struct manifests *m)
{
    vec_each (&m->files.list, file)
        definer_forget(&(*file)->definer);
    owners_forget(&m->owners);
    for (int kind = 0; kind < KIND_COUNT; kind++)
        object_vec_clear(&m->first[kind]);
}

/* Looks for the current problem. */
static void judge(struct manifests *m)
{
    const struct followed_file *first = NULL;
    size_t n = 0;
    vec_each (&m->files.list, file) {
        first = !first && (*file)->problem ? *file : first;
        n += (*file)->problem != NULL;
    }
    free(m->problem);
    m->problem = NULL;
    if (m->folder.state == FOLDER_GONE)
        m->problem = xasprintf("%s: the folder is gone", m->folder.path);
    else if (m->folder.state == FOLDER_FILLING)
        m->problem = xasprintf("%s: the folder was replaced and is not filled yet", m->folder.path);
    else if (m->state == WAITING && m->files.list.n == 0)
        m->problem = xasprintf("%s: the folder has no manifests", m->folder.path);
    else if (n > 1)
        m->problem =
            xasprintf("%s: %s (and %zu more files)", first->definer.path, first->problem, n - 1);
    else if (n > 0)
        m->problem = xasprintf("%s: %s", first->definer.path, first->problem);
    if (m->state == PARTIAL && !m->problem)
        m->state = WHOLE;
}

static void log_problems(const struct manifests *m, const char *consequence)
{
    vec_each (&m->files.list, file) {
        if ((*file)->problem && (*file)->unlogged)
            log_error("source", "%s: %s; %s", (*file)->definer.path, (*file)->problem, consequence);
        (*file)->unlogged = false;
    }
}

static void pass_on(struct manifests *m)
{
    log_problems(m, "skipped until it changes");
    log_loaded(!m->files.single, m->files.single ? m->files.single : m->folder.path,
               &m->first_counts);
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
    vec_each (&m->files.list, it) {
        struct followed_file *file = *it;
        enum manifest_result result = read_file(m, file, &m->first_counts, err);
        if (result == MANIFEST_GONE)
            error_set(err, "%s", why_missing(file));
        if (result != MANIFEST_OK && mode == MANIFESTS_STRICT)
            return error_prefix(err, "%s", file->definer.path);
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
    vec_each (&m->files.list, it) {
        struct followed_file *file = *it;
        any = any || file->changed;
        file->gone = file->changed && lstat(file->definer.path, &status) && errno == ENOENT;
    }
    if (!any || m->folder.state != FOLDER_WATCHED)
        return;
    manifest_files_drop_gone(&m->files);
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

/* ---- news of the folder ---- */

/* Compares all files with what was read of them. */
static int compare_files(struct manifests *m, struct error *err)
{
    const bool filling = m->folder.state == FOLDER_FILLING;
    const int n = manifest_files_compare(&m->files, filling, err);
    if (n > 0 || (n == 0 && !filling))
        folder_filled(&m->folder);
    return n < 0 ? -1 : 0;
}

static void compare_all(struct manifests *m)
{
    struct error err = {0};
    if (m->folder.state != FOLDER_GONE && compare_files(m, &err))
        log_error("source", "%s; its previous objects stay active", err.text);
    error_clear(&err);
}

static void on_turn(void *ctx, enum folder_news news)
{
    struct manifests *m = ctx;
    if (news == NEWS_ALL)
        compare_all(m);
    else if (news != NEWS_NAMES && m->folder.state == FOLDER_WATCHED)
        manifest_files_compare_links(&m->files, news == NEWS_POLL);
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
        const char *slash = strrchr(path, '/');
        m->files.single = xstrdup(path);
        length = slash ? (size_t)(slash + 1 - path) : 0;
    }
    while (length > 1 && path[length - 1] == '/')
        length--;
    m->folder.path = length == 0 ? xstrdup(".") : xstrndup(path, length);
    m->files.folder = m->folder.path;
    return 0;
}

static int first_load(struct manifests *m, enum manifests_mode mode, struct error *err)
{
    /* A single file is there, or there is nothing to follow. */
    if (compare_files(m, err) || load_folder(m, m->files.single ? MANIFESTS_STRICT : mode, err))
        return -1;
    if (m->files.list.n == 0 && m->problem)
        log_error("source", "%s; waiting for one", m->problem);
    return 0;
}

struct manifests *manifests_open(const char *path, const struct object_sink *sink,
                                 enum manifests_mode mode, struct ev_loop *between,
                                 struct error *err)
{
    struct manifests *m = xcalloc(1, sizeof(*m));
    m->sink = *sink;
    m->folder.files = &m->files;
    m->folder.turn = on_turn;
    m->folder.ctx = m;
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
    if (folder_follow(&m->folder, loop, err))
        return -1;
    manifests_rescan(m);
    return 0;
}

bool manifests_rescan(struct manifests *m)
{
    folder_find(&m->folder);
    compare_all(m);
    process_changes(m);
    return m->folder.state == FOLDER_WATCHED;
}

void manifests_free(struct manifests *m)
{
    if (!m)
        return;
    forget_objects(m);
    manifest_files_clear(&m->files);
    free(m->problem);
    folder_clear(&m->folder);
    free(m);
}
