/* SPDX-License-Identifier: Apache-2.0 */
/* Many GEMM cases, and the count of what they covered. */
#include <stdio.h>

#include "conformance/conformance.h"

static void count_cells(conformance_gemm_cells *cells, const kiln_gemm_desc *desc)
{
    int type = 0;
    while (conformance_gemm_types[type] != desc->a_type)
        type++;
    int layout = (desc->head.flags & KILN_GEMM_TRANSPOSE_A ? 2 : 0) +
                 (desc->head.flags & KILN_GEMM_TRANSPOSE_B ? 1 : 0);
    bool occurs[CONFORMANCE_GEMM_KINDS] = {desc->epilogue_count == 0};
    for (uint32_t i = 0; i < desc->epilogue_count; i++)
        occurs[desc->epilogues[i].kind] = true;
    for (int kind = 0; kind < CONFORMANCE_GEMM_KINDS; kind++)
        cells->count[type][layout][kind][KILN_GROUPING_NONE] += occurs[kind];
}

static void count_passed(const conformance_gemm_case *test, const conformance_gemm_result *result,
                         conformance_gemm_summary *summary)
{
    summary->passed++;
    count_cells(&summary->passed_cells, &test->desc);
    summary->elements += result->elements;
    summary->unbounded += result->unbounded;
    if (result->largest_ratio > summary->largest_ratio) {
        summary->largest_ratio = result->largest_ratio;
        summary->largest_ratio_index = test->index;
    }
    if (result->global > summary->largest_global)
        summary->largest_global = result->global;
}

static void note(char *text, size_t size, const conformance_gemm_case *test,
                 const conformance_gemm_result *result)
{
    char line[512];
    conformance_gemm_case_describe(test, line, sizeof line);
    snprintf(text, size, "%s: %s", line, result->text);
}

/* Without this a backend that is not there would seem to decline everything. */
static bool is_open(kiln_runtime *runtime, const char *backend)
{
    for (int64_t i = 0; i < kiln_plugin_count(runtime); i++) {
        kiln_plugin_info info = {.struct_size = sizeof info};
        if (kiln_plugin_at(runtime, i, &info) == KILN_OK && strcmp(info.name, backend) == 0 &&
            strcmp(info.state, "open") == 0)
            return true;
    }
    return false;
}

kiln_status conformance_gemm_sweep(kiln_runtime *runtime, const char *backend, uint64_t seed,
                                   int64_t first, int64_t count, conformance_gemm_summary *summary)
{
    if (!is_open(runtime, backend))
        return KILN_NOT_FOUND;
    for (int64_t index = first; index < first + count; index++) {
        conformance_gemm_case *test = conformance_gemm_case_create(seed, index);
        conformance_gemm_result result;
        if (!test)
            return KILN_NO_MEMORY;
        conformance_gemm_execute(runtime, backend, test, &result);
        if (result.outcome == CONFORMANCE_PASSED)
            conformance_gemm_judge(test, &result);
        if (result.outcome == CONFORMANCE_PASSED) {
            count_passed(test, &result, summary);
        } else if (result.outcome == CONFORMANCE_DECLINED) {
            summary->declined++;
            count_cells(&summary->declined_cells, &test->desc);
            note(summary->last_decline, sizeof summary->last_decline, test, &result);
        } else if (summary->failed++ == 0) {
            note(summary->first_failure, sizeof summary->first_failure, test, &result);
        }
        conformance_gemm_case_free(test);
    }
    return KILN_OK;
}
