/* SPDX-License-Identifier: GPL-2.0-or-later */
/* --explain: asks the running daemon over its metrics address, or computes from --manifests. */
#ifndef KUBE_NFTD_EXPLAIN_COMMAND_H
#define KUBE_NFTD_EXPLAIN_COMMAND_H

#include "kube-nftd/base/error.h"
#include "kube-nftd/config/options.h"
#include "kube-nftd/serve/explain.h"
#include "kube-nftd/serve/http_listener.h"

/* Exit statuses, documented in kube-nftd(8). */
enum explain_status {
    EXPLAIN_AGREES = 0,  /* or the kernel was not asked */
    EXPLAIN_FAILED = 1,  /* with an error */
    EXPLAIN_UNKNOWN = 2, /* no Service has it */
    EXPLAIN_DIFFERS = 3, /* the kernel does not hold what it should */
};

/** Explains options->explain on stdout. EXPLAIN_FAILED with @err set, or another status. */
enum explain_status explain_command(const struct options *options, struct error *err);

/** Prints @answer, which is taken, as @options say. */
enum explain_status explain_finish(const struct options *options, cJSON *answer, struct error *err);

/* Keeps questions from taking all of the loop's time or memory: after an answer that cost much
 * there is a pause, and answers that nobody reads hold up the next. Starts zeroed; outlives the
 * listener. */
struct explain_gate {
    double closed_until; /* clock_monotonic */
    size_t unread;       /* bytes of answers that are not sent yet */
};

/** Answers GET /explain?what=...[&all=true] from @sources; 503 while @gate is closed. */
void explain_answer(const struct explain_sources *sources, struct explain_gate *gate,
                    const struct http_request *request, struct http_answer *answer);

/** Whether a question is answered now: else there is no use in preparing for it. */
bool explain_gate_is_open(const struct explain_gate *gate);

#endif
