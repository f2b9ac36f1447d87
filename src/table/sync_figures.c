/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "state.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>

void sync_figures_init(struct sync_figures *figures, double now)
{
    *figures = (struct sync_figures){.started = now, .last_queued = now};
    figures->all.buckets = figures->full.buckets = figures->partial.buckets =
        &histogram_exponential;
    figures->programming.buckets = &histogram_programming;
}

void sync_figures_clear(struct sync_figures *figures)
{
    vec_each (&figures->triggers, trigger)
        intern_release(trigger->service_id);
    vec_free(&figures->triggers);
}

void sync_figures_triggered(struct sync_figures *figures, const char *service_id, double trigger)
{
    if (trigger > figures->started && figures->triggers.n < SYNC_TRIGGERS_MOST)
        vec_push(&figures->triggers, (struct sync_trigger){intern(service_id), trigger});
}

static void count_sent(struct sync_figures *figures, const struct ruleset_stats *sent)
{
    if (sent->bytes == 0)
        return;
    figures->transactions++;
    figures->elements_added += sent->elements_added;
    figures->elements_deleted += sent->elements_deleted;
    figures->bytes += sent->bytes;
    figures->seconds += sent->seconds;
    figures->last_bytes = sent->bytes;
    figures->last_seconds = sent->seconds;
}

void sync_figures_count(struct sync_figures *figures, bool full, double seconds,
                        const struct ruleset_stats *sent)
{
    histogram_add(&figures->all, seconds);
    histogram_add(full ? &figures->full : &figures->partial, seconds);
    if (sent)
        count_sent(figures, sent);
    else
        figures->failures++;
}

static int compare_services(const void *a, const void *b)
{
    const uintptr_t p = (uintptr_t)((const struct sync_trigger *)a)->service_id,
                    q = (uintptr_t)((const struct sync_trigger *)b)->service_id;
    return (p > q) - (p < q);
}

void sync_figures_in_force(struct sync_figures *figures, double now,
                           bool (*waits)(const void *ctx, const char *service_id,
                                         enum family family),
                           const void *ctx, enum family family)
{
    const char *asked = NULL;
    bool wait = false;
    size_t n = 0;
    if (waits && figures->triggers.n > 1) /* so that each Service is queried once */
        qsort(figures->triggers.v, figures->triggers.n, sizeof(*figures->triggers.v),
              compare_services);
    vec_each (&figures->triggers, trigger) {
        if (waits && trigger->service_id != asked)
            wait = waits(ctx, asked = trigger->service_id, family);
        if (wait) {
            figures->triggers.v[n++] = *trigger;
            continue;
        }
        /* The clock of the trigger's writer may be ahead of ours. */
        histogram_add(&figures->programming, fmax(now - trigger->time, 0));
        intern_release(trigger->service_id);
    }
    figures->triggers.n = n;
    if (n == 0)
        vec_clear_few(&figures->triggers);
}
