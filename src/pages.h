/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the metrics address answers about this daemon: its state, Services, explanations, metrics.
 */
#ifndef KUBE_NFTD_PAGES_H
#define KUBE_NFTD_PAGES_H

#include "kube-nftd/config.h"
#include "kube-nftd/serve.h"
#include "object_source.h"
#include "proxy.h"

/* What they are answered from; borrowed but for the last three, which start zeroed. */
struct pages {
    const struct options *options;
    const struct object_source *source;
    struct proxy *proxy; /* NULL: not there yet; the same for the next two */
    const struct flow_cleaner *flows;
    const struct health *health;
    const char *node_name;
    double started;           /* clock_realtime */
    bool owned[FAMILY_COUNT]; /* no other program can change the table */
    void (*sync)(void *ctx);  /* decides and programs what has come */
    void *sync_ctx;
    const struct metrics *metrics;
    struct explain_gate gate;
    struct list_page list;
};

/** Adds all pages to @metrics. @pages outlives it. */
void pages_add(struct pages *pages, struct metrics *metrics);

/** A metrics_fn for the pages @ctx. */
void pages_write_metrics(void *ctx, struct metrics_page *page);

#endif
