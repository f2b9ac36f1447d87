/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The manifest files that are known, and which of them each object belongs to: of several that hold
 * it, the one whose path sorts first. Reads them and tells their objects to a sink. What is to be
 * done is collected and done at once, since an object may move from one file to another.
 */
#ifndef KUBE_NFTD_SOURCE_MANIFEST_TABLE_H
#define KUBE_NFTD_SOURCE_MANIFEST_TABLE_H

#include "kube-nftd/model/sink.h"
#include "manifest_file.h"

#include <stdbool.h>

struct manifest_table;

struct manifest_counts {
    size_t files;
    size_t objects[KIND_COUNT];
    size_t bad; /* of them: those that cannot be read */
};

/* For log lines. */
#define MANIFEST_COUNTS_FORMAT "services=%zu slices=%zu cidrs=%zu nodes=%zu bad=%zu"
#define MANIFEST_COUNTS_ARGS(counts)                                                               \
    (counts)->objects[KIND_SERVICE], (counts)->objects[KIND_ENDPOINTSLICE],                        \
        (counts)->objects[KIND_SERVICECIDR], (counts)->objects[KIND_NODE], (counts)->bad

struct manifest_owner {
    /* Whether the folder of the files is there. While it is away, so is every file in it, and that
     * means nothing. */
    bool (*folder_is_there)(void *ctx);
    void *ctx;
    bool keep; /* the objects of a file that was deleted */
};

enum manifest_news {
    MANIFEST_SAME,
    MANIFEST_CHANGED, /* it is to be read */
    MANIFEST_AWAY,    /* it may be gone; if it is there again, whoever writes it will close it */
};

/** Copies @sink and @owner. Nothing is handed on before manifest_table_start(). */
struct manifest_table *manifest_table_new(const struct object_sink *sink,
                                          const struct manifest_owner *owner);

/** Frees everything without telling the sink. */
void manifest_table_free(struct manifest_table *table);

/** Reads the file at @path for the first time. Adds what it has to @counts. */
enum manifest_result manifest_table_load(struct manifest_table *table, const char *path,
                                         struct manifest_counts *counts, struct error *err);

/** Hands everything that was loaded so far to the sink, as one replace for each kind. */
void manifest_table_start(struct manifest_table *table);

/** Takes note of @news of the file at @path. */
void manifest_table_note(struct manifest_table *table, const char *path, enum manifest_news news);

/** Takes the same note of all files that are known. */
void manifest_table_note_all(struct manifest_table *table, enum manifest_news news);

/** Takes note of whether the file at @path has another status than when it was last read. */
void manifest_table_compare(struct manifest_table *table, const char *path);

/** Does what the notes ask for. */
void manifest_table_run(struct manifest_table *table);

#endif
