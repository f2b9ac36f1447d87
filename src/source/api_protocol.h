/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What is asked of the API server and what it answers, as docs/behaviour.md 1.1, 10.1 and 10.3 have
 * it: paths, bodies in either encoding, refusals.
 */
#ifndef KUBE_NFTD_SOURCE_API_PROTOCOL_H
#define KUBE_NFTD_SOURCE_API_PROTOCOL_H

#include "kube-nftd/source.h"
#include "kube-nftd/values.h"

#include <stdbool.h>

/* ---- paths ---- */

/* All objects of a kind that kube-proxy asks for; of Nodes the one with this name. */
struct collection {
    enum object_kind kind;
    char *node_name; /* owned; NULL for the other kinds */
};

/**
 * The path of a list, which the caller frees. @version: "not older than", or NULL for the newest.
 * @limited asks for pages, whatever the server makes of it; @token, if not NULL, for the page
 * behind it (then @version must be NULL).
 */
char *collection_list_path(const struct collection *collection, const char *version, bool limited,
                           const char *token);

/**
 * The path of a watch from @version for @seconds, which the caller frees. @initial asks for all
 * there is first (a streamed list); then @version is: "not older than", or NULL for the newest.
 */
char *collection_watch_path(const struct collection *collection, const char *version,
                            unsigned seconds, bool initial);

/* ---- bodies ---- */

/** The encoding of an answer with this Content-Type. NULL, and what is neither: JSON. */
enum encoding encoding_of(const char *content_type);

/* Reads a body in its encoding: the same values come of both. Starts zeroed; of the two, the one
 * that is there reads. */
struct body_reader {
    struct json_reader *json;
    struct proto_reader *proto;
};

/** Gets ready for another body: a list or, if @is_watch, events. Values of more than @limit bytes
 * are refused; the others are given to @fn. */
void body_reader_begin(struct body_reader *reader, enum encoding encoding, bool is_watch,
                       size_t limit, json_value_fn fn, void *ctx);

/** As those of a json_reader, for a body that was begun. */
int body_reader_feed(struct body_reader *reader, const char *bytes, size_t length,
                     struct error *err);
int body_reader_finish(struct body_reader *reader, struct error *err);
const struct json_value *body_reader_envelope(const struct body_reader *reader);

void body_reader_clear(struct body_reader *reader);

/* ---- refusals ---- */

/* What a Status says, or a text in its place. */
struct api_status {
    long code;          /* the Status's, or else the HTTP status */
    char *message;      /* owned, of bounded length; never NULL, perhaps "" */
    double retry_after; /* seconds that the server asks to wait, or -1 */
    bool expired;       /* the resourceVersion or page is older than the server's history */
    bool too_large;     /* the resourceVersion is from the server's future */
    bool exists;        /* there is one of that name */
};

/** Reads a Status, the object of an ERROR event; @code where it has none. Other fields that are
 * missing or mistyped are none. */
void api_status_from_json(const struct json_value *json, long code, struct api_status *out);

/** Reads the @body that @result came with, whatever it holds: a Status in either encoding, or a
 * text. Its Retry-After wins. */
void api_status_from_result(const struct api_result *result, const char *body,
                            struct api_status *out);

/** What @status means for @verb ("list") of @resource, and what to do about it: of a 403 the right
 * that is missing. For the caller to free; the same text for the same error. */
char *api_status_explain(const struct api_status *status, const char *verb,
                         const struct api_resource *resource);

/** Whether @status says that we lack a right or were not recognized, by its message; not where a
 * quota, a webhook or the like refuses the one object. */
bool api_status_lacks_right(const struct api_status *status);

void api_status_clear(struct api_status *status);

/** How much of @length bytes of UTF-8 fits into @limit, cut where a character begins. */
size_t text_cut(const char *text, size_t length, size_t limit);

#endif
