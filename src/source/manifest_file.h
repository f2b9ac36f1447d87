/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A file is applied as a whole or not at all, because objects missing from it are removed. So a
 * file that looks truncated is an error: JSON without its end; a document, item or list without
 * kind or apiVersion (kubectl writes a list's kind after its items, and an EndpointSlice's after
 * its endpoints); a last document without a name; no document at all. A list without items is the
 * way to say "no objects". Undetectable: a file cut after a complete document, or inside the last
 * document after all required fields (in the ports of a Service, say). Programs that write files in
 * place should write a List.
 */
#ifndef KUBE_NFTD_SOURCE_MANIFEST_FILE_H
#define KUBE_NFTD_SOURCE_MANIFEST_FILE_H

#include "kube-nftd/base.h"
#include "kube-nftd/model.h"

#include <sys/stat.h>

struct ev_loop;

/* Starts zeroed. */
struct reading_pauses {
    struct ev_loop *loop; /* what is due there runs; NULL: files are read at once */
    size_t blocks;        /* read so far */
};

enum manifest_result {
    MANIFEST_OK,
    MANIFEST_GONE, /* the file does not exist; no error is set */
    MANIFEST_BAD,  /* unreadable or does not parse; the error names line and column */
};

/**
 * Reads the regular file at @path.
 *
 * Skips objects of other kinds and those that kube-proxy's selectors exclude. An object that cannot
 * be decoded is logged and returned without payload.
 *
 * @pauses   between pieces of it, the loop runs; kept from file to file, as there may be many
 * @objects  zeroed; MANIFEST_OK: the objects in file order, for the caller to clear
 * @status   the file's status before it was read, unless MANIFEST_GONE
 */
enum manifest_result manifest_file_read(const char *path, struct reading_pauses *pauses,
                                        object_vec *objects, struct stat *status,
                                        struct error *err);

#endif
