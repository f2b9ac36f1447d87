/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A page in the text format of Prometheus 0.0.4. A family of metrics stands on it with its first
 * sample: one without any is left out, as kube-proxy's are (docs/behaviour.md 7).
 */
#ifndef KUBE_NFTD_SERVE_METRICS_PAGE_H
#define KUBE_NFTD_SERVE_METRICS_PAGE_H

#include "kube-nftd/base/histogram.h"

#include <stddef.h>

struct metrics_page;

struct metrics_label {
    const char *name;
    const char *value; /* escaped when it is written */
};

/* Writes all families of metrics of a page. */
typedef void (*metrics_fn)(void *ctx, struct metrics_page *page);

/** The page that @write writes, for the caller to free, and its *@length. */
char *metrics_print(metrics_fn write, void *ctx, size_t *length);

/** Begins a family, with its HELP and TYPE lines. @type is "gauge", "counter" or "histogram". The
 * texts are borrowed until the next family begins. */
void metrics_family(struct metrics_page *page, const char *name, const char *type,
                    const char *help);

/** One sample of the family that was begun last. @label is NULL or a label's name, @value_of_label
 * its value. */
void metrics_sample(struct metrics_page *page, const char *label, const char *value_of_label,
                    double value);

/** The same with @n labels. */
void metrics_labelled(struct metrics_page *page, const struct metrics_label *labels, size_t n,
                      double value);

/* The most labels that a histogram may have. */
#define METRICS_LABELS_MOST 4

/** The samples of a histogram: its buckets, sum and count. */
void metrics_histogram(struct metrics_page *page, const char *label, const char *value_of_label,
                       const struct histogram *histogram);

/** The same with @n labels, at most METRICS_LABELS_MOST. */
void metrics_histogram_labelled(struct metrics_page *page, const struct metrics_label *labels,
                                size_t n, const struct histogram *histogram);

#endif
