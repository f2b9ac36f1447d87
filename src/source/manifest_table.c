/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What is said about a file only says that there is something to look at; what is there then
 * decides. One exception: a file that was deleted or moved away and is there again is not read,
 * since whoever writes it will close it.
 */
#include "kube-nftd/source/manifest_table.h"

#include "kube-nftd/base/hash.h"
#include "kube-nftd/base/log.h"
#include "kube-nftd/source/manifest_claims.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

enum pending {
    NOTHING,
    READ, /* it is to be read */
    LOOK, /* it may be gone */
};

struct file {
    UT_hash_handle hh; /* by path */
    struct manifest_holder holder;
    char *path;
    struct stat seen; /* when it was last read; zero before */
    bool missing;     /* it is kept although there is no file, which was said */
    enum pending pending;
    unsigned round; /* the last comparison that named it */
};

struct manifest_table {
    struct object_sink sink;
    struct manifest_owner owner;
    struct manifest_claims *claims;
    struct file *files;
    VEC(struct file *) pending;
    VEC(struct file *) dead; /* freed when nothing is pending any more */
    unsigned round;
};

/* ---- files ---- */

static struct file *file_get(struct manifest_table *table, const char *path)
{
    struct file *file;
    HASH_FIND_STR(table->files, path, file);
    if (file)
        return file;
    file = xcalloc(1, sizeof(*file));
    file->path = xstrdup(path);
    file->holder.name = file->path;
    HASH_ADD_KEYPTR(hh, table->files, file->path, strlen(file->path), file);
    return file;
}

static void file_free(struct file *file)
{
    vec_free(&file->holder.claims);
    free(file->path);
    free(file);
}

static void file_pending(struct manifest_table *table, struct file *file, enum pending pending)
{
    if (file->pending == NOTHING)
        vec_push(&table->pending, file);
    file->pending = pending;
}

/* The file has got an object that another one dropped. */
static void file_inherits(void *ctx, struct manifest_holder *holder)
{
    struct file *file = (struct file *)((char *)holder - offsetof(struct file, holder));
    file_pending(ctx, file, READ);
}

/* Takes @file off the table; the list of what is pending may still name it. */
static void file_bury(struct manifest_table *table, struct file *file)
{
    HASH_DEL(table->files, file);
    file->pending = NOTHING;
    vec_push(&table->dead, file);
}

/* ---- reading ---- */

static void count_objects(struct manifest_counts *counts, const object_vec *objects)
{
    counts->files++;
    vec_each (objects, object) {
        counts->objects[object->kind]++;
        counts->bad += !object->payload;
    }
}

/* Reads @file and makes its objects what it holds; adds them to @counts. */
static enum manifest_result file_read(struct manifest_table *table, struct file *file,
                                      struct manifest_counts *counts, struct error *err)
{
    object_vec objects = {0};
    struct stat status = {0};
    enum manifest_result result = manifest_file_read(file->path, &objects, &status, err);
    file->seen = status;
    file->missing = file->missing && result == MANIFEST_GONE;
    if (result == MANIFEST_OK) {
        count_objects(counts, &objects);
        manifest_claims_set(table->claims, &file->holder, &objects);
    }
    return result;
}

static void file_gone(struct manifest_table *table, struct file *file)
{
    size_t held = file->holder.claims.n;
    object_vec none = {0};
    manifest_claims_set(table->claims, &file->holder, &none);
    if (held > 0)
        log_info("manifests", "file is gone, its objects are removed file=%s objects=%zu",
                 file->path, held);
    file_bury(table, file);
}

/* There is no file at the path: it was deleted, or is a link to nothing, or the folder is away.
 * Only the first means that its objects are gone. */
static void file_missing(struct manifest_table *table, struct file *file)
{
    struct stat status;
    bool is_link = lstat(file->path, &status) == 0;
    if (!table->owner.folder_is_there(table->owner.ctx))
        return;
    if (!table->owner.keep && !is_link) {
        file_gone(table, file);
        return;
    }
    if (!file->missing)
        log_warn("manifests", "%s: %s; what was loaded from it is kept objects=%zu", file->path,
                 is_link ? "the link leads to no file" : "the file is gone", file->holder.claims.n);
    file->missing = true;
    memset(&file->seen, 0, sizeof(file->seen));
}

