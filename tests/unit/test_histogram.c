/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "unit.h"

#include <math.h>

static const struct histogram_buckets *const all_buckets[] = {&histogram_exponential,
                                                              &histogram_programming};

/* The bucket that the only sample is in. */
static size_t bucket_of(const struct histogram_buckets *buckets, double value)
{
    struct histogram histogram = {.buckets = buckets};
    histogram_add(&histogram, value);
    ck_assert_uint_eq(histogram_count(&histogram), 1);
    ck_assert(histogram.sum == value);
    for (size_t i = 0; i <= buckets->n; i++)
        if (histogram.counts[i])
            return i;
    ck_abort_msg("%g is in no bucket", value);
}

/* The next number up and down are told apart from a bound. */
TEST(a_bound_belongs_below_itself)
{
    for (size_t which = 0; which < 2; which++) {
        const struct histogram_buckets *buckets = all_buckets[which];
        for (size_t i = 0; i < buckets->n; i++) {
            double bound = buckets->bounds[i];
            ck_assert_uint_eq(bucket_of(buckets, bound), i);
            ck_assert_uint_eq(bucket_of(buckets, nextafter(bound, 0)), i);
            ck_assert_uint_eq(bucket_of(buckets, nextafter(bound, INFINITY)), i + 1);
        }
        ck_assert_uint_eq(bucket_of(buckets, 0), 0);
        ck_assert_uint_eq(bucket_of(buckets, -1), 0);
        ck_assert_uint_eq(bucket_of(buckets, 1e300), buckets->n);
        ck_assert_uint_eq(bucket_of(buckets, INFINITY), buckets->n);
    }
}

/* Spec 7, written down here as rules. */
TEST(buckets_are_those_of_kube_proxy)
{
    double bound = 0.001;
    ck_assert_uint_eq(histogram_exponential.n, 15);
    for (size_t i = 0; i < 15; i++, bound *= 2)
        ck_assert(histogram_exponential.bounds[i] == bound);
    ck_assert(histogram_exponential.bounds[14] == 16.384);

    size_t n = 0;
    const double *bounds = histogram_programming.bounds;
    ck_assert(bounds[n++] == 0.25);
    ck_assert(bounds[n++] == 0.5);
    for (int second = 1; second < 60; second++)
        ck_assert(bounds[n++] == second);
    for (int second = 60; second < 120; second += 5)
        ck_assert(bounds[n++] == second);
    for (int second = 120; second <= 300; second += 30)
        ck_assert(bounds[n++] == second);
    ck_assert_uint_eq(n, histogram_programming.n);
}

TEST(samples_add_up)
{
    struct histogram histogram = {.buckets = &histogram_exponential};
    ck_assert_uint_eq(histogram_count(&histogram), 0);
    for (int i = 0; i < 1000; i++)
        histogram_add(&histogram, i % 2 ? 0.0015 : 20);
    ck_assert_uint_eq(histogram_count(&histogram), 1000);
    ck_assert_uint_eq(histogram.counts[1], 500);
    ck_assert_uint_eq(histogram.counts[15], 500);
    ck_assert_double_eq_tol(histogram.sum, 10000.75, 1e-6);
}
