/* SPDX-License-Identifier: Apache-2.0 */
/* Measuring a GEMM beside its ceilings and its changes, and taking one from the other. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/gap_internal.h"

enum { FEWEST_ROUNDS = 3 };

const char *bench_part_name(bench_part_kind kind)
{
    static const char *const names[BENCH_PARTS] = {"bandwidth",     "packing", "tails",
                                                   "call overhead", "rest",    "direct call"};
    return names[kind];
}

/* ---- Contenders ---- */

static void add(gap_measurement *self, int which, const char *name,
                int64_t (*run)(void *context, int64_t calls), void *context, double operations)
{
    self->contenders[which] =
        (bench_contender){.name = name, .run = run, .context = context, .operations = operations};
}

static void add_ceilings(gap_measurement *self)
{
    bench_ceiling *ceiling = bench_session_ceiling(self->session, &self->plain.gemm.desc);
    bench_memory *memory = &self->plain.memory;
    bench_kiln_spans(&self->plain.kiln, self->session->team, memory);
    add(self, GAP_COMPUTE, "ceiling of arithmetic", bench_ceiling_run, ceiling,
        ceiling->operations / self->gap->operations);
    add(self, GAP_MEMORY, "ceiling of memory", bench_memory_run, memory, 1);
    snprintf(self->gap->compute_name, sizeof self->gap->compute_name, "%s: %s",
             bench_ceiling_name(ceiling->kind), ceiling->loop->name);
    int64_t reads = memory->reads[0].bytes + memory->reads[1].bytes + memory->reads[2].bytes;
    self->gap->memory_bytes = (double)reads + (double)memory->write.bytes;
    snprintf(self->gap->memory_name, sizeof self->gap->memory_name, "%lld + %lld bytes: %s",
             (long long)reads, (long long)memory->write.bytes, bench_memory_kernel());
}

static void add_all(gap_measurement *self)
{
    add(self, GAP_RUN, "run", bench_kiln_run, &self->plain.kiln, 1);
    add(self, GAP_AGAIN, "run again", bench_kiln_run, &self->plain.kiln, 1);
    if (!self->plain.kiln.stream)
        add_ceilings(self);
    if (self->packed.open)
        add(self, GAP_PACKED, "packed", bench_kiln_run, &self->packed.kiln, 1);
    if (self->rounded.open) {
        add(self, GAP_ROUNDED, "rounded", bench_kiln_run, &self->rounded.kiln, self->share);
        bench_kiln_spans(&self->rounded.kiln, self->session->team, &self->rounded.memory);
        if (!self->plain.kiln.stream)
            add(self, GAP_ROUNDED_MEMORY, "ceiling of memory, rounded", bench_memory_run,
                &self->rounded.memory, self->share);
    }
    gap_open_entries(self);
    if (self->has_native || self->has_direct)
        add(self, GAP_TINY, "run, tiny", bench_kiln_run, &self->tiny.kiln, 1);
    if (self->has_native)
        add(self, GAP_NATIVE, "native, tiny", gap_run_native, self, 1);
    if (self->has_direct)
        add(self, GAP_DIRECT, "call, tiny", gap_run_direct, self, 1);
}

/* Those that take part, side by side, for the method; their samples are found again by number. */
static bench_outcome take_turns(gap_measurement *self, int64_t *failed)
{
    bench_contender list[GAP_CONTENDERS];
    int numbers[GAP_CONTENDERS];
    int64_t count = 0;
    const bench_method *method = &self->session->method;
    for (int i = 0; i < GAP_CONTENDERS; i++) {
        if (!self->contenders[i].run)
            continue;
        self->contenders[i].samples = self->samples + i * method->rounds;
        numbers[count] = i;
        list[count++] = self->contenders[i];
    }
    bench_outcome outcome = bench_measure(method, list, count, &self->rounds, failed);
    *failed = *failed >= 0 ? numbers[*failed] : -1;
    return outcome;
}

/* ---- Parts ---- */

