/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The files of a folder: when to read which.
 *
 * manifest_folder.h says what may have changed. All files are compared by status after lost events
 * and on request; a link's target counts as changed when two polls agree, since a file may be being
 * written. What the files define goes to the sink by way of manifest_owners.h.
 *
 * Initial contents are passed on as a whole. With MANIFESTS_WHOLE they wait for files that cannot
 * be read: then every change reads all files anew, since nothing of them is kept.
 */
#include "kube-nftd/source.h"

#include "manifest_file.h"
#include "manifest_folder.h"
#include "manifest_owners.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

struct file {
    struct definer definer; /* has its path */
    struct stat status;     /* status when last read; zero: never */
    struct stat polled;     /* status at the last poll */
    bool changed;           /* to be read, or gone */
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
    struct manifest_folder folder;
    char *path;               /* the single file; NULL: all files of the folder */
    const char *name;         /* its last component */
    VEC(struct file *) files; /* sorted by path */
    struct manifest_owners owners;

    enum manifests_state state;
    object_vec first[KIND_COUNT]; /* collected until they are passed on; of these: */
    struct counts first_counts;
    char *problem; /* see manifests_problem() */

    struct reading_pauses pauses; /* in manifests_open() */
};

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
    char *path = m->path ? xstrdup(m->path) : xasprintf("%s/%s", m->folder.path, name);
    size_t low = 0, high = m->files.n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (strcmp(m->files.v[middle]->definer.path, path) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    if (low < m->files.n && strcmp(m->files.v[low]->definer.path, path) == 0) {
        free(path);
        return m->files.v[low];
    }
    struct file *file = xcalloc(1, sizeof(*file));
    file->definer.path = path;
    vec_push(&m->files, file);
    memmove(&m->files.v[low + 1], &m->files.v[low], (m->files.n - 1 - low) * sizeof(file));
    m->files.v[low] = file;
    return file;
}

static void file_free(struct file *file)
{
    definer_forget(&file->definer);
    free(file->problem);
    free(file->definer.path);
    free(file);
}

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

/* Until the initial contents are complete. */
static void collect(void *ctx, struct object *object)
{
    struct manifests *m = ctx;
    vec_push(&m->first[object->kind], *object);
    *object = (struct object){0};
}

/* Takes @objects. Before the first contents are passed on, nothing is removed: all is read anew. */
static void set_objects(struct manifests *m, struct file *file, object_vec *objects)
{
    const struct object_sink first = {.ctx = m, .put = collect};
    owners_set(&m->owners, &file->definer, objects, m->state == WAITING ? &first : &m->sink);
}

/* Reads @file, replaces its objects and adds them to @counts. */
static enum manifest_result read_file(struct manifests *m, struct file *file, struct counts *counts,
                                      struct error *err)
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
static void handle_missing(struct manifests *m, struct file *file)
{
    struct stat status;
    size_t objects = file->definer.defs.n;
    file->is_link = lstat(file->definer.path, &status) == 0;
    if (!folder_is_watched(&m->folder))
        return;
    if (!m->path && !file->is_link) {
        object_vec none = {0};
        set_objects(m, file, &none);
        if (objects > 0)
            log_info("source", "the file is gone, removing its objects file=%s objects=%zu",
                     file->definer.path, objects);
        file->gone = true;
        return;
    }
    if (set_problem(file, why_missing(file)))
        log_warn("source", "%s: %s; its objects stay active objects=%zu", file->definer.path,
                 file->problem, objects);
    file->status = (struct stat){0};
}

