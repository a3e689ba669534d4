/* SPDX-License-Identifier: Apache-2.0 */
/* kiln explain --measure: where the time of a GEMM goes. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/gap.h"
#include "tools/kiln/explain.h"
#include "tools/kiln/table.h"

const char explain_measure_help[] =
    "--measure runs the GEMM on the chosen backend and splits the gap between its time and\n"
    "the ceiling of arithmetic, by contenders that take turns in short slices. Each part is\n"
    "the median of differences within a round, with its 95 % interval:\n"
    "  bandwidth      the ceiling of memory (reading A, B, C and writing D once) less that of\n"
    "                 arithmetic, where it is the longer\n"
    "  packing        the run less the run with A and B packed beforehand, where the backend\n"
    "                 packs\n"
    "  tails          the run less the time that its operations take at the rate of m, n and k\n"
    "                 rounded up to the device's block, or to 64 when it names none; both\n"
    "                 packed, if that is offered, and without their bandwidth\n"
    "  call overhead  kiln_plan_run less the backend's own function, for m=n=k=1, since what\n"
    "                 the frame does does not depend on sizes\n"
    "  rest           what is left: the kernel itself\n"
    "  direct call    kiln_call less kiln_plan_run, for the same; beside the gap\n"
    "What cannot be told is \"not reported\". Parts may be negative: by noise, or because two\n"
    "of them share something.\n";

/* ---- Numbers ---- */

static const char *amount_text(double amount, bool model, char text[48])
{
    static const char *const units[] = {"ns", "us", "ms", "s"};
    int unit = 0;
    if (model) {
        snprintf(text, 48, "%.0f cycles", amount);
        return text;
    }
    for (; fabs(amount) >= 999.95 && unit < 3; unit++)
        amount /= 1000;
    snprintf(text, 48, "%.*f %s", fabs(amount) < 9.995 ? 2 : 1, amount, units[unit]);
    return text;
}

static double percent(const bench_gap *gap, double amount)
{
    return 100 * amount / gap->run.value;
}

/* What a part's interval says of it. */
static const char *doubt(const bench_part *part)
{
    const bench_estimate *amount = &part->amount;
    if (!(amount->low < amount->high) && amount->value >= 0)
        return ""; /* NaN, or exact */
    if (amount->low <= 0 && amount->high >= 0)
        return amount->value < 0 ? "; negative: within the noise" : "; within the noise";
    return amount->value < 0 ? "; negative: parts share something, or the other way is slower" : "";
}

/* ---- The table ---- */

static void row(tool_table *table, const char *indent, const char *name, const bench_gap *gap,
                bench_estimate amount, const char *remark, const char *more)
{
    char text[3][48];
    tool_table_cell(table, "%s%s", indent, name);
    if (isnan(amount.value)) {
        tool_table_cell(table, "not reported");
        tool_table_cell(table, "%s", "");
        tool_table_cell(table, "%s", "");
    } else {
        tool_table_cell(table, "%s", amount_text(amount.value, gap->model, text[0]));
        tool_table_cell(table, "%.1f %%", percent(gap, amount.value));
        tool_table_cell(table, "[%s, %s]", amount_text(amount.low, gap->model, text[1]),
                        amount_text(amount.high, gap->model, text[2]));
    }
    tool_table_cell(table, "%s%s", remark, more);
}

static const char *memory_text(const bench_gap *gap, char text[160])
{
    snprintf(text, 160, "%s", gap->memory_name);
    size_t used = strlen(text);
    if (!isnan(gap->memory.value))
        snprintf(text + used, 160 - used, ", %.1f GB/s", gap->memory_bytes / gap->memory.value);
    return text;
}

static const char *rate_text(const bench_gap *gap, char text[128])
{
    double ceiling = fmax(gap->compute.value, gap->memory.value);
    if (gap->model)
        snprintf(text, 128, "%.0f operations, %.0f bytes at least", gap->operations, gap->bytes);
    else if (isnan(ceiling))
        snprintf(text, 128, "%.1f GFLOP/s", gap->operations / gap->run.value);
    else
        snprintf(text, 128, "%.1f GFLOP/s, %.1f %% of the ceiling that binds",
                 gap->operations / gap->run.value, 100 * ceiling / gap->run.value);
    return text;
}

static void print_table(const char *shape, const bench_gap *gap)
{
    char rate[128], memory[160];
    printf("%s  %s\non %s, %s%s%s, %lld thread%s, %lld rounds\n\n", KILN_GEMM, shape, gap->backend,
           gap->device, gap->kernel[0] ? ", " : "", gap->kernel, (long long)gap->threads,
           gap->threads == 1 ? "" : "s", (long long)gap->rounds);
    tool_table *table = tool_table_new("part|>median|>of the run|95 %|how it is found");
    row(table, "", "run", gap, gap->run, rate_text(gap, rate), "");
    row(table, "", "ceiling of arithmetic", gap, gap->compute, gap->compute_name, "");
    row(table, "", "ceiling of memory", gap, gap->memory, memory_text(gap, memory), "");
    row(table, "", "gap", gap, gap->gap, "the run less the ceiling of arithmetic", "");
    for (int i = 0; i < BENCH_PARTS; i++)
        row(table, i == BENCH_PART_DIRECT ? "" : "  ", bench_part_name(i), gap,
            gap->parts[i].amount, gap->parts[i].remark, doubt(&gap->parts[i]));
    tool_table_print(table, 0, stdout);
    if (!gap->model) {
        printf("\nspread: the run against itself reads %.3f%s\n", gap->self_ratio,
               fabs(gap->self_ratio - 1) > 0.01
                   ? ", not 1.00 ± 0.01: the machine is not quiet, and small parts mean nothing"
                   : "");
    }
    if (gap->interrupted)
        puts("interrupted: of the rounds until then");
}

