/* SPDX-License-Identifier: Apache-2.0 */
/* The measuring method: contenders take turns in short slices of equal length, in an order shuffled
 * anew each round, so that whatever the machine does meanwhile (clock, heat, neighbours) falls on
 * all of them alike. One sample is the mean time of an operation within a slice; results are
 * medians over rounds. */
#ifndef KILN_BENCH_MEASURE_H
#define KILN_BENCH_MEASURE_H

#include <stdbool.h>
#include <stdint.h>

/* One sentence for the user. */
typedef struct bench_message {
    char text[512];
} bench_message;

/* Somebody who does the work that is measured. */
typedef struct bench_contender {
    const char *name;

    /* Does `calls` calls, at least one. Returns 0 when the method's clock is to time them; a
     * positive number is the nanoseconds that they took by the contender's own clock (one that
     * works in another process); negative: it failed. */
    int64_t (*run)(void *context, int64_t calls);
    void *context;

    /* How many operations of the case one call amounts to; samples are nanoseconds per operation.
     */
    double operations;

    /* Filled by bench_measure. `samples` has room for the method's rounds and stays the caller's.
     */
    double *samples;
    int64_t calls; /* per slice */
} bench_contender;

/* How to measure. Zeroed members have no default but for the functions at the end. */
typedef struct bench_method {
    int64_t
        slice_ns;   /* length of a slice; stretched up to 10-fold when a single call takes longer */
    int64_t rounds; /* at most */
    int64_t minimum_rounds; /* even when the budget is spent */
    int64_t budget_ns;      /* for all rounds of one measurement */
    uint64_t seed;          /* of the order of slices */

    int64_t (*now)(void *context); /* NULL = CLOCK_MONOTONIC */
    bool (*stop)(void *context);   /* asked before each slice; NULL = never */
    void (*progress)(void *context, int64_t round,
                     int64_t rounds); /* before each round; NULL = none */
    void *context;
} bench_method;

typedef enum bench_outcome {
    BENCH_DONE = 0,
    BENCH_STOPPED = 1, /* `stop` said so; the rounds until then are whole */
    BENCH_FAILED = 2   /* a contender failed, or memory is exhausted */
} bench_outcome;

/* Calibrates and measures `count` contenders. *rounds gets the number of whole rounds: each
 * contender then has that many samples. *failed gets the index of the contender that failed, -1
 * when none did. */
bench_outcome bench_measure(const bench_method *method, bench_contender *contenders, int64_t count,
                            int64_t *rounds, int64_t *failed);

/* CLOCK_MONOTONIC in nanoseconds; the context is not used. */
int64_t bench_now(void *context);

#endif