static const double *samples_of(const gap_measurement *self, int which)
{
    return self->contenders[which].run ? self->contenders[which].samples : NULL;
}

static double median_of(const gap_measurement *self, int which)
{
    const double *samples = samples_of(self, which);
    return samples ? bench_median(samples, self->rounds) : NAN;
}

/* NaN where nothing was measured: an estimate of numbers that are not is none. */
static bench_estimate estimate(const double *samples, int64_t rounds)
{
    if (rounds == 0 || !samples || isnan(samples[0]))
        return (bench_estimate){NAN, NAN, NAN};
    return bench_median_estimate(samples, rounds);
}

/* a - b, round by round; nothing where either is missing. */
static void subtract(gap_measurement *self, bench_part_kind part, int a, int b)
{
    const double *from = samples_of(self, a), *less = samples_of(self, b);
    for (int64_t i = 0; from && less && i < self->rounds; i++)
        self->parts[part][i] = from[i] - less[i];
}

/* Bandwidth counts where the ceiling of memory is the lower one; otherwise it takes nothing, and
 * that is said. */
static void find_bandwidth(gap_measurement *self)
{
    bench_part *part = &self->gap->parts[BENCH_PART_BANDWIDTH];
    double compute = median_of(self, GAP_COMPUTE), memory = median_of(self, GAP_MEMORY);
    if (isnan(compute)) {
        snprintf(part->remark, sizeof part->remark, "told of host memory only");
        return;
    }
    subtract(self, BENCH_PART_BANDWIDTH, GAP_MEMORY, GAP_COMPUTE);
    snprintf(part->remark, sizeof part->remark, "%s",
             "what the ceiling of memory takes beyond that of arithmetic");
    if (memory > compute)
        return;
    snprintf(part->remark, sizeof part->remark,
             "does not bind: moving the operands alone takes %.0f ns less than the arithmetic",
             compute - memory);
    for (int64_t i = 0; i < self->rounds; i++)
        self->parts[BENCH_PART_BANDWIDTH][i] = 0;
}

/* Both the shape and the rounded one without what bandwidth takes of them, which is counted once.
 */
static void find_tails(gap_measurement *self)
{
    bool packed = gap_rounded_is_packed(self);
    const double *run = samples_of(self, packed ? GAP_PACKED : GAP_RUN),
                 *rounded = samples_of(self, GAP_ROUNDED), *compute = samples_of(self, GAP_COMPUTE),
                 *memory = samples_of(self, GAP_ROUNDED_MEMORY),
                 *bandwidth = self->parts[BENCH_PART_BANDWIDTH];
    bool binds =
        compute && memory && median_of(self, GAP_ROUNDED_MEMORY) > median_of(self, GAP_COMPUTE);
    for (int64_t i = 0; rounded && i < self->rounds; i++) {
        double of_run = compute ? bandwidth[i] : 0;
        double of_rounded = binds ? memory[i] - compute[i] : 0;
        self->parts[BENCH_PART_TAILS][i] = (run[i] - of_run) - (rounded[i] - of_rounded);
    }
}

/* What is left of the gap, which is that of the run to the ceiling of arithmetic. */
static void find_rest(gap_measurement *self)
{
    bench_part *rest = &self->gap->parts[BENCH_PART_REST];
    if (!samples_of(self, GAP_COMPUTE)) {
        snprintf(rest->remark, sizeof rest->remark, "there is no ceiling here");
        return;
    }
    double *left = self->parts[BENCH_PART_REST];
    subtract(self, BENCH_PART_REST, GAP_RUN, GAP_COMPUTE);
    self->gap->gap = estimate(left, self->rounds);
    for (int64_t i = 0; i < self->rounds; i++)
        for (int part = 0; part < BENCH_PART_REST; part++)
            left[i] -= isnan(self->parts[part][i]) ? 0 : self->parts[part][i];
    snprintf(rest->remark, sizeof rest->remark, "the kernel itself, and what is not reported");
}

