/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The manifest files that are known: what was loaded from each, and what is to be done about it.
 * Reads them and tells their objects to a sink. What is to be done is collected and done at once,
 * since an object may move from one file to another.
 */
#ifndef KUBE_NFTD_SOURCE_MANIFEST_TABLE_H
#define KUBE_NFTD_SOURCE_MANIFEST_TABLE_H

#include "kube-nftd/model/sink.h"
#include "kube-nftd/source/manifest_file.h"

#include <stdbool.h>

struct manifest_table;

struct manifest_counts {
    size_t files;
    size_t objects[KIND_COUNT];
    size_t bad; /* of them: those that cannot be read */
};

struct manifest_owner {
    /* Whether the folder of the files is there. While it is away, so is every file in it, and that
     * means nothing. */
    bool (*folder_is_there)(void *ctx);
    void *ctx;
    bool keep; /* the objects of a file that was deleted */
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

/** The file at @path is to be read again, or read for the first time. */
void manifest_table_read(struct manifest_table *table, const char *path);

/** There is to be looked whether the file at @path is gone. */
void manifest_table_look(struct manifest_table *table, const char *path);

/** Begins a comparison of all files. */
void manifest_table_begin(struct manifest_table *table);

/** The file at @path is to be read if its status is another one than when it was last read. */
void manifest_table_compare(struct manifest_table *table, const char *path);

/** Ends a comparison: files that were not named in it may be gone. */
void manifest_table_end(struct manifest_table *table);

/** Does all that is to be done. */
void manifest_table_run(struct manifest_table *table);

/** Forgets all that is to be done. */
void manifest_table_forget(struct manifest_table *table);

/* For log lines. */
#define MANIFEST_COUNTS_FORMAT "services=%zu slices=%zu cidrs=%zu nodes=%zu bad=%zu"
#define MANIFEST_COUNTS_ARGS(counts)                                                               \
    (counts)->objects[KIND_SERVICE], (counts)->objects[KIND_ENDPOINTSLICE],                        \
        (counts)->objects[KIND_SERVICECIDR], (counts)->objects[KIND_NODE], (counts)->bad

#endif
