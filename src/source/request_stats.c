/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "request_stats.h"

#include "kube-nftd/base.h"

#include <string.h>

/* As in client-go. */
static const struct histogram_buckets request_buckets = {
    .n = 12, .bounds = {0.005, 0.025, 0.1, 0.25, 0.5, 1, 2, 4, 8, 15, 30, 60}};

void request_stats_count(struct request_stats *stats, const char *method, long status)
{
    vec_each (&stats->counts, it) {
        if (it->status == status && strcmp(it->method, method) == 0) {
            it->count++;
            return;
        }
    }
    vec_push(&stats->counts, (struct request_count){method, status, 1});
}

void request_stats_time(struct request_stats *stats, const char *method, double seconds)
{
    vec_each (&stats->times, it) {
        if (strcmp(it->method, method) == 0) {
            histogram_add(&it->seconds, seconds);
            return;
        }
    }
    struct request_times times = {.method = method, .seconds.buckets = &request_buckets};
    histogram_add(&times.seconds, seconds);
    vec_push(&stats->times, times);
}

void request_stats_clear(struct request_stats *stats)
{
    vec_free(&stats->counts);
    vec_free(&stats->times);
}
