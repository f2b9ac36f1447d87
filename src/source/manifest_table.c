/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * News of a file only say that there is something to look at; what is there then decides. One
 * exception: a file that was deleted or moved away and is there again is not read, since whoever
 * writes it will close it.
 *
 * The objects themselves are not kept, only who holds them. So when the owner of an object drops it
 * and others hold it as well, these are read again; until then the sink keeps the old version.
 */
#include "manifest_table.h"

#include "kube-nftd/base/hash_table.h"
#include "kube-nftd/base/log.h"
#include "kube-nftd/base/vec.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

/* An object by its name. */
struct entry {
    struct hash_link link; /* by id */
    struct file *owner;    /* NULL: it dropped the object, and no other was read since */
    size_t holders;        /* files that name it */
    enum object_kind kind;
    unsigned pass; /* of the last file that named it */
    size_t slot;   /* where it was named there */
    char id[];
};

typedef VEC(struct entry *) entry_vec;

struct file {
    char *path;
    entry_vec entries;
    struct stat seen; /* when it was last read; zero before */
    enum manifest_news news;
    bool missing; /* it is kept although there is no file, which was said */
    bool gone;    /* it is dropped when all news are done with */
};

struct manifest_table {
    struct object_sink sink;
    struct manifest_owner owner;
    VEC(struct file *) files; /* sorted by path */
    struct hash_table entries[KIND_COUNT];
    unsigned pass;
    bool orphans; /* there are entries without owner that nobody was read for */
    bool started;
    object_vec first[KIND_COUNT]; /* until then */
};

/* ---- objects ---- */

static struct hash_key key_of(const struct hash_link *link)
{
    return hash_key_of_text(((const struct entry *)link)->id);
}

static struct entry *entry_of(struct manifest_table *table, const struct object *object)
{
    struct hash_table *by_id = &table->entries[object->kind];
    struct hash_key id = hash_key_of_text(object->id);
    struct entry *entry = hash_table_find(by_id, key_of, id);
    if (entry)
        return entry;
    entry = xcalloc(1, sizeof(*entry) + id.length + 1);
    entry->kind = object->kind;
    memcpy(entry->id, id.bytes, id.length);
    hash_table_add(by_id, key_of, &entry->link);
    return entry;
}

static void entry_free(struct manifest_table *table, struct entry *entry)
{
    hash_table_remove(&table->entries[entry->kind], &entry->link);
    free(entry);
}

/* @file names its objects: their entries, each once, with the slot of the last. */
static void name_objects(struct manifest_table *table, struct file *file, object_vec *objects)
{
    table->pass++;
    vec_reserve(&file->entries, objects->n);
    for (size_t i = 0; i < objects->n; i++) {
        struct entry *entry = entry_of(table, &objects->v[i]);
        if (entry->pass == table->pass) {
            log_warn("manifests", "%s: %s %s is a duplicate; the last one is used", file->path,
                     object_kind_name(entry->kind), entry->id);
            object_clear(&objects->v[entry->slot]);
        } else {
            vec_push(&file->entries, entry);
            entry->holders++;
        }
        if (!entry->owner || strcmp(file->path, entry->owner->path) < 0)
            entry->owner = file;
        entry->pass = table->pass;
        entry->slot = i;
    }
}

/* @file held @before, and no more what it did not name just now. */
static void drop_objects(struct manifest_table *table, const struct file *file,
                         const entry_vec *before)
{
    vec_each (before, it) {
        struct entry *entry = *it;
        if (--entry->holders == 0) {
            table->sink.remove(table->sink.ctx, entry->kind, entry->id);
            entry_free(table, entry);
        } else if (entry->owner == file && entry->pass != table->pass) {
            entry->owner = NULL;
            table->orphans = true;
        }
    }
}

static void put(struct manifest_table *table, struct object *object)
{
    if (table->started) {
        table->sink.put(table->sink.ctx, object);
        return;
    }
    vec_push(&table->first[object->kind], *object);
    memset(object, 0, sizeof(*object));
}

/* Hands on what @file owns of what it holds. */
static void put_owned(struct manifest_table *table, const struct file *file, object_vec *objects)
{
    size_t shared = 0;
    const struct entry *first = NULL;
    vec_each (&file->entries, entry) {
        if ((*entry)->holders > 1) {
            first = first ? first : *entry;
            shared++;
        }
        if ((*entry)->owner == file)
            put(table, &objects->v[(*entry)->slot]);
    }
    if (shared > 0)
        log_warn(
            "manifests",
            "%s: objects are also in other files; the file that sorts first is used objects=%zu "
            "first=\"%s %s\" from=%s",
            file->path, shared, object_kind_name(first->kind), first->id, first->owner->path);
}

/* @file holds just @objects, which are taken. What is gone goes first: a new object may use the
 * address of an old one. */
static void set_objects(struct manifest_table *table, struct file *file, object_vec *objects)
{
    entry_vec before = file->entries;
    file->entries = (entry_vec){0};
    name_objects(table, file, objects);
    drop_objects(table, file, &before);
    vec_free(&before);
    put_owned(table, file, objects);
    object_vec_clear(objects);
}

