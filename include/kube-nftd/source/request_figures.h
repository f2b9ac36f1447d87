/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What is counted of requests to the API server, as every client of Kubernetes counts it
 * (docs/behaviour.md 7): how many of each method were answered with which status, and how long they
 * took. A watch is counted when it is answered, and never timed: it lasts as long as it may.
 */
#ifndef KUBE_NFTD_SOURCE_REQUEST_FIGURES_H
#define KUBE_NFTD_SOURCE_REQUEST_FIGURES_H

#include "kube-nftd/base/histogram.h"
#include "kube-nftd/base/vec.h"

#include <stdint.h>

/* How often one method had one outcome. */
struct request_count {
    const char *method; /* static */
    long status;        /* of HTTP; 0: no answer came */
    uint64_t count;
};

struct request_times {
    const char *method; /* static */
    struct histogram seconds;
};

/* Starts zeroed; release with request_figures_clear(). There are a few of either. */
struct request_figures {
    char *host; /* owned: HOST:PORT of the server, as its URL says it */
    VEC(struct request_count) counts;
    VEC(struct request_times) times;
};

/** A request with @method (static) was answered with @status, 0 for not at all. */
void request_figures_answered(struct request_figures *figures, const char *method, long status);

/** It took @seconds to its end. */
void request_figures_took(struct request_figures *figures, const char *method, double seconds);

void request_figures_clear(struct request_figures *figures);

#endif