static void reload(struct manifests *m, struct file *file)
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
    int n = m->path ? 1 : scandir(m->folder.path, &entries, filter, alphasort);
    if (n < 0)
        return error_set(err, "%s: %s", m->folder.path, strerror(errno));
    /* An empty replacement may be a mount point without its file system. */
    if (n == 0 && m->folder.state == FOLDER_FILLING) {
        free(entries);
        return 0;
    }
    folder_filled(&m->folder);
    mark_all(m, true); /* gone unless found below */
    for (int i = 0; i < n; i++) {
        struct stat status;
        struct file *file = file_get(m, entries ? entries[i]->d_name : NULL);
        file->changed = stat(file->definer.path, &status) ? leads_nowhere(file->definer.path)
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
    if (m->folder.state != FOLDER_WATCHED)
        return;
    vec_each (&m->files, it) {
        struct file *file = *it;
        struct stat status;
        if (!file->is_link || file->changed)
            continue;
        if (stat(file->definer.path, &status)) {
            file->changed = leads_nowhere(file->definer.path);
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
    if (!m->owners.orphans)
        return;
    m->owners.orphans = false;
    vec_each (&m->files, file)
        (*file)->changed = (*file)->changed || owners_need(&(*file)->definer);
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
        if (!(*file)->changed || !leads_nowhere((*file)->definer.path))
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
    } while (m->owners.orphans);
    free_gone_files(m);
}

/* ---- the initial contents ---- */

/* Forgets all that was read. */
static void forget_objects(struct manifests *m)
{
    vec_each (&m->files, file)
        definer_forget(&(*file)->definer);
    owners_forget(&m->owners);
    for (int kind = 0; kind < KIND_COUNT; kind++)
        object_vec_clear(&m->first[kind]);
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
    if (m->folder.state == FOLDER_GONE)
        m->problem = xasprintf("%s: the folder is gone", m->folder.path);
    else if (m->folder.state == FOLDER_FILLING)
        m->problem = xasprintf("%s: the folder was replaced and is not filled yet", m->folder.path);
    else if (m->state == WAITING && m->files.n == 0)
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
    vec_each (&m->files, file) {
        if ((*file)->problem && (*file)->unlogged)
            log_error("source", "%s: %s; %s", (*file)->definer.path, (*file)->problem, consequence);
        (*file)->unlogged = false;
    }
}

static void pass_on(struct manifests *m)
{
    log_problems(m, "skipped until it changes");
    log_loaded(!m->path, m->path ? m->path : m->folder.path, &m->first_counts);
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
    vec_each (&m->files, it) {
        struct file *file = *it;
        any = any || file->changed;
        file->gone = file->changed && lstat(file->definer.path, &status) && errno == ENOENT;
    }
    if (!any || m->folder.state != FOLDER_WATCHED)
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

/* ---- news of the folder ---- */

static void compare_all(struct manifests *m)
{
    struct error err = {0};
    if (m->folder.state != FOLDER_GONE && compare_files(m, &err))
        log_error("source", "%s; its previous objects stay active", err.text);
    error_clear(&err);
}

static bool follows(void *ctx, const char *name)
{
    const struct manifests *m = ctx;
    return m->path ? strcmp(m->name, name) == 0 : is_manifest(name);
}

static void on_named(void *ctx, const char *name)
{
    struct manifests *m = ctx;
    file_get(m, name)->changed = true;
}

static void forget_changes(void *ctx)
{
    mark_all(ctx, false);
}

static void on_turn(void *ctx, enum folder_news news)
{
    struct manifests *m = ctx;
    if (news == NEWS_ALL)
        compare_all(m);
    else if (news != NEWS_NAMES)
        compare_links(m, news == NEWS_POLL);
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
    m->folder.path = length == 0 ? xstrdup(".") : xstrndup(path, length);
    return 0;
}

static int first_load(struct manifests *m, enum manifests_mode mode, struct error *err)
{
    /* A single file is there, or there is nothing to follow. */
    if (compare_files(m, err) || load_folder(m, m->path ? MANIFESTS_STRICT : mode, err))
        return -1;
    if (m->files.n == 0 && m->problem)
        log_error("source", "%s; waiting for one", m->problem);
    return 0;
}

struct manifests *manifests_open(const char *path, const struct object_sink *sink,
                                 enum manifests_mode mode, struct ev_loop *between,
                                 struct error *err)
{
    struct manifests *m = xcalloc(1, sizeof(*m));
    m->sink = *sink;
    m->folder.ops = (struct folder_ops){follows, on_named, forget_changes, on_turn, m};
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
    vec_each (&m->files, file)
        file_free(*file);
    vec_free(&m->files);
    free(m->problem);
    folder_clear(&m->folder);
    free(m->path);
    free(m);
}
