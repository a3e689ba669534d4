/* SPDX-License-Identifier: Apache-2.0 */
/* What the measurements of the frame's cost share. */
#ifndef KILN_BENCH_OVERHEAD_H
#define KILN_BENCH_OVERHEAD_H

#include "bench/session.h"

/* With fewer rounds, after an interruption, nothing is told. */
enum { BENCH_OVERHEAD_FEWEST_ROUNDS = 20 };

/* The session's method with short slices and many rounds: differences of a few nanoseconds are
 * looked for. */
bench_method bench_overhead_method(const bench_session *session);

/* A result with everything but its figures. The limit is in nanoseconds. */
bench_result bench_overhead_result(const char *operator_name, const char *shape,
                                   const char *backend, int64_t threads, double limit);

/* Adds a result to the report and shows it. */
void bench_overhead_emit(bench_session *session, bench_result *result);

/* A parallel_for of two parts that do nothing, and of two that meet. */
bench_end bench_session_parallel(bench_session *session);

#endif
