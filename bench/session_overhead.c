/* SPDX-License-Identifier: Apache-2.0 */
/* What the frame costs: runs and direct calls over the backend's own function, and a parallel_for
 * of nothing. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/overhead.h"
#include "kiln/plugin.h"

enum { SLICE_NS = 500000, ROUNDS = 400, CONTENDERS = 4 };

/* Limits in nanoseconds. */
static const double run_limit = 15, call_limit = 80;

/* Limits hold while the backend's function takes at most this long, in nanoseconds. After a longer
 * one the frame's code and data may have left the nearest caches, and a few nanoseconds cannot be
 * told from its own variation. */
static const double longest_base = 1000;

/* The backend's function measured against itself may differ by this much, in nanoseconds. */
static const double noise_limit = 2;

bench_method bench_overhead_method(const bench_session *session)
{
    bench_method method = session->method;
    method.slice_ns = SLICE_NS;
    method.rounds = ROUNDS;
    method.minimum_rounds = BENCH_OVERHEAD_FEWEST_ROUNDS;
    return method;
}

bench_result bench_overhead_result(const char *operator_name, const char *shape,
                                   const char *backend, int64_t threads, double limit)
{
    bench_result result;
    memset(&result, 0, sizeof result);
    snprintf(result.operator_name, sizeof result.operator_name, "%s", operator_name);
    snprintf(result.shape, sizeof result.shape, "%s", shape);
    snprintf(result.dtype, sizeof result.dtype, "f32");
    snprintf(result.backend, sizeof result.backend, "%s", backend);
    snprintf(result.device, sizeof result.device, "host");
    result.threads = threads;
    result.gflops = result.ceiling_pct = result.check_ceiling = result.check_self = NAN;
    result.limit_ns = limit;
    result.attempts = 1;
    return result;
}

void bench_overhead_emit(bench_session *session, bench_result *result)
{
    if (bench_report_add(session->report, result) && session->row)
        session->row(result);
}

/* One GEMM so small that the backend does almost nothing. */
typedef struct tiny {
    kiln_runtime *runtime;
    kiln_plan *plan;
    kiln_plan_info info;
    kiln_plan_native native;
    kiln_run_context context;
    kiln_tensor tensors[KILN_GEMM_SLOTS];
    kiln_gemm_args args;
    float values[3];
    bench_message message;
} tiny;

static int64_t failed_run(tiny *self)
{
    bench_say(&self->message, "run: %.400s", kiln_last_error());
    return -1;
}

/* The backend's function alone, as the core calls it. */
static int64_t run_native(void *context, int64_t calls)
{
    tiny *self = context;
    const struct kiln_operator_table *table = self->native.table;
    for (int64_t call = 0; call < calls; call++)
        if (table->run(self->native.plan, &self->context, &self->args.head) != KILN_OK)
            return failed_run(self);
    return 0;
}

static int64_t run_plan(void *context, int64_t calls)
{
    tiny *self = context;
    for (int64_t call = 0; call < calls; call++)
        if (kiln_plan_run(self->plan, NULL, &self->args.head) != KILN_OK)
            return failed_run(self);
    return 0;
}

static int64_t run_call(void *context, int64_t calls)
{
    tiny *self = context;
    const kiln_tensor *tensors = self->tensors;
    for (int64_t call = 0; call < calls; call++)
        if (kiln_gemm(self->runtime, NULL, 0, 1, &tensors[KILN_GEMM_A], &tensors[KILN_GEMM_B], 0,
                      NULL, &tensors[KILN_GEMM_D]) != KILN_OK)
            return failed_run(self);
    return 0;
}

static bool tiny_fail(tiny *self, const char *what)
{
    return bench_say(&self->message, "%s: %.400s", what, kiln_last_error());
}

/* The plan that a direct call of this shape uses, so that all contenders run the same function. */
static bool tiny_plan(tiny *self, const bench_target *target)
{
    kiln_gemm_desc desc;
    kiln_plan_options options = {.struct_size = sizeof options, .staging = KILN_STAGING_DENY};
    kiln_gemm_describe(&desc, 0, &self->tensors[KILN_GEMM_A], &self->tensors[KILN_GEMM_B], NULL,
                       &self->tensors[KILN_GEMM_D]);
    if (kiln_plan_create(self->runtime, KILN_GEMM, &desc.head, &options, &self->plan) != KILN_OK)
        return tiny_fail(self, "plan");
    self->info.struct_size = sizeof self->info;
    self->native.struct_size = sizeof self->native;
    if (kiln_plan_get_info(self->plan, &self->info) != KILN_OK ||
        kiln_plan_get_native(self->plan, &self->native) != KILN_OK)
        return tiny_fail(self, "plan");
    if (target->backend && target->backend[0] && strcmp(target->backend, self->info.backend) != 0)
        return bench_say(
            &self->message,
            "direct calls of f32 GEMM on the host go to %s, not to %s: choose a profile that "
            "puts %s first (--profile)",
            self->info.backend, target->backend, target->backend);
    return true;
}

