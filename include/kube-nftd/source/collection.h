/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What is asked of the API server (docs/behaviour.md 1.1 and 10.1): the paths of lists, watches and
 * streams. */
#ifndef KUBE_NFTD_SOURCE_COLLECTION_H
#define KUBE_NFTD_SOURCE_COLLECTION_H

#include "kube-nftd/model/object.h"

/* All objects of a kind that kube-proxy asks for; of Nodes the one with this name. */
struct collection {
    enum object_kind kind;
    char *node_name; /* owned; NULL for the other kinds */
};

/* What requests are about, in the words of RBAC rules and manifests. */
struct api_resource {
    const char *name;        /* "endpointslices.discovery.k8s.io" */
    const char *plural;      /* "endpointslices" */
    const char *group;       /* "discovery.k8s.io"; "" for the core group */
    const char *api_version; /* "discovery.k8s.io/v1" */
};

/** That of the objects of @kind. */
const struct api_resource *collection_resource(enum object_kind kind);

/**
 * The path of a list, which the caller frees. @version: "not older than", or NULL for the newest.
 * @limited asks for pages, whatever the server makes of it; @token, if not NULL, for the page
 * behind it (then @version must be NULL).
 */
char *collection_list_path(const struct collection *collection, const char *version, bool limited,
                           const char *token);

/** The path of a watch from @version for @seconds, which the caller frees. */
char *collection_watch_path(const struct collection *collection, const char *version,
                            unsigned seconds);

/**
 * The path of a watch for @seconds that begins with all there is (a streamed list), which the
 * caller frees. @version: "not older than", or NULL for the newest.
 */
char *collection_stream_path(const struct collection *collection, const char *version,
                             unsigned seconds);

#endif
