/* SPDX-License-Identifier: Apache-2.0 */
/* Checks of kiln.gemm/1: runs in shares, of everything that is served. */
#include "conformance/hash.h"
#include "conformance/plugin/op/gemm_near.h"
#include "conformance/plugin/op/op.h"

/* ---- One run in shares ---- */

typedef struct shares {
    kiln_plan *plan;
    kiln_gemm_args args;
    int64_t count;
    kiln_status statuses[CONFORMANCE_MAX_THREADS];
} shares;

static void run_share(void *argument, int64_t part)
{
    shares *self = argument;
    self->statuses[part] = kiln_plan_run_part(self->plan, part, self->count, &self->args.head);
}

/* In turn, the last first; or at once. */
static kiln_status run_shares(shares *self, bool at_once)
{
    kiln_status status = KILN_OK;
    if (!at_once || !conformance_threads(self->count, run_share, self))
        for (int64_t part = self->count; part-- > 0;)
            run_share(self, part);
    for (int64_t part = 0; part < self->count; part++)
        status = status == KILN_OK ? self->statuses[part] : status;
    return status;
}

static void begin_again(conformance_gemm_case *test)
{
    for (int slot = 0; slot < CONFORMANCE_GEMM_TENSORS; slot++)
        if (test->tensors[slot].memory)
            memcpy(test->tensors[slot].memory, test->tensors[slot].before,
                   (size_t)test->tensors[slot].bytes);
}

/* Frees the case. */
static void try_shares(conformance_gemm_bench *bench, conformance_gemm_case *test)
{
    static const int64_t counts[] = {1, 2, 3, 7, 16};
    kiln_plan *plan = test ? conformance_gemm_plan(bench, &test->desc) : NULL;
    kiln_plan_info info = {.struct_size = sizeof info};
    kiln_tensor tensors[CONFORMANCE_GEMM_TENSORS];
    for (int slot = 0; test && slot < CONFORMANCE_GEMM_TENSORS; slot++)
        tensors[slot] = test->tensors[slot].tensor;
    for (size_t i = 0; plan && i < sizeof counts / sizeof *counts; i++)
        for (int at_once = 0; at_once < 2 && !conformance_bench_failed(bench); at_once++) {
            shares all = {
                .plan = plan,
                .args = {{sizeof all.args, KILN_GEMM_SLOTS, tensors}, test->alpha, test->beta},
                .count = counts[i]};
            begin_again(test);
            kiln_status status = kiln_plan_get_info(plan, &info);
            if (status == KILN_OK)
                status = run_shares(&all, at_once);
            conformance_gemm_result result = {.outcome = CONFORMANCE_PASSED,
                                              .answer_flags = info.flags};
            char text[400], *words;
            conformance_gemm_case_describe(test, text, sizeof text);
            words = strchr(text, ':');
            if (status != KILN_OK)
                conformance_fail(bench->report, "run in %lld share%s:%s: %s", (long long)counts[i],
                                 counts[i] == 1 ? "" : "s", words ? words + 1 : text,
                                 kiln_status_name(status));
            conformance_gemm_judge(test, &result);
            bench->report->judged++;
            if (result.outcome == CONFORMANCE_FAILED)
                conformance_fail(bench->report, "run in %lld share%s%s:%s: %s",
                                 (long long)counts[i], counts[i] == 1 ? "" : "s",
                                 counts[i] == 1 ? ""
                                 : at_once      ? ", all at once"
                                                : ", the last first",
                                 words ? words + 1 : text, result.text);
        }
    kiln_plan_release(plan);
    conformance_gemm_case_free(test);
}

/* ---- Everything that is served ---- */

static void try_plain(conformance_gemm_bench *bench, const conformance_plain_types *types)
{
    for (int64_t batch = 1; batch < 4 && !conformance_bench_failed(bench); batch += 2) {
        conformance_gemm_spec spec = conformance_gemm_plain(types, 37, 19, 12);
        spec.batch = spec.desc.batch = batch;
        try_shares(bench, conformance_gemm_make(bench, &spec));
    }
}

/* Of one kind of A and B and one grouping: with each epilogue that makes more than D's elements, or
 * others. */
static void try_grouping(conformance_gemm_bench *bench, uint64_t seed, int type, uint32_t grouping)
{
    static const struct {
        uint32_t epilogue, d_type;
    } kinds[] = {{KILN_EPILOGUE_NONE, 0},
                 {KILN_EPILOGUE_SWIGLU, 0},
                 {KILN_EPILOGUE_BIAS_GRADIENT, 0},
                 {KILN_EPILOGUE_QUANTIZE, KILN_E4M3},
                 {KILN_EPILOGUE_QUANTIZE, KILN_I8}};
    conformance_plain_types form = conformance_plain_row(type);
    char reason[256];
    form.grouping = grouping;
    if (!conformance_plain_find(&bench->session, &form, reason))
        return;
    int64_t index = conformance_gemm_index(0, type, grouping);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds && !conformance_bench_failed(bench); i++) {
        conformance_gemm_wish wish = {.form = &form,
                                      .ease = CONFORMANCE_EASE_ALL | CONFORMANCE_EASE_VALUES,
                                      .m = 37,
                                      .n = 20,
                                      .k = 48,
                                      .epilogue = kinds[i].epilogue,
                                      .d_type = kinds[i].d_type,
                                      .batch = 1 + (int64_t)(i % 2)};
        conformance_gemm_case *test =
            conformance_gemm_near(&bench->session, seed, index, &wish, reason);
        if (!test)
            continue;
        uint64_t hash = conformance_gemm_case_hash(test);
        bench->report->vectors = conformance_hash(bench->report->vectors, &hash, sizeof hash);
        bench->report->cases++;
        try_shares(bench, test);
    }
}

void conformance_op_gemm_parts(const conformance_subject *subject, conformance_report *report)
{
    conformance_gemm_bench bench;
    conformance_bench_begin_any(subject, NULL, report, &bench);
    if (report->verdict == CONFORMANCE_CHECK_PASSED && !bench.session.host)
        conformance_skip(report, "its tensors are not in host memory");
    for (int i = 0; report->verdict == CONFORMANCE_CHECK_PASSED && i < bench.type_count; i++)
        try_plain(&bench, &bench.types[i]);
    for (int type = 0; type < CONFORMANCE_GEMM_TYPES - 1; type++)
        for (uint32_t grouping = 0;
             report->verdict == CONFORMANCE_CHECK_PASSED && grouping < CONFORMANCE_GEMM_GROUPINGS;
             grouping++)
            try_grouping(&bench, subject->seed, type, grouping);
    conformance_bench_end(&bench);
}