static bool tiny_open(tiny *self, kiln_runtime *runtime, const bench_target *target, int64_t k)
{
    memset(self, 0, sizeof *self);
    self->runtime = runtime;
    self->values[0] = 0.75f;
    self->values[1] = 1.5f;
    self->tensors[KILN_GEMM_A] = kiln_matrix(KILN_F32, &self->values[0], 1, k, k > 0 ? k : 1);
    self->tensors[KILN_GEMM_B] = kiln_matrix(KILN_F32, &self->values[1], k, 1, 1);
    self->tensors[KILN_GEMM_D] = kiln_matrix(KILN_F32, &self->values[2], 1, 1, 1);
    self->args = (kiln_gemm_args){{sizeof self->args, 4, self->tensors}, 1, 0};
    if (!tiny_plan(self, target))
        return false;
    self->context = (kiln_run_context){.struct_size = sizeof self->context,
                                       .workspace_bytes = self->info.workspace_bytes};
    if (self->info.workspace_bytes > 0) {
        self->context.workspace =
            aligned_alloc(4096, ((size_t)self->info.workspace_bytes + 4096) / 4096 * 4096);
        if (!self->context.workspace)
            return bench_say(&self->message, "memory is exhausted: a workspace of %lld bytes",
                             (long long)self->info.workspace_bytes);
    }
    double right = k > 0 ? 0.75 * 1.5 : 0;
    self->values[2] = NAN;
    if (run_native(self, 1) < 0 || (double)self->values[2] != right)
        return self->message.text[0]
                   ? false
                   : bench_say(&self->message, "the backend's function computes a wrong value");
    self->values[2] = NAN;
    if (run_call(self, 1) < 0 || (double)self->values[2] != right)
        return self->message.text[0]
                   ? false
                   : bench_say(&self->message, "a direct call computes a wrong value");
    return true;
}

static void tiny_close(tiny *self)
{
    kiln_plan_release(self->plan);
    free(self->context.workspace);
}

/* One result: what `over` takes beyond `base`, round by round. */
static void emit_difference(bench_session *session, bench_result *result,
                            const bench_contender *over, const bench_contender *base,
                            const bench_contender *again, int64_t rounds)
{
    double *differences = malloc((size_t)rounds * sizeof *differences);
    if (!differences)
        return;
    for (int64_t i = 0; i < rounds; i++)
        differences[i] = over->samples[i] - base->samples[i];
    result->samples = (bench_samples){differences, rounds};
    result->median = bench_median_estimate(differences, rounds);
    bench_estimate noise = bench_difference_estimate(again->samples, base->samples, rounds);
    double base_ns = bench_median(base->samples, rounds);
    result->check_self = bench_median(again->samples, rounds) / base_ns;
    if (!(fabs(noise.value) <= noise_limit))
        snprintf(result->void_reason, sizeof result->void_reason,
                 "the backend's function against itself reads %+.1f ns, not 0 ± %.0f: the machine "
                 "is not quiet",
                 noise.value, noise_limit);
    bool limited = base_ns <= longest_base;
    if (!limited)
        result->limit_ns = NAN;
    snprintf(result->note, sizeof result->note,
             "over the backend's function, which takes %.1f ns%s", base_ns,
             limited ? "" : ": too long for a limit");
    bench_overhead_emit(session, result);
}

/* Held plan and direct call over the backend's function. Measured anew while the machine is not
 * quiet. */
static bench_end measure_calls(bench_session *session, tiny *self, const char *shape)
{
    bench_method method = bench_overhead_method(session);
    double *samples = malloc(CONTENDERS * (size_t)method.rounds * sizeof *samples);
    if (!samples) {
        bench_say(&self->message, "memory is exhausted");
        return BENCH_END_FAILED;
    }
    bench_contender contenders[CONTENDERS] = {{.name = "backend", .run = run_native},
                                              {.name = "backend again", .run = run_native},
                                              {.name = "run", .run = run_plan},
                                              {.name = "call", .run = run_call}};
    for (int i = 0; i < CONTENDERS; i++) {
        contenders[i].context = self;
        contenders[i].operations = 1;
        contenders[i].samples = samples + i * method.rounds;
    }
    bench_result run =
        bench_overhead_result("overhead.run", shape, self->info.backend, 1, run_limit);
    bench_result call =
        bench_overhead_result("overhead.call", shape, self->info.backend, 1, call_limit);
    bench_end end = BENCH_END_MEASURED;
    int64_t rounds = 0, failure;
    for (int64_t attempt = 1;; attempt++) {
        bench_outcome outcome = bench_measure(&method, contenders, CONTENDERS, &rounds, &failure);
        run.attempts = call.attempts = attempt;
        end = outcome == BENCH_FAILED    ? BENCH_END_FAILED
              : outcome == BENCH_STOPPED ? BENCH_END_INTERRUPTED
                                         : end;
        if (outcome != BENCH_DONE || attempt >= session->attempts ||
            fabs(bench_difference_estimate(contenders[1].samples, contenders[0].samples, rounds)
                     .value) <= noise_limit)
            break;
    }
    if (end != BENCH_END_FAILED && rounds >= BENCH_OVERHEAD_FEWEST_ROUNDS) {
        emit_difference(session, &run, &contenders[2], &contenders[0], &contenders[1], rounds);
        emit_difference(session, &call, &contenders[3], &contenders[0], &contenders[1], rounds);
    }
    free(samples);
    return end;
}

static bench_end measure_shape(bench_session *session, const bench_target *target, int64_t k,
                               const char *shape)
{
    tiny *self = malloc(sizeof *self);
    if (!self)
        return BENCH_END_FAILED;
    bench_end end = BENCH_END_FAILED;
    if (tiny_open(self, session->runtime, target, k))
        end = measure_calls(session, self, shape);
    if (end == BENCH_END_FAILED)
        bench_report_fail(session->report, shape, target->backend ? target->backend : "",
                          &self->message);
    tiny_close(self);
    free(self);
    return end;
}

bench_end bench_session_overhead(bench_session *session, const bench_target *target)
{
    bench_end end = measure_shape(session, target, 1, "m=1 n=1 k=1");
    if (end == BENCH_END_MEASURED)
        end = measure_shape(session, target, 0, "m=1 n=1 k=0");
    return end == BENCH_END_MEASURED ? bench_session_parallel(session) : end;
}
