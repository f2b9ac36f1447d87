/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Writing to the API server that does not go well: says why when that changes, not at each try, and
 * how long to wait before the next one.
 */
#ifndef KUBE_NFTD_SOURCE_WRITE_TROUBLE_H
#define KUBE_NFTD_SOURCE_WRITE_TROUBLE_H

#include "api_status.h"
#include "backoff.h"
#include "kube-nftd/source/apiserver.h"

#include <stdbool.h>

struct write_trouble {
    const char *subsystem; /* who speaks in log lines; static */
    struct api_resource resource;
    struct backoff backoff;
    double forbidden_wait; /* the last one, in seconds; 0: none */
    char *said;            /* the last one, owned; NULL while all is well */
};

/** All is well, at time @now (clock_monotonic). Strings are borrowed for good. */
void write_trouble_init(struct write_trouble *trouble, const char *subsystem,
                        const struct api_resource *resource, double now);
void write_trouble_clear(struct write_trouble *trouble);

/**
 * A request that is worth another try has failed with @status (code 0: no answer came, which those
 * who read from the server say), when asked to @verb ("create"). Returns the seconds to wait at
 * time
 * @now: what the server asked for; or 0.8 s, doubled up to 30 s; or for a right that is missing, 30
 * s, doubled up to 5 minutes; with jitter.
 */
double write_trouble_wait(struct write_trouble *trouble, const char *verb,
                          const struct api_status *status, double now);

/** A request was refused that is not worth another try. */
void write_trouble_refused(struct write_trouble *trouble, const char *verb,
                           const struct api_status *status);

/** A request went well. Says so if the last one did not. */
void write_trouble_over(struct write_trouble *trouble, double now);

/** What came back, for the functions above: @result's status and waits, and the Status in @body. */
void write_status(const struct api_result *result, const char *body, struct api_status *out);

/** Whether @code says that the very same request may go well later. */
bool write_may_go_well_later(long code);

/** Whether @status is about the server or us, and not about the one object: others would get it
 * too, and all may go well later. */
bool write_concerns_all(const struct api_status *status);

#endif
