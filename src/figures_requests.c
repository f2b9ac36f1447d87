/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What every client of Kubernetes says of its requests to the API server (docs/behaviour.md 7). */
#include "kube-nftd/figures_parts.h"

#include "kube-nftd/serve/metrics_page.h"
#include "kube-nftd/source/request_figures.h"

#include <stdio.h>

static void write_counts(const struct request_figures *requests, struct metrics_page *page)
{
    metrics_family(page, "rest_client_requests_total", "counter",
                   "Requests to the API server by status, method and host; a watch counts when it "
                   "is answered.");
    vec_each (&requests->counts, it) {
        char code[24];
        snprintf(code, sizeof(code), "%ld", it->status);
        const struct metrics_label labels[] = {{"code", it->status ? code : "<error>"},
                                               {"host", requests->host},
                                               {"method", it->method}};
        metrics_labelled(page, labels, 3, (double)it->count);
    }
}

static void write_times(const struct request_figures *requests, struct metrics_page *page)
{
    metrics_family(page, "rest_client_request_duration_seconds", "histogram",
                   "Time that requests to the API server took, but for watches.");
    vec_each (&requests->times, it) {
        const struct metrics_label labels[] = {{"host", requests->host}, {"verb", it->method}};
        metrics_histogram_labelled(page, labels, 2, &it->seconds);
    }
}

void figures_write_requests(const struct request_figures *requests, struct metrics_page *page)
{
    write_counts(requests, page);
    write_times(requests, page);
}
