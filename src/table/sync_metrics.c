/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "state.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>

void sync_metrics_init(struct sync_metrics *metrics, double now)
{
    *metrics = (struct sync_metrics){.started = now, .last_queued = now};
    metrics->all.buckets = metrics->full.buckets = metrics->partial.buckets =
        &histogram_exponential;
    metrics->programming.buckets = &histogram_programming;
}

void sync_metrics_clear(struct sync_metrics *metrics)
{
    vec_each (&metrics->triggers, trigger)
        intern_release(trigger->service_id);
    vec_free(&metrics->triggers);
}

void sync_metrics_triggered(struct sync_metrics *metrics, const char *service_id, double trigger)
{
    if (trigger > metrics->started && metrics->triggers.n < SYNC_TRIGGERS_MOST)
        vec_push(&metrics->triggers, (struct sync_trigger){intern(service_id), trigger});
}

static void count_sent(struct sync_metrics *metrics, const struct commit_stats *sent)
{
    if (sent->bytes == 0)
        return;
    metrics->transactions++;
    metrics->elements_added += sent->elements_added;
    metrics->elements_deleted += sent->elements_deleted;
    metrics->bytes += sent->bytes;
    metrics->seconds += sent->seconds;
    metrics->last_bytes = sent->bytes;
    metrics->last_seconds = sent->seconds;
}

void sync_metrics_count(struct sync_metrics *metrics, bool full, double seconds,
                        const struct commit_stats *sent)
{
    histogram_add(&metrics->all, seconds);
    histogram_add(full ? &metrics->full : &metrics->partial, seconds);
    if (sent)
        count_sent(metrics, sent);
    else
        metrics->failures++;
}

static int compare_services(const void *a, const void *b)
{
    const uintptr_t p = (uintptr_t)((const struct sync_trigger *)a)->service_id,
                    q = (uintptr_t)((const struct sync_trigger *)b)->service_id;
    return (p > q) - (p < q);
}

void sync_metrics_applied(struct sync_metrics *metrics, double now,
                          bool (*waits)(const void *ctx, const char *service_id,
                                        enum family family),
                          const void *ctx, enum family family)
{
    const char *asked = NULL;
    bool wait = false;
    size_t n = 0;
    if (waits) /* so that each Service is queried once */
        vec_sort(&metrics->triggers, compare_services);
    vec_each (&metrics->triggers, trigger) {
        if (waits && trigger->service_id != asked)
            wait = waits(ctx, asked = trigger->service_id, family);
        if (wait) {
            metrics->triggers.v[n++] = *trigger;
            continue;
        }
        /* The clock of the trigger's writer may be ahead of ours. */
        histogram_add(&metrics->programming, fmax(now - trigger->time, 0));
        intern_release(trigger->service_id);
    }
    metrics->triggers.n = n;
    if (n == 0)
        vec_clear_few(&metrics->triggers);
}
