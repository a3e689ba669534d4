/* SPDX-License-Identifier: Apache-2.0 */
/* Calibration, shuffling and slicing. */
#include "bench/measure.h"

#include <stdlib.h>
#include <time.h>

#include "conformance/random.h"

enum { STRETCH = 10, WARM_SHARE = 16 };

int64_t bench_now(void *context)
{
    (void)context;
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static int64_t now(const bench_method *method)
{
    return method->now ? method->now(method->context) : bench_now(NULL);
}

static bool stopped(const bench_method *method)
{
    return method->stop && method->stop(method->context);
}

/* Nanoseconds that `calls` calls took, at least 1; negative when the contender failed. */
static int64_t time_calls(const bench_method *method, const bench_contender *contender,
                          int64_t calls)
{
    int64_t begin = now(method);
    int64_t elapsed = contender->run(contender->context, calls);
    int64_t end = now(method);
    if (elapsed == 0)
        elapsed = end - begin;
    return elapsed == 0 ? 1 : elapsed;
}

/* Finds how long one call takes: doubles the calls until they fill a quarter of a slice. The first
 * call, which may page in memory and wake threads, is not counted. Returns nanoseconds per call,
 * negative on failure. */
static double call_time(const bench_method *method, const bench_contender *contender)
{
    int64_t elapsed = time_calls(method, contender, 1);
    if (elapsed < 0 || elapsed >= method->slice_ns * STRETCH)
        return (double)elapsed;
    for (int64_t calls = 1;; calls *= 2) {
        elapsed = time_calls(method, contender, calls);
        if (elapsed < 0 || elapsed >= method->slice_ns / 4 || calls > INT64_MAX / 4)
            return (double)elapsed / (double)calls;
    }
}

/* Sets every contender's calls so that all slices are of one length: the method's, or the slowest
 * contender's single call. */
static bench_outcome calibrate(const bench_method *method, bench_contender *contenders,
                               int64_t count, double *times, int64_t *failed)
{
    double slice = (double)method->slice_ns;
    for (int64_t i = 0; i < count; i++) {
        if (stopped(method))
            return BENCH_STOPPED;
        times[i] = call_time(method, &contenders[i]);
        if (times[i] < 0) {
            *failed = i;
            return BENCH_FAILED;
        }
        if (times[i] > slice)
            slice = times[i];
    }
    if (slice > (double)method->slice_ns * STRETCH)
        slice = (double)method->slice_ns * STRETCH;
    for (int64_t i = 0; i < count; i++) {
        double calls = slice / times[i] + 0.5;
        contenders[i].calls = calls < 1 ? 1 : (int64_t)calls;
    }
    return BENCH_DONE;
}

static void shuffle(int64_t *order, int64_t count, uint64_t *state)
{
    for (int64_t i = 0; i < count; i++)
        order[i] = i;
    for (int64_t i = count - 1; i > 0; i--) {
        int64_t other = conformance_random_below(state, i + 1), kept = order[i];
        order[i] = order[other];
        order[other] = kept;
    }
}

/* One slice: a short untimed part first, since the former contender has left its own data in the
 * caches. */
static bool run_slice(const bench_method *method, bench_contender *contender, int64_t round)
{
    int64_t warm = contender->calls / WARM_SHARE;
    if (warm > 0 && contender->run(contender->context, warm) < 0)
        return false;
    int64_t elapsed = time_calls(method, contender, contender->calls);
    if (elapsed < 0)
        return false;
    contender->samples[round] =
        (double)elapsed / ((double)contender->calls * contender->operations);
    return true;
}

static bench_outcome run_round(const bench_method *method, bench_contender *contenders,
                               const int64_t *order, int64_t count, int64_t round, int64_t *failed)
{
    for (int64_t i = 0; i < count; i++) {
        if (stopped(method))
            return BENCH_STOPPED;
        if (!run_slice(method, &contenders[order[i]], round)) {
            *failed = order[i];
            return BENCH_FAILED;
        }
    }
    return BENCH_DONE;
}

static bench_outcome run_rounds(const bench_method *method, bench_contender *contenders,
                                int64_t *order, int64_t count, int64_t *rounds, int64_t *failed)
{
    uint64_t state = method->seed;
    int64_t begin = now(method);
    for (int64_t round = 0; round < method->rounds; round++) {
        if (round >= method->minimum_rounds && now(method) - begin > method->budget_ns)
            break;
        if (method->progress)
            method->progress(method->context, round, method->rounds);
        shuffle(order, count, &state);
        bench_outcome outcome = run_round(method, contenders, order, count, round, failed);
        if (outcome != BENCH_DONE)
            return outcome;
        *rounds = round + 1;
    }
    return BENCH_DONE;
}

bench_outcome bench_measure(const bench_method *method, bench_contender *contenders, int64_t count,
                            int64_t *rounds, int64_t *failed)
{
    *rounds = 0;
    *failed = -1;
    double *times = malloc((size_t)count * sizeof *times);
    int64_t *order = malloc((size_t)count * sizeof *order);
    bench_outcome outcome =
        times && order ? calibrate(method, contenders, count, times, failed) : BENCH_FAILED;
    if (outcome == BENCH_DONE)
        outcome = run_rounds(method, contenders, order, count, rounds, failed);
    free(times);
    free(order);
    return outcome;
}
