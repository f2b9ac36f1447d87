/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The API server's protocol, as described in docs/behaviour.md 1.1, 10.1 and 10.3: paths, bodies in
 * either encoding, error statuses.
 */
#ifndef KUBE_NFTD_SOURCE_API_PROTOCOL_H
#define KUBE_NFTD_SOURCE_API_PROTOCOL_H

#include "kube-nftd/source.h"
#include "kube-nftd/values.h"

#include <stdbool.h>

/* ---- paths ---- */

/* The objects of a kind that kube-proxy requests; of Nodes only the one with this name. */
struct collection {
    enum object_kind kind;
    char *node_name; /* owned; NULL for the other kinds */
};

/**
 * The path of a list, for the caller to free. @version: "not older than", or NULL for the newest.
 * @limited requests pages, which the server may ignore. @token, if not NULL, requests the next page
 * (then @version must be NULL).
 */
char *collection_list_path(const struct collection *collection, const char *version, bool limited,
                           const char *token);

/**
 * The path of a watch from @version for @seconds, for the caller to free. @initial requests all
 * objects first (a streamed list); then @version means "not older than", or NULL for the newest.
 */
char *collection_watch_path(const struct collection *collection, const char *version,
                            unsigned seconds, bool initial);

/* ---- bodies ---- */

/** The encoding of an answer with this Content-Type; JSON for NULL and unknown types. */
enum encoding encoding_of(const char *content_type);

/* ---- error statuses ---- */

/* A Status, or the plain text sent in its place. */
struct api_status {
    long code;          /* from the Status, else the HTTP status */
    char *message;      /* owned, of limited length; never NULL, may be "" */
    double retry_after; /* seconds to wait as requested by the server, or -1 */
    bool expired;       /* the resourceVersion or page is older than the server's history */
    bool too_large;     /* the resourceVersion is from the server's future */
    bool exists;        /* an object of that name exists */
};

/** Reads a Status, the object of an ERROR event. @code is the default for a missing code; other
 * missing or mistyped fields count as absent. */
void api_status_from_json(const struct json_value *json, long code, struct api_status *out);

/** Reads the @body of @result, whatever it contains: a Status in either encoding, or text. The
 * Retry-After of @result takes precedence. */
void api_status_from_result(const struct api_result *result, const char *body,
                            struct api_status *out);

/** Explains @status for @verb ("list") on @resource and its remedy: for a 403 the missing
 * permission. For the caller to free; the same error gives the same text. */
char *api_status_explain(const struct api_status *status, const char *verb,
                         const struct api_resource *resource);

/** Whether the message of @status reports a missing permission or failed authentication, rather
 * than a quota, webhook or the like that rejects one object. */
bool api_status_lacks_right(const struct api_status *status);

void api_status_clear(struct api_status *status);

/** The length of @length bytes of UTF-8 when cut to @limit at a character boundary. */
size_t text_cut(const char *text, size_t length, size_t limit);

#endif