void manifest_table_start(struct manifest_table *table)
{
    table->started = true;
    for (int kind = 0; kind < KIND_COUNT; kind++) {
        table->sink.replace(table->sink.ctx, (enum object_kind)kind, &table->first[kind]);
        object_vec_clear(&table->first[kind]);
    }
}

/* ---- files ---- */

/* Where the file at @path is in the table, or would have to be. */
static size_t place_of(const struct manifest_table *table, const char *path)
{
    size_t low = 0, high = table->files.n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (strcmp(table->files.v[middle]->path, path) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static struct file *file_get(struct manifest_table *table, const char *path)
{
    size_t place = place_of(table, path);
    if (place < table->files.n && strcmp(table->files.v[place]->path, path) == 0)
        return table->files.v[place];
    struct file *file = xcalloc(1, sizeof(*file));
    file->path = xstrdup(path);
    vec_push(&table->files, file);
    memmove(table->files.v + place + 1, table->files.v + place,
            (table->files.n - 1 - place) * sizeof(*table->files.v));
    table->files.v[place] = file;
    return file;
}

static void file_free(struct file *file)
{
    vec_free(&file->entries);
    free(file->path);
    free(file);
}

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
        set_objects(table, file, &objects);
    }
    return result;
}

enum manifest_result manifest_table_load(struct manifest_table *table, const char *path,
                                         struct manifest_counts *counts, struct error *err)
{
    return file_read(table, file_get(table, path), counts, err);
}

/* There is no file at the path: it was deleted, or is a link to nothing, or the folder is away.
 * Only the first means that its objects are gone. */
static void file_missing(struct manifest_table *table, struct file *file)
{
    struct stat status;
    size_t held = file->entries.n;
    bool is_link = lstat(file->path, &status) == 0;
    if (!table->owner.folder_is_there(table->owner.ctx))
        return;
    if (!table->owner.keep && !is_link) {
        object_vec none = {0};
        set_objects(table, file, &none);
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
        log_error("manifests", "%s: %s; its previous objects stay active objects=%zu", file->path,
                  err.text, file->entries.n);
        break;
    }
    error_clear(&err);
}

/* ---- news ---- */

void manifest_table_note(struct manifest_table *table, const char *path, enum manifest_news news)
{
    file_get(table, path)->news = news;
}

void manifest_table_note_all(struct manifest_table *table, enum manifest_news news)
{
    vec_each (&table->files, file)
        (*file)->news = news;
}

static bool is_same(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino && a->st_size == b->st_size &&
           a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec &&
           a->st_ctim.tv_sec == b->st_ctim.tv_sec && a->st_ctim.tv_nsec == b->st_ctim.tv_nsec;
}

void manifest_table_compare(struct manifest_table *table, const char *path)
{
    struct stat status;
    struct file *file = file_get(table, path);
    if (stat(path, &status))
        file->news = MANIFEST_AWAY;
    else
        file->news = is_same(&status, &file->seen) ? MANIFEST_SAME : MANIFEST_CHANGED;
}

static bool is_nowhere(const struct file *file)
{
    struct stat status;
    return stat(file->path, &status) && (errno == ENOENT || errno == ENOTDIR || errno == ELOOP);
}

static void look_at_files(struct manifest_table *table)
{
    vec_each (&table->files, file) {
        if ((*file)->news != MANIFEST_AWAY)
            continue;
        (*file)->news = MANIFEST_SAME;
        if (is_nowhere(*file))
            file_missing(table, *file);
    }
}

/* Returns whether any was to be read. */
static bool read_files(struct manifest_table *table)
{
    bool any = false;
    vec_each (&table->files, file) {
        if ((*file)->news != MANIFEST_CHANGED)
            continue;
        any = true;
        (*file)->news = MANIFEST_SAME;
        file_reload(table, *file);
    }
    return any;
}

/* Files that hold what has lost its owner are to be read. */
static void note_heirs(struct manifest_table *table)
{
    if (!table->orphans)
        return;
    table->orphans = false;
    vec_each (&table->files, file) {
        vec_each (&(*file)->entries, entry) {
            if (!(*entry)->owner)
                (*file)->news = MANIFEST_CHANGED;
        }
    }
}

/* All that is gone first: an heir that is gone as well need not be read. */
void manifest_table_run(struct manifest_table *table)
{
    look_at_files(table);
    do
        note_heirs(table);
    while (read_files(table));
    size_t kept = 0;
    vec_each (&table->files, file) {
        if ((*file)->gone)
            file_free(*file);
        else
            table->files.v[kept++] = *file;
    }
    table->files.n = kept;
}

/* ---- life ---- */

struct manifest_table *manifest_table_new(const struct object_sink *sink,
                                          const struct manifest_owner *owner)
{
    struct manifest_table *table = xcalloc(1, sizeof(*table));
    table->sink = *sink;
    table->owner = *owner;
    return table;
}

void manifest_table_free(struct manifest_table *table)
{
    if (!table)
        return;
    vec_each (&table->files, file)
        file_free(*file);
    vec_free(&table->files);
    for (int kind = 0; kind < KIND_COUNT; kind++) {
        hash_table_each (&table->entries[kind], struct entry, entry)
            entry_free(table, entry);
        object_vec_clear(&table->first[kind]);
    }
    free(table);
}
