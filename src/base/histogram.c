/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "kube-nftd/base.h"

const struct histogram_buckets histogram_exponential = {
    .n = 15,
    .bounds = {0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.064, 0.128, 0.256, 0.512, 1.024, 2.048,
               4.096, 8.192, 16.384}};

const struct histogram_buckets histogram_programming = {
    .n = 80,
    .bounds = {0.25, 0.5, 1,  2,  3,  4,   5,   6,   7,   8,   9,   10,  11,  12,  13,  14,
               15,   16,  17, 18, 19, 20,  21,  22,  23,  24,  25,  26,  27,  28,  29,  30,
               31,   32,  33, 34, 35, 36,  37,  38,  39,  40,  41,  42,  43,  44,  45,  46,
               47,   48,  49, 50, 51, 52,  53,  54,  55,  56,  57,  58,  59,  60,  65,  70,
               75,   80,  85, 90, 95, 100, 105, 110, 115, 120, 150, 180, 210, 240, 270, 300}};

/* Index of the first bound that is not below @value, or the number of bounds. */
static size_t bucket_of(const struct histogram_buckets *buckets, double value)
{
    size_t low = 0, high = buckets->n;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (buckets->bounds[middle] < value)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

void histogram_add(struct histogram *histogram, double value)
{
    histogram->counts[bucket_of(histogram->buckets, value)]++;
    histogram->sum += value;
}

uint64_t histogram_count(const struct histogram *histogram)
{
    uint64_t count = 0;
    for (size_t i = 0; i <= histogram->buckets->n; i++)
        count += histogram->counts[i];
    return count;
}