static void file_reload(struct manifest_table *table, struct file *file)
{
    struct error err = {0};
    struct manifest_counts counts = {0};
    switch (file_read(table, file, &counts, &err)) {
    case MANIFEST_OK:
        log_info("manifests", "loaded file=%s " MANIFEST_COUNTS_FORMAT, file->path,
                 MANIFEST_COUNTS_ARGS(&counts));
        break;
    case MANIFEST_GONE:
        file_missing(table, file);
        break;
    case MANIFEST_BAD:
        log_error("manifests", "%s: %s; what was loaded from it before is kept objects=%zu",
                  file->path, err.text, file->holder.claims.n);
        break;
    }
    error_clear(&err);
}

enum manifest_result manifest_table_load(struct manifest_table *table, const char *path,
                                         struct manifest_counts *counts, struct error *err)
{
    return file_read(table, file_get(table, path), counts, err);
}

void manifest_table_start(struct manifest_table *table)
{
    manifest_claims_start(table->claims);
}

/* ---- what is to be done ---- */

void manifest_table_read(struct manifest_table *table, const char *path)
{
    file_pending(table, file_get(table, path), READ);
}

void manifest_table_look(struct manifest_table *table, const char *path)
{
    file_pending(table, file_get(table, path), LOOK);
}

static bool is_nowhere(const struct file *file)
{
    struct stat status;
    return stat(file->path, &status) && (errno == ENOENT || errno == ENOTDIR || errno == ELOOP);
}

static void look_at_pending(struct manifest_table *table)
{
    size_t n = table->pending.n; /* heirs come behind them, to be read */
    for (size_t i = 0; i < n; i++) {
        struct file *file = table->pending.v[i];
        if (file->pending != LOOK)
            continue;
        file->pending = NOTHING;
        if (is_nowhere(file))
            file_missing(table, file);
    }
}

/* All that is gone first: an heir that is gone as well need not be read. */
void manifest_table_run(struct manifest_table *table)
{
    look_at_pending(table);
    for (size_t i = 0; i < table->pending.n; i++) {
        struct file *file = table->pending.v[i];
        if (file->pending != READ)
            continue;
        file->pending = NOTHING;
        file_reload(table, file);
    }
    vec_clear(&table->pending);
    vec_each (&table->dead, file)
        file_free(*file);
    vec_clear(&table->dead);
}

void manifest_table_forget(struct manifest_table *table)
{
    vec_each (&table->pending, file)
        (*file)->pending = NOTHING;
    vec_clear(&table->pending);
}

/* ---- comparing ---- */

static bool is_same(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino && a->st_size == b->st_size &&
           a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec &&
           a->st_ctim.tv_sec == b->st_ctim.tv_sec && a->st_ctim.tv_nsec == b->st_ctim.tv_nsec;
}

void manifest_table_begin(struct manifest_table *table)
{
    table->round++;
}

void manifest_table_compare(struct manifest_table *table, const char *path)
{
    struct stat status;
    struct file *file = file_get(table, path);
    file->round = table->round;
    if (stat(path, &status))
        file_pending(table, file, LOOK);
    else if (!is_same(&status, &file->seen))
        file_pending(table, file, READ);
}

void manifest_table_end(struct manifest_table *table)
{
    for (struct file *file = table->files; file; file = file->hh.next) {
        if (file->round != table->round)
            file_pending(table, file, LOOK);
    }
}

/* ---- life ---- */

struct manifest_table *manifest_table_new(const struct object_sink *sink,
                                          const struct manifest_owner *owner)
{
    struct manifest_table *table = xcalloc(1, sizeof(*table));
    table->sink = *sink;
    table->owner = *owner;
    table->claims = manifest_claims_new(&table->sink, file_inherits, table);
    return table;
}

void manifest_table_free(struct manifest_table *table)
{
    if (!table)
        return;
    struct file *file, *after;
    HASH_ITER(hh, table->files, file, after)
    {
        HASH_DEL(table->files, file);
        file_free(file);
    }
    manifest_claims_free(table->claims);
    vec_free(&table->pending);
    vec_free(&table->dead);
    free(table);
}
