/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "kube-nftd/sync_figures.h"

#include <math.h>

void sync_figures_init(struct sync_figures *figures, double now)
{
    *figures = (struct sync_figures){.started = now, .last_queued = now};
    figures->all.buckets = figures->full.buckets = figures->partial.buckets =
        &histogram_exponential;
    figures->programming.buckets = &histogram_programming;
}

void sync_figures_clear(struct sync_figures *figures)
{
    vec_free(&figures->triggers);
}

void sync_figures_queued(struct sync_figures *figures, double now)
{
    figures->last_queued = now;
}

void sync_figures_triggered(struct sync_figures *figures, double trigger)
{
    if (trigger > figures->started && figures->triggers.n < SYNC_TRIGGERS_MOST)
        vec_push(&figures->triggers, trigger);
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

void sync_figures_succeeded(struct sync_figures *figures, double now)
{
    figures->last_success = now;
}

void sync_figures_in_force(struct sync_figures *figures, double now)
{
    /* The clock of who wrote the trigger may be ahead of ours. */
    vec_each (&figures->triggers, trigger)
        histogram_add(&figures->programming, fmax(now - *trigger, 0));
    vec_clear_few(&figures->triggers);
}
