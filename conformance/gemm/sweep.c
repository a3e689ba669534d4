/* SPDX-License-Identifier: Apache-2.0 */
/* Many GEMM cases, and the count of what they covered. */
#include <stdio.h>

#include "conformance/gemm/case.h"

/* A case is looked at by its choices alone: a search this long has met every cell many times. */
enum { LONGEST_SEARCH = 100 * CONFORMANCE_GEMM_CELLS };

static void count_cells(conformance_gemm_cells *cells, const conformance_gemm_case *test)
{
    const kiln_gemm_desc *desc = &test->desc;
    int layout = (desc->head.flags & KILN_GEMM_TRANSPOSE_A ? 2 : 0) +
                 (desc->head.flags & KILN_GEMM_TRANSPOSE_B ? 1 : 0);
    bool occurs[CONFORMANCE_GEMM_KINDS] = {desc->epilogue_count == 0};
    for (uint32_t i = 0; i < desc->epilogue_count; i++)
        occurs[desc->epilogues[i].kind] = true;
    for (int kind = 0; kind < CONFORMANCE_GEMM_KINDS; kind++)
        cells->count[test->type][layout][kind][desc->grouping] += occurs[kind];
}

static void count_passed(const conformance_gemm_case *test, const conformance_gemm_result *result,
                         conformance_gemm_summary *summary)
{
    summary->passed++;
    count_cells(&summary->passed_cells, test);
    for (int feature = 0; feature < CONFORMANCE_GEMM_FEATURES; feature++)
        summary->features[feature] += test->features >> feature & 1;
    summary->elements += result->elements;
    summary->unbounded += result->unbounded;
    if (result->largest_ratio > summary->largest_ratio) {
        summary->largest_ratio = result->largest_ratio;
        summary->largest_ratio_index = test->index;
    }
    if (result->largest_ratio > summary->type_ratios[test->type])
        summary->type_ratios[test->type] = result->largest_ratio;
    if (result->global > summary->largest_global)
        summary->largest_global = result->global;
}

static void note(char *text, size_t size, const conformance_gemm_case *test,
                 const conformance_gemm_result *result)
{
    char line[560];
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

static kiln_status try_case(kiln_runtime *runtime, kiln_device *device, const char *backend,
                            uint64_t seed, int64_t index, conformance_gemm_summary *summary)
{
    conformance_gemm_case *test = conformance_gemm_case_create(seed, index);
    conformance_gemm_result result;
    if (!test)
        return KILN_NO_MEMORY;
    summary->vectors += conformance_gemm_case_hash(test);
    conformance_gemm_execute_on(runtime, device, backend, test, &result);
    if (result.outcome == CONFORMANCE_PASSED)
        conformance_gemm_judge(test, &result);
    if (result.outcome == CONFORMANCE_PASSED) {
        count_passed(test, &result, summary);
    } else if (result.outcome == CONFORMANCE_DECLINED) {
        summary->declined++;
        count_cells(&summary->declined_cells, test);
        note(summary->last_decline, sizeof summary->last_decline, test, &result);
    } else if (summary->failed++ == 0) {
        note(summary->first_failure, sizeof summary->first_failure, test, &result);
    }
    conformance_gemm_case_free(test);
    return KILN_OK;
}

kiln_status conformance_gemm_sweep_on(kiln_runtime *runtime, kiln_device *device,
                                      const char *backend, const conformance_gemm_filter *filter,
                                      uint64_t seed, int64_t first, int64_t count,
                                      conformance_gemm_summary *summary)
{
    if (!is_open(runtime, backend))
        return KILN_NOT_FOUND;
    int64_t found = 0, last_found = first;
    for (int64_t index = first; found < count; index++) {
        conformance_gemm_case chosen = {.seed = seed, .index = index};
        uint64_t random = conformance_case_random(seed, index);
        conformance_case_choose(&random, &chosen);
        if (index - last_found > LONGEST_SEARCH)
            return KILN_INVALID;
        if (!conformance_case_matches(&chosen, filter))
            continue;
        kiln_status status = try_case(runtime, device, backend, seed, index, summary);
        if (status != KILN_OK)
            return status;
        last_found = index;
        found++;
    }
    return KILN_OK;
}

kiln_status conformance_gemm_sweep_of(kiln_runtime *runtime, const char *backend,
                                      const conformance_gemm_filter *filter, uint64_t seed,
                                      int64_t first, int64_t count,
                                      conformance_gemm_summary *summary)
{
    return conformance_gemm_sweep_on(runtime, NULL, backend, filter, seed, first, count, summary);
}

kiln_status conformance_gemm_sweep(kiln_runtime *runtime, const char *backend, uint64_t seed,
                                   int64_t first, int64_t count, conformance_gemm_summary *summary)
{
    const conformance_gemm_filter any = {0};
    return conformance_gemm_sweep_of(runtime, backend, &any, seed, first, count, summary);
}
