/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Reads the objects of one manifest file: YAML or JSON, single objects, documents or Lists.
 *
 * The whole of a file counts, or nothing of it, since what a file no longer holds is removed. So
 * what looks like the first part of a file is refused: JSON without its end; a document, an item
 * or a list without kind or apiVersion (kubectl writes a list's kind behind its items, and an
 * EndpointSlice's behind its endpoints); a last document without a name; no document at all. A
 * list without items is how a file says that there is nothing. What cannot be told from a whole
 * file: one that ends behind a document or, in its last one, behind all that an object must have
 * (inside the ports of a Service, say). Whoever writes files in place is better off with a List.
 */
#ifndef KUBE_NFTD_SOURCE_MANIFEST_FILE_H
#define KUBE_NFTD_SOURCE_MANIFEST_FILE_H

#include "kube-nftd/base.h"
#include "kube-nftd/model.h"

#include <sys/stat.h>

enum manifest_result {
    MANIFEST_OK,
    MANIFEST_GONE, /* there is no such file; no error is set */
    MANIFEST_BAD,  /* it cannot be read or does not parse; the error names line and column */
};

/**
 * Reads the file at @path, which must be a regular one.
 *
 * Objects that kube-proxy's selectors keep out and objects of other kinds are left out. One that
 * cannot be decoded is logged and comes without payload.
 *
 * @objects  zeroed; MANIFEST_OK: the objects in the order of the file, for the caller to clear
 * @status   the file's status before it was read, unless it is gone
 */
enum manifest_result manifest_file_read(const char *path, object_vec *objects, struct stat *status,
                                        struct error *err);

#endif
