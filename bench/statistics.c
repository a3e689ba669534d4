/* SPDX-License-Identifier: Apache-2.0 */
/* Medians, order-statistic intervals and the paired bootstrap. */
#include "bench/statistics.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "conformance/random.h"

enum { RESAMPLES = 2000 };

static int compare(const void *left, const void *right)
{
    double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

static double middle(const double *sorted, int64_t count)
{
    return count % 2 ? sorted[count / 2] : (sorted[count / 2 - 1] + sorted[count / 2]) / 2;
}

static double *sorted_copy(const double *values, int64_t count)
{
    double *sorted = count > 0 ? malloc((size_t)count * sizeof *sorted) : NULL;
    if (!sorted)
        return NULL;
    memcpy(sorted, values, (size_t)count * sizeof *sorted);
    qsort(sorted, (size_t)count, sizeof *sorted, compare);
    return sorted;
}

static bench_estimate nothing(void)
{
    return (bench_estimate){NAN, NAN, NAN};
}

double bench_median(const double *values, int64_t count)
{
    double *sorted = sorted_copy(values, count);
    double median = sorted ? middle(sorted, count) : NAN;
    free(sorted);
    return median;
}

/* The largest rank r (from 0) such that the values of rank r and count-1-r enclose the median with
 * probability >= 0.95: the binomial tail below r+1 successes of `count` fair tosses must not exceed
 * 0.025. */
static int64_t interval_rank(int64_t count)
{
    double term = -(double)count * log(2), tail = 0;
    int64_t rank = -1;
    for (int64_t i = 0; i < count / 2; i++) {
        tail += exp(term);
        if (tail > 0.025)
            break;
        rank = i;
        term += log((double)(count - i)) - log((double)(i + 1));
    }
    return rank < 0 ? 0 : rank;
}

bench_estimate bench_median_estimate(const double *values, int64_t count)
{
    double *sorted = sorted_copy(values, count);
    if (!sorted)
        return nothing();
    int64_t rank = interval_rank(count);
    bench_estimate estimate = {middle(sorted, count), sorted[rank], sorted[count - 1 - rank]};
    free(sorted);
    return estimate;
}

/* The ratio of medians of one resample of rounds; `scratch` holds 2 * count values. */
static double resampled_ratio(const double *numerator, const double *denominator, int64_t count,
                              double *scratch, uint64_t *state)
{
    for (int64_t i = 0; i < count; i++) {
        int64_t round = conformance_random_below(state, count);
        scratch[i] = numerator[round];
        scratch[count + i] = denominator[round];
    }
    qsort(scratch, (size_t)count, sizeof *scratch, compare);
    qsort(scratch + count, (size_t)count, sizeof *scratch, compare);
    return middle(scratch, count) / middle(scratch + count, count);
}

bench_estimate bench_ratio_estimate(const double *numerator, const double *denominator,
                                    int64_t count, uint64_t seed)
{
    bench_estimate estimate = nothing();
    estimate.value = bench_median(numerator, count) / bench_median(denominator, count);
    if (count < 3) {
        estimate.low = 0;
        estimate.high = INFINITY;
        return estimate;
    }
    double *ratios = malloc((size_t)(RESAMPLES + 2 * count) * sizeof *ratios);
    if (!ratios)
        return nothing();
    for (int i = 0; i < RESAMPLES; i++)
        ratios[i] = resampled_ratio(numerator, denominator, count, ratios + RESAMPLES, &seed);
    qsort(ratios, RESAMPLES, sizeof *ratios, compare);
    estimate.low = ratios[RESAMPLES * 25 / 1000];
    estimate.high = ratios[RESAMPLES * 975 / 1000 - 1];
    free(ratios);
    return estimate;
}

bench_estimate bench_difference_estimate(const double *a, const double *b, int64_t count)
{
    double *differences = count > 0 ? malloc((size_t)count * sizeof *differences) : NULL;
    if (!differences)
        return nothing();
    for (int64_t i = 0; i < count; i++)
        differences[i] = a[i] - b[i];
    bench_estimate estimate = bench_median_estimate(differences, count);
    free(differences);
    return estimate;
}
