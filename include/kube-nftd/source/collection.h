/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What is asked of the API server (docs/behaviour.md 1.1 and 10.1): the paths of lists, watches and
 * streams, and how it is to write objects. */
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

/* ---- which form we ask for, and which one an answer has ---- */

enum encoding { ENCODING_JSON, ENCODING_PROTOBUF };
#define ENCODING_COUNT 2

/** "json", "protobuf". */
const char *encoding_name(enum encoding encoding);

/** That of an answer with this Content-Type. NULL, and what is neither: JSON. */
enum encoding encoding_of(const char *content_type);

/**
 * What goes into the Accept header, for the caller to free, by kube-proxy's settings: @accepted if
 * it is not empty, else what @preferred is, and JSON. @accepted that has no form that can be read
 * is warned of and counts as empty.
 */
char *encoding_accept(const char *preferred, const char *accepted);

#endif
