/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "kube-nftd/source.h"

#include <string.h>

/* client-go's. */
static const struct histogram_buckets request_buckets = {
    .n = 12, .bounds = {0.005, 0.025, 0.1, 0.25, 0.5, 1, 2, 4, 8, 15, 30, 60}};

void request_figures_answered(struct request_figures *figures, const char *method, long status)
{
    vec_each (&figures->counts, it) {
        if (it->status == status && strcmp(it->method, method) == 0) {
            it->count++;
            return;
        }
    }
    vec_push(&figures->counts, (struct request_count){method, status, 1});
}

void request_figures_took(struct request_figures *figures, const char *method, double seconds)
{
    vec_each (&figures->times, it) {
        if (strcmp(it->method, method) == 0) {
            histogram_add(&it->seconds, seconds);
            return;
        }
    }
    struct request_times times = {.method = method, .seconds.buckets = &request_buckets};
    histogram_add(&times.seconds, seconds);
    vec_push(&figures->times, times);
}

void request_figures_clear(struct request_figures *figures)
{
    free(figures->host);
    figures->host = NULL;
    vec_free(&figures->counts);
    vec_free(&figures->times);
}
