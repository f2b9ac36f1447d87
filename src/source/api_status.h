/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the API server says when it refuses something: a Status object, or plain text
 * (docs/behaviour.md 10.3).
 */
#ifndef KUBE_NFTD_SOURCE_API_STATUS_H
#define KUBE_NFTD_SOURCE_API_STATUS_H

#include "kube-nftd/source.h"
#include "kube-nftd/values.h"

#include <stdbool.h>

struct api_status {
    long code;          /* the Status's, or else the HTTP status */
    char *message;      /* owned, of bounded length; never NULL, perhaps "" */
    double retry_after; /* seconds that the server asks to wait, or -1 */
    bool expired;       /* the resourceVersion or page is older than the server's history */
    bool too_large;     /* the resourceVersion is from the server's future */
    bool exists;        /* there is one of that name */
};

/** Reads a Status, the object of an ERROR event. Fields that are missing or mistyped are none. */
void api_status_from_json(const struct json_value *json, struct api_status *out);

/** Reads the @body of an answer with HTTP status @code, whatever it holds: @length bytes with a NUL
 * behind them, of a Status in either encoding, or a text. */
void api_status_from_body(long code, const char *body, size_t length, struct api_status *out);

/** The same of the @body that @result came with. Its Retry-After wins. */
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

#endif
