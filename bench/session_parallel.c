/* SPDX-License-Identifier: Apache-2.0 */
/* What a warm parallel_for of two parts costs. With empty parts the caller may well have run both
 * before the other thread has come: so the time until two parts have met, which takes both threads,
 * is measured too. */
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "bench/overhead.h"

enum { PATIENCE = 200000 };

static const double limit_ns = 2000;

/* A meeting must come about this often to be measured. */
static const double least_meetings = 0.95;

typedef struct meeting {
    kiln_runtime *runtime;
    _Alignas(64) _Atomic int64_t arrived; /* over all calls */
    int64_t expected;                     /* after this call */
    _Atomic int64_t missed;
    int64_t calls;
} meeting;

static void nothing(void *argument, int64_t part)
{
    (void)argument;
    (void)part;
}

static int64_t run_empty(void *context, int64_t calls)
{
    meeting *self = context;
    for (int64_t call = 0; call < calls; call++)
        kiln_parallel_for(self->runtime, 2, nothing, NULL);
    return 0;
}

/* Waits for the other part, but not for ever: nobody promises that it runs at the same time. */
static void meet(void *argument, int64_t part)
{
    (void)part;
    meeting *self = argument;
    atomic_fetch_add(&self->arrived, 1);
    for (int i = 0; i < PATIENCE; i++)
        if (atomic_load(&self->arrived) >= self->expected)
            return;
    atomic_fetch_add(&self->missed, 1);
}

static int64_t run_meeting(void *context, int64_t calls)
{
    meeting *self = context;
    for (int64_t call = 0; call < calls; call++) {
        self->expected = atomic_load(&self->arrived) + 2;
        kiln_parallel_for(self->runtime, 2, meet, self);
    }
    self->calls += calls;
    return 0;
}

static void emit_parallel(bench_session *session, const bench_contender *contender, int64_t rounds,
                          const char *shape, double met)
{
    int64_t threads = kiln_thread_count(session->runtime);
    bench_result result =
        bench_overhead_result("overhead.parallel_for", shape, "core", threads, limit_ns);
    result.dtype[0] = 0;
    result.samples = bench_samples_copy(contender->samples, rounds);
    result.median = bench_median_estimate(contender->samples, rounds);
    if (threads < 2)
        snprintf(result.void_reason, sizeof result.void_reason,
                 "the runtime has one thread: give it two (--threads 2)");
    else if (met < least_meetings)
        snprintf(result.void_reason, sizeof result.void_reason,
                 "the two parts met in %.0f %% of the calls only: the machine has not two "
                 "processors free",
                 100 * met);
    bench_overhead_emit(session, &result);
}

static bench_end measure(bench_session *session, meeting *self, double *samples,
                         const bench_method *method)
{
    bench_contender contenders[2] = {{.name = "empty parts", .run = run_empty},
                                     {.name = "meeting", .run = run_meeting}};
    for (int i = 0; i < 2; i++) {
        contenders[i].context = self;
        contenders[i].operations = 1;
        contenders[i].samples = samples + i * method->rounds;
    }
    int64_t rounds = 0, failure;
    bench_outcome outcome = bench_measure(method, contenders, 2, &rounds, &failure);
    if (rounds >= BENCH_OVERHEAD_FEWEST_ROUNDS) {
        double met = 1 - (double)atomic_load(&self->missed) / (double)self->calls;
        emit_parallel(session, &contenders[0], rounds, "parts=2 empty", met);
        emit_parallel(session, &contenders[1], rounds, "parts=2 meeting", met);
    }
    return outcome == BENCH_STOPPED ? BENCH_END_INTERRUPTED
           : outcome == BENCH_DONE  ? BENCH_END_MEASURED
                                    : BENCH_END_FAILED;
}

bench_end bench_session_parallel(bench_session *session)
{
    bench_method method = bench_overhead_method(session);
    double *samples = malloc(2 * (size_t)method.rounds * sizeof *samples);
    meeting *self = aligned_alloc(64, (sizeof *self + 63) / 64 * 64);
    bench_end end = BENCH_END_FAILED;
    if (samples && self) {
        *self = (meeting){.runtime = session->runtime};
        end = measure(session, self, samples, &method);
    }
    if (end == BENCH_END_FAILED) {
        bench_message message = {"memory is exhausted"};
        bench_report_fail(session->report, "parts=2", "core", &message);
    }
    free(self);
    free(samples);
    return end;
}
