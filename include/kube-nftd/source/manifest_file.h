/* Reads the objects of one manifest file: YAML or JSON, single objects, documents or Lists. */
#ifndef KUBE_NFTD_SOURCE_MANIFEST_FILE_H
#define KUBE_NFTD_SOURCE_MANIFEST_FILE_H

#include "kube-nftd/base/error.h"
#include "kube-nftd/model/object.h"

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
 * cannot be decoded is said in the log and comes without payload.
 *
 * @objects  zeroed; MANIFEST_OK: the objects in the order of the file, for the caller to clear
 * @status   the file's status before it was read, unless it is gone or could not be opened
 */
enum manifest_result manifest_file_read(const char *path, object_vec *objects, struct stat *status,
                                        struct error *err);

#endif
