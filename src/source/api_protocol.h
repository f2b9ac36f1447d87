/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The API server's protocol, as described in docs/behaviour.md 1.1, 10.1, 10.3 and 10.5: paths,
 * encodings, error statuses, and when to try again.
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

/** The label with which an object of @kind is not requested; NULL: none. */
const char *collection_excluding_label(enum object_kind kind);

/**
 * The path of a list, for the caller to free. @version: "not older than", or NULL for the newest.
 * @limited requests pages, which the server may ignore. @token, if not NULL, requests the next page
 * (then @version must be NULL).
 */
char *collection_list_path(const struct collection *collection, const char *version, bool limited,
                           const char *token);

/** The path of a list of one object of the newest state, for the caller to free: the cheapest
 * question for the server's current version. */
char *collection_version_path(const struct collection *collection);

/**
 * The path of a watch from @version for @seconds, for the caller to free. @initial requests all
 * objects first (a streamed list); then @version means "not older than", or NULL for the newest.
 */
char *collection_watch_path(const struct collection *collection, const char *version,
                            unsigned seconds, bool initial);

/* Where a version lies in the server's history, compared with another one. */
enum version_order {
    VERSION_REACHED, /* it is the same or a later one */
    VERSION_BEFORE,
    VERSION_UNKNOWN, /* they differ, and are not both decimal numbers */
};

/** Compares two versions of one collection: as numbers if both are decimal (KEP-5504). */
enum version_order version_order(const char *version, const char *other);

/** The encoding of an answer with this Content-Type; JSON for NULL and unknown types. */
enum encoding encoding_of(const char *content_type);

/* ---- error statuses ---- */

/** Reads a Status, the object of an ERROR event. @code is the default for a missing code; other
 * missing or mistyped fields count as absent. */
void api_status_from_json(const struct json_value *json, long code, struct api_status *out);

/** Reads the body of an answer with the HTTP status @code, whatever it contains: a Status in either
 * encoding, or text. @retry_after, from the header, takes precedence; -1: absent. */
void api_status_from_answer(long code, const char *body, size_t length, double retry_after,
                            struct api_status *out);

/** Explains @status for @verb ("list") on @resource and its remedy: for a 403 the missing
 * permission. For the caller to free; the same error gives the same text. */
char *api_status_explain(const struct api_status *status, const char *verb,
                         const struct api_resource *resource);

/** Whether the message of @status reports a missing permission or failed authentication, rather
 * than a quota, webhook or the like that rejects one object. */
bool api_status_lacks_right(const struct api_status *status);

void api_status_clear(struct api_status *status);

/* ---- retries ---- */

/* How long to wait after failures in a row. */
struct backoff {
    double wait;    /* the next one, without jitter */
    double started; /* when it last started over */
};

/** The next failure is the first one again. */
void backoff_reset(struct backoff *backoff, double now);

/**
 * The seconds to wait after a failure at time @now (docs/behaviour.md 10.5): 0.8, doubled each time
 * up to 30, multiplied by 1 + @spread (random, so that clients do not retry in step). Starts over
 * more than two minutes after it last did.
 */
double backoff_next(struct backoff *backoff, double now, double spread);

/* Of requests that are retried: how long to wait, and errors that are logged when they change
 * rather than at each try. */
struct retry {
    const struct api_resource *resource; /* borrowed */
    struct backoff backoff;
    double forbidden_wait; /* the last one; 0: none */
    char *logged;          /* the last error, owned; NULL: none */
    double failed_at;      /* clock_monotonic */
};

/** Starts without an error at time @now (clock_monotonic). Borrows the strings for good. */
void retry_init(struct retry *retry, const struct api_resource *resource, double now);

/** Clears the error. Returns whether one was set. */
bool retry_clear(struct retry *retry);

/** A random number from 0 to 1. */
double retry_spread(void);

/** The seconds to wait when the server requests @retry_after, with jitter. */
double retry_after_wait(double retry_after);

/** Takes @text and logs it unless it equals the last one logged. @detail is logged too and may vary
 * between tries; "" for none. */
void retry_log(struct retry *retry, enum log_level level, char *text, const char *detail);

/** Warns that we cannot @verb ("list") the resource. */
void retry_log_failed(struct retry *retry, const char *verb, const char *why, const char *detail);

/** The same, explained by the @status that the server answered. */
void retry_log_rejected(struct retry *retry, const char *verb, const struct api_status *status);

/**
 * A write (@verb "create", say) failed with @status and is worth a retry. Code 0 means no answer,
 * which the reflectors log. Returns the seconds to wait at time @now: what the server requested, or
 * what all requests wait that got no answer; else 30, doubled up to 300, for a missing permission,
 * unless the server is starting; else the back-off; with jitter.
 */
double retry_write_wait(struct retry *retry, const char *verb, const struct api_status *status,
                        double now);

/** A write succeeded. Logs that if the last one failed. */
void retry_write_done(struct retry *retry, double now);

/** The resource of @kind. */
const struct api_resource *collection_resource(enum object_kind kind);

/** "json", "protobuf". */
const char *encoding_name(enum encoding encoding);

#endif
