/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Pages for people on the metrics address (docs/behaviour.md 6.3), which promise no format:
 * /statusz and /flagz, and /debug/flags/v, whose PUT sets how much is logged.
 */
#ifndef KUBE_NFTD_SERVE_DIAGNOSTICS_H
#define KUBE_NFTD_SERVE_DIAGNOSTICS_H

#include "kube-nftd/serve/http_listener.h"
#include "kube-nftd/serve/status.h"

void diagnostics_statusz(const struct daemon_status *status, struct http_answer *answer);

/** @flags: a line "name=value" each. */
void diagnostics_flagz(const char *flags, struct http_answer *answer);

/** PUT, with the number as body. An http_answer_fn without a context. */
void diagnostics_verbosity(void *ctx, const struct http_request *request,
                           struct http_answer *answer);

#endif