/* ---- JSON ---- */

static json_t *number(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

static json_t *amount_json(const bench_gap *gap, bench_estimate amount, const char *remark)
{
    return json_pack("{s:b, s:o, s:o, s:[o,o], s:s}", "reported", !isnan(amount.value), "value",
                     number(amount.value), "pct", number(percent(gap, amount.value)), "interval",
                     number(amount.low), number(amount.high), "how", remark);
}

static json_t *measure_json(const bench_gap *gap)
{
    json_t *parts = json_object();
    for (int i = 0; i < BENCH_PARTS; i++) {
        char *key = tool_text("%s", bench_part_name(i));
        for (char *c = key; *c; c++)
            *c = *c == ' ' ? '_' : *c;
        json_object_set_new(parts, key,
                            amount_json(gap, gap->parts[i].amount, gap->parts[i].remark));
        free(key);
    }
    json_t *object =
        json_pack("{s:s, s:s, s:s, s:I, s:I, s:s, s:o, s:o, s:o, s:o, s:o, s:b}", "backend",
                  gap->backend, "device", gap->device, "kernel", gap->kernel, "threads",
                  (json_int_t)gap->threads, "rounds", (json_int_t)gap->rounds, "unit",
                  gap->model ? "cycles" : "ns", "run", amount_json(gap, gap->run, ""),
                  "ceiling_of_arithmetic", amount_json(gap, gap->compute, gap->compute_name),
                  "ceiling_of_memory", amount_json(gap, gap->memory, gap->memory_name), "gap",
                  amount_json(gap, gap->gap, ""), "parts", parts, "interrupted", gap->interrupted);
    if (!object)
        return NULL;
    json_object_set_new(object, "gflops",
                        number(gap->model ? NAN : gap->operations / gap->run.value));
    json_object_set_new(object, "operations", json_real(gap->operations));
    json_object_set_new(object, "bytes", json_real(gap->bytes));
    json_object_set_new(object, "self_ratio", number(gap->self_ratio));
    json_object_set_new(object, "block",
                        json_pack("[I,I,I]", (json_int_t)gap->block[0], (json_int_t)gap->block[1],
                                  (json_int_t)gap->block[2]));
    json_object_set_new(object, "block_told", json_boolean(gap->block_told));
    return object;
}

/* ---- Measuring ---- */

static bool is_interrupted(void *context)
{
    (void)context;
    return tool_interrupted() != 0;
}

static void show_round(void *context, int64_t round, int64_t rounds)
{
    (void)context;
    tool_progress("round %lld of %lld", (long long)round + 1, (long long)rounds);
}

static bool measure(kiln_runtime *runtime, const bench_gemm *gemm, const bench_target *target,
                    const explain_measure_options *options, bench_gap *gap, bench_message *message)
{
    bench_report report;
    bench_session session;
    memset(&report, 0, sizeof report);
    memset(&session, 0, sizeof session);
    session.runtime = runtime;
    session.report = &report;
    session.attempts = 1;
    session.method = (bench_method){.slice_ns = options->slice_ms * 1000000,
                                    .rounds = options->rounds,
                                    .minimum_rounds = options->rounds < 5 ? options->rounds : 5,
                                    .budget_ns = INT64_C(60000000000),
                                    .seed = 1,
                                    .stop = is_interrupted,
                                    .progress = show_round};
    bool good = bench_session_start(&session, message) &&
                bench_gap_measure(&session, gemm, target, gap, message);
    bench_session_end(&session);
    bench_report_free(&report);
    return good;
}

int explain_measure(const tool_common *common, kiln_runtime *runtime, const gemm_words *words,
                    const explain_measure_options *options)
{
    bench_gemm gemm = {words->desc, words->alpha, words->beta, 1};
    bench_target target = {.runtime = runtime, .backend = words->backend, .device = words->device};
    bench_message message;
    bench_gap gap;
    char shape[256];
    if (gemm.desc.m < 1 || gemm.desc.n < 1 || gemm.desc.k < 1)
        return tool_usage(common, "m, n and k must be at least 1 to be measured");
    if (gemm.desc.batch == 0)
        gemm.desc.batch = 1;
    if (!bench_gemm_countable(&gemm, &message))
        return tool_usage(common, "%s", message.text);
    gemm_describe(&gemm.desc, shape, sizeof shape);
    tool_progress_begin(common);
    bool good = measure(runtime, &gemm, &target, options, &gap, &message);
    tool_progress_end();
    if (!good)
        tool_fail(common, "%s",
                  tool_interrupted() ? "interrupted before anything was measured" : message.text);
    else
        gap.interrupted = gap.interrupted || tool_interrupted();
    if (good && common->json) {
        json_t *object = measure_json(&gap);
        json_object_set_new(object, "operator", json_string(KILN_GEMM));
        json_object_set_new(object, "shape", json_string(shape));
        good = tool_print_json(common, object) == TOOL_OK;
    } else if (good) {
        print_table(shape, &gap);
    }
    return tool_interrupted() ? 128 + tool_interrupted() : good ? TOOL_OK : TOOL_FAILED;
}
