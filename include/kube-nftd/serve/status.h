/* SPDX-License-Identifier: GPL-2.0-or-later */
/* How the daemon does, as GET /status says it in JSON (docs/operating.md has the fields), and
 * /statusz for people. */
#ifndef KUBE_NFTD_SERVE_STATUS_H
#define KUBE_NFTD_SERVE_STATUS_H

#include "kube-nftd/model/address.h"
#include "kube-nftd/model/object_metadata.h"
#include "kube-nftd/serve/http_listener.h"

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define STATUS_KIND "KubeNftdStatus"
#define STATUS_SCHEMA 1
/* A change that waits for longer is a problem, in seconds. */
#define STATUS_PATIENCE 5.0

/* How the table of a family does. */
struct family_status {
    bool in_use, programmed, owned, lost;
    double last_success; /* seconds since 1970; 0: never */
    double last_seconds; /* that its transaction took */
    double waiting;      /* for so many seconds a change was not applied; 0: none waits */
    size_t frontends, refused;
    uint64_t transactions, repairs, drift;
    const char *failure; /* of the last transaction; NULL: there was none */
};

/* All texts are borrowed. */
struct daemon_status {
    double started; /* seconds since 1970 */
    const char *node;
    const char *zone;                  /* NULL: none */
    const char *objects_from;          /* "https://...", or the path of manifests */
    const char *encodings[KIND_COUNT]; /* in which they come; NULL: none came, or files */
    double silence; /* the API server has sent nothing for so many seconds; 0: that is no news */
    double heard;   /* seconds since its last byte; below 0: objects are of files */
    struct {
        const char *resource, *state;     /* NULL: objects are of files */
        const char *trouble;              /* what is wrong with requests; NULL: nothing */
        uint64_t events, failures, lists; /* so far */
    } watch[KIND_COUNT];
    bool complete; /* Services and EndpointSlices both came */
    size_t services, slices;
    uint64_t unreadable;        /* objects that came and could not be read */
    size_t conflicts, reserved; /* frontends of several Services; of the API server */
    struct family_status family[FAMILY_COUNT];
    double resident;   /* bytes of memory; 0: not known */
    const char *paths; /* that the metrics address answers, between blanks */
};

/** Answers GET /status. */
void status_answer(const struct daemon_status *status, struct http_answer *answer);

/* Pages for people, which promise no format (docs/behaviour.md 6.3). */
void diagnostics_statusz(const struct daemon_status *status, struct http_answer *answer);

/** @flags: a line "name=value" each. */
void diagnostics_flagz(const char *flags, struct http_answer *answer);

/** PUT, with the number as body. An http_answer_fn without a context. */
void diagnostics_verbosity(void *ctx, const struct http_request *request,
                           struct http_answer *answer);

#endif
