/* SPDX-License-Identifier: Apache-2.0 */
/* A plain team of threads for the ceiling loops, so that they do not depend on the pool that is
 * being measured. */
#ifndef KILN_BENCH_TEAM_H
#define KILN_BENCH_TEAM_H

#include <stdint.h>

typedef struct bench_team bench_team;

/* Starts threads - 1 threads; the caller is the last. They sleep between runs. NULL when they
 * cannot be had. */
bench_team *bench_team_create(int64_t threads);

/* NULL is accepted. */
void bench_team_destroy(bench_team *team);

int64_t bench_team_threads(const bench_team *team);

/* Runs task(argument, thread) on every thread at once and returns the nanoseconds from the moment
 * when all had arrived until the last had finished, at least 1: waking the threads is not counted.
 * One caller at a time. */
int64_t bench_team_run(bench_team *team, void (*task)(void *argument, int64_t thread),
                       void *argument);

#endif
