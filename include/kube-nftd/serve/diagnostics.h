/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Pages for people on the metrics address (docs/behaviour.md 6.3), which promise no format:
 * /statusz and /flagz, and /debug/flags/v, whose PUT sets how much is logged.
 */
#ifndef KUBE_NFTD_SERVE_DIAGNOSTICS_H
#define KUBE_NFTD_SERVE_DIAGNOSTICS_H

#include "kube-nftd/model/address.h"
#include "kube-nftd/model/object_kind.h"
#include "kube-nftd/serve/http_listener.h"

#include <stdbool.h>
#include <stddef.h>

/* What /statusz says. All texts are borrowed. */
struct daemon_status {
    double started; /* seconds since 1970 */
    const char *node;
    const char *objects_from; /* "https://...", or the path of manifests */
    const char
        *encodings[KIND_COUNT]; /* in which they come, "protobuf"; NULL: none came, or files */
    double silence; /* the API server has sent nothing for so many seconds; 0: that is no news */
    bool complete;  /* Services and EndpointSlices both came */
    size_t services, slices;
    struct {
        bool in_use, programmed;
        double last_success; /* seconds since 1970; 0: never */
        double waiting;      /* for so many seconds a change was not in force; 0: none waits */
        size_t frontends;
    } family[FAMILY_COUNT];
    const char *paths; /* that the metrics address answers, between blanks */
};

void diagnostics_statusz(const struct daemon_status *status, struct http_answer *answer);

/** @flags: a line "name=value" each. */
void diagnostics_flagz(const char *flags, struct http_answer *answer);

/** PUT, with the number as body. An http_answer_fn without a context. */
void diagnostics_verbosity(void *ctx, const struct http_request *request,
                           struct http_answer *answer);

#endif
