/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * How often something took how long. A plain value: nothing is allocated, a sample costs a search
 * among the bounds.
 */
#ifndef KUBE_NFTD_BASE_HISTOGRAM_H
#define KUBE_NFTD_BASE_HISTOGRAM_H

#include <stddef.h>
#include <stdint.h>

/* The most bounds that buckets may have. */
#define HISTOGRAM_BOUNDS_MOST 80

/* Upper bounds, ascending; a value that is equal to one belongs below it. */
struct histogram_buckets {
    size_t n;
    double bounds[HISTOGRAM_BOUNDS_MOST];
};

/** From 0.001 doubled 14 times: kube-proxy's buckets of everything but the next (docs/behaviour.md
 * 7). */
extern const struct histogram_buckets histogram_exponential;

/** kube-proxy's buckets of kubeproxy_network_programming_duration_seconds: up to 300
 * (docs/behaviour.md 7). */
extern const struct histogram_buckets histogram_programming;

/* Starts zeroed but for the buckets. */
struct histogram {
    const struct histogram_buckets *buckets; /* static */
    double sum;
    uint64_t counts[HISTOGRAM_BOUNDS_MOST + 1]; /* of each bucket alone; the last: above all */
};

/** One sample, which must be a number. */
void histogram_add(struct histogram *histogram, double value);

/** How many samples there were. */
uint64_t histogram_count(const struct histogram *histogram);

#endif