static void conclude(gap_measurement *self)
{
    bench_gap *gap = self->gap;
    int64_t rounds = self->rounds;
    gap->rounds = rounds;
    gap->run = estimate(samples_of(self, GAP_RUN), rounds);
    gap->compute = estimate(samples_of(self, GAP_COMPUTE), rounds);
    gap->memory = estimate(samples_of(self, GAP_MEMORY), rounds);
    gap->self_ratio = median_of(self, GAP_AGAIN) / median_of(self, GAP_RUN);
    find_bandwidth(self);
    subtract(self, BENCH_PART_PACKING, GAP_RUN, GAP_PACKED);
    subtract(self, BENCH_PART_OVERHEAD, GAP_TINY, GAP_NATIVE);
    subtract(self, BENCH_PART_DIRECT, GAP_DIRECT, GAP_TINY);
    find_tails(self);
    find_rest(self);
    for (int part = 0; part < BENCH_PARTS; part++)
        if (part != BENCH_PART_TAILS || self->rounded.open)
            gap->parts[part].amount = estimate(self->parts[part], rounds);
}

static bool measure_times(gap_measurement *self, bench_message *message)
{
    int64_t rounds = self->session->method.rounds, failed;
    self->samples = malloc((size_t)(rounds * (GAP_CONTENDERS + BENCH_PARTS)) * sizeof(double));
    if (!self->samples)
        return bench_say(message, "memory is exhausted");
    for (int part = 0; part < BENCH_PARTS; part++) {
        self->parts[part] = self->samples + (GAP_CONTENDERS + part) * rounds;
        for (int64_t i = 0; i < rounds; i++)
            self->parts[part][i] = NAN;
    }
    add_all(self);
    bench_outcome outcome = take_turns(self, &failed);
    if (outcome == BENCH_FAILED) {
        *message = failed == GAP_NATIVE || failed == GAP_DIRECT ? self->message
                   : failed == GAP_PACKED                       ? self->packed.kiln.message
                   : failed == GAP_ROUNDED                      ? self->rounded.kiln.message
                   : failed == GAP_TINY                         ? self->tiny.kiln.message
                                                                : self->plain.kiln.message;
        return false;
    }
    self->gap->interrupted = outcome == BENCH_STOPPED;
    if (self->rounds < FEWEST_ROUNDS && self->gap->interrupted)
        return bench_say(message, "interrupted before anything was measured");
    conclude(self);
    return true;
}

/* ---- The whole ---- */

static void describe(gap_measurement *self)
{
    const bench_kiln *kiln = &self->plain.kiln;
    bench_gap *gap = self->gap;
    snprintf(gap->backend, sizeof gap->backend, "%s", kiln->info.backend);
    snprintf(gap->device, sizeof gap->device, "%s", kiln->info.device);
    snprintf(gap->kernel, sizeof gap->kernel, "%s", kiln->info.kernel ? kiln->info.kernel : "");
    gap->threads = kiln_thread_count(self->session->runtime);
    gap->model = kiln->model;
    gap->operations = bench_gemm_operations(&self->plain.gemm);
    gap->bytes = bench_gemm_bytes(&self->plain.gemm);
}

bool bench_gap_measure(bench_session *session, const bench_gemm *gemm, const bench_target *target,
                       bench_gap *gap, bench_message *message)
{
    gap_measurement *self = calloc(1, sizeof *self);
    if (!self)
        return bench_say(message, "memory is exhausted");
    const bench_estimate none = {NAN, NAN, NAN};
    memset(gap, 0, sizeof *gap);
    gap->run = gap->compute = gap->memory = gap->gap = none;
    gap->self_ratio = NAN;
    for (int part = 0; part < BENCH_PARTS; part++)
        gap->parts[part].amount = none;
    self->session = session;
    self->gap = gap;
    self->share = 1;
    bool good = gap_open_plain(self, gemm, target, message);
    if (good) {
        describe(self);
        gap_open_packed(self);
        gap_open_rounded(self);
        good = gap->model ? gap_measure_cycles(self, message) : measure_times(self, message);
    }
    gap_close(self);
    free(self->samples);
    free(self);
    return good;
}
