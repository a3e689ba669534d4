/* SPDX-License-Identifier: Apache-2.0 */
/* The gap of a model: what it counts. */
#include <stdio.h>
#include <string.h>

#include "bench/gap_internal.h"

enum { MODEL_ROUNDS = 3, MAXIMUM_COUNTERS = 32 };

/* Cycles of one run; they do not vary, so that a few runs show it. */
static bool count_cycles(gap_variant *self, bench_estimate *cycles, bench_message *message)
{
    double counted[MODEL_ROUNDS];
    for (int i = 0; i < MODEL_ROUNDS; i++)
        if ((counted[i] = bench_kiln_cycles(&self->kiln, 1)) < 0) {
            *message = self->kiln.message;
            return false;
        }
    *cycles = bench_median_estimate(counted, MODEL_ROUNDS);
    return true;
}

static bench_estimate difference(bench_estimate a, bench_estimate b, double share)
{
    return (bench_estimate){a.value - b.value / share, a.low - b.high / share,
                            a.high - b.low / share};
}

/* What the device counts in a unit during one run: "mte2_bytes 18432, mte3_bytes 4224". */
static void list_counters(gap_variant *self, const char *unit, char *text, size_t size)
{
    kiln_counter before[MAXIMUM_COUNTERS], after[MAXIMUM_COUNTERS];
    int64_t count = 0, again = 0;
    size_t used = 0;
    text[0] = '\0';
    if (kiln_stream_counters(self->kiln.stream, before, MAXIMUM_COUNTERS, &count) != KILN_OK ||
        bench_kiln_run(&self->kiln, 1) < 0 ||
        kiln_stream_counters(self->kiln.stream, after, MAXIMUM_COUNTERS, &again) != KILN_OK ||
        again != count)
        return;
    for (int64_t i = 0; i < count && i < MAXIMUM_COUNTERS && used < size; i++)
        if (strcmp(after[i].unit, unit) == 0 && after[i].value > before[i].value)
            used += (size_t)snprintf(text + used, size - used, "%s%s %lld", used ? ", " : "",
                                     after[i].name, (long long)(after[i].value - before[i].value));
}

/* A model counts, and its times say nothing. */
static void explain_model(gap_measurement *self)
{
    bench_gap *gap = self->gap;
    char counters[200];
    for (int part = 0; part < BENCH_PARTS; part++)
        if (part != BENCH_PART_PACKING && part != BENCH_PART_TAILS)
            snprintf(gap->parts[part].remark, sizeof gap->parts[part].remark,
                     "%s is a model: it has cycles, and neither times nor ceilings", gap->device);
    list_counters(&self->plain, "bytes", counters, sizeof counters);
    if (counters[0])
        snprintf(gap->parts[BENCH_PART_BANDWIDTH].remark, sizeof gap->parts[0].remark,
                 "moved: %s; %.0f bytes at least", counters, gap->bytes);
    list_counters(&self->plain, "cycles", counters, sizeof counters);
    if (counters[0])
        snprintf(gap->parts[BENCH_PART_REST].remark, sizeof gap->parts[0].remark, "cycles: %s",
                 counters);
}

bool gap_measure_cycles(gap_measurement *self, bench_message *message)
{
    bench_gap *gap = self->gap;
    bench_estimate other, base;
    gap->rounds = MODEL_ROUNDS;
    explain_model(self);
    if (!count_cycles(&self->plain, &gap->run, message))
        return false;
    base = gap->run;
    if (self->packed.open) {
        if (!count_cycles(&self->packed, &other, message))
            return false;
        gap->parts[BENCH_PART_PACKING].amount = difference(gap->run, other, 1);
        if (gap_rounded_is_packed(self))
            base = other;
    }
    if (self->rounded.open) {
        if (!count_cycles(&self->rounded, &other, message))
            return false;
        gap->parts[BENCH_PART_TAILS].amount = difference(base, other, self->share);
    }
    return true;
}
