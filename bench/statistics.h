/* SPDX-License-Identifier: Apache-2.0 */
/* Medians and their 95 % intervals: all the statistics that a measurement here rests on. */
#ifndef KILN_BENCH_STATISTICS_H
#define KILN_BENCH_STATISTICS_H

#include <stdint.h>

/* A value and the 95 % interval around it. NaN in all three when there was nothing to estimate
 * from. */
typedef struct bench_estimate {
    double value;
    double low;
    double high;
} bench_estimate;

/* The median of `count` values in any order; the mean of the middle two for an even count. NaN when
 * count is 0 or memory is exhausted. */
double bench_median(const double *values, int64_t count);

/* The median with the distribution-free interval between two order statistics (Conover, Practical
 * Nonparametric Statistics, 3.2). Fewer than 6 values cannot give 95 %: the interval is then the
 * whole range. */
bench_estimate bench_median_estimate(const double *values, int64_t count);

/* median(numerator) / median(denominator), where values of equal index were measured in the same
 * round. The interval is the percentile bootstrap over rounds (Efron and Tibshirani, An
 * Introduction to the Bootstrap, 13.3); `seed` makes it repeatable. With fewer than 3 rounds the
 * interval is unbounded: (0, Inf). */
bench_estimate bench_ratio_estimate(const double *numerator, const double *denominator,
                                    int64_t count, uint64_t seed);

/* The median of the paired differences a[i] - b[i], with its interval. */
bench_estimate bench_difference_estimate(const double *a, const double *b, int64_t count);

#endif
