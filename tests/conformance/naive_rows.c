/* SPDX-License-Identifier: Apache-2.0 */
/* The naive plugin: the rows of D, by group. */
#include "tests/conformance/naive_parts.h"

/* Where the rows and steps of a group are. */
typedef struct naive_group {
    int64_t group, a_lead, b_lead, d_lead, begin, end;
} naive_group;

static void start_row(naive_run *run, const naive_group *group, int64_t row)
{
    bool whole = run->desc->d_type == KILN_I32;
    double alpha = whole ? run->alpha : naive_rounded(run, run->alpha),
           beta = whole ? run->beta : naive_rounded(run, run->beta);
    if (run->alpha != 0)
        naive_load_operand(run, KILN_GEMM_A, group->a_lead, row, group->begin, group->end, 1,
                           run->a, run->a_scale);
    for (int64_t j = 0; j < run->n; j++) {
        double value = 0;
        if (run->alpha != 0)
            value = naive_sum(run, j, group->begin, group->end) * alpha;
        if (!whole)
            value = naive_rounded(run, value);
        if (run->beta != 0) {
            double c = naive_load(run, &run->tensors[KILN_GEMM_C], group->d_lead, 2, row, j);
            value = whole ? value + c * beta
                          : naive_rounded(run,
                                          value + naive_rounded(run, naive_rounded(run, c) * beta));
        }
        run->values[j] = run->desc->epilogue_count ? naive_rounded(run, value) : value;
    }
}

/* Rows, of which `is_row` says whether they belong. */
static bool is_row_of(const naive_run *run, const naive_group *group, int64_t row)
{
    const kiln_tensor *groups = &run->tensors[KILN_GEMM_GROUPS];
    if (run->desc->grouping == KILN_GROUPING_CONTIGUOUS)
        return naive_load(run, groups, 0, 1, 0, row) == (double)group->group;
    if (run->desc->grouping == KILN_GROUPING_MASKED)
        return (double)row < naive_load(run, groups, 0, 1, 0, group->group) +
                                 naive_is_mistake(run, NAIVE_ROW_TOO_MANY);
    return true;
}

static void write_zeros(const naive_run *run, int64_t lead, int64_t row)
{
    const kiln_tensor *d = &run->tensors[KILN_GEMM_D];
    for (int64_t j = 0; j < d->shape[d->rank - 1]; j++)
        naive_store(run, d, lead, 2, row, j, 0, 0);
}

static void compute_group(naive_run *run, const naive_group *group)
{
    int64_t last = -1;
    for (int64_t i = 0; i < run->m; i++)
        if (is_row_of(run, group, i))
            last = i;
    if (run->alpha != 0 && last >= 0)
        for (int64_t j = 0; j < run->n; j++)
            naive_load_operand(run, KILN_GEMM_B, group->b_lead, j, group->begin, group->end, run->n,
                               run->b + j, run->b_scale + j);
    for (int64_t i = 0; i < run->m; i++) {
        if (is_row_of(run, group, i)) {
            start_row(run, group, i);
            naive_finish_row(run, group->group, group->d_lead, i, i == last);
        } else if (naive_is_mistake(run, NAIVE_WRITES_PADDING) &&
                   run->desc->grouping == KILN_GROUPING_MASKED) {
            write_zeros(run, group->d_lead, i);
        }
    }
}

static int64_t clamped(double value, int64_t low, int64_t high)
{
    return value < (double)low ? low : value > (double)high ? high : (int64_t)value;
}

static void note_exceeded(naive_run *run)
{
    const kiln_tensor *groups = &run->tensors[KILN_GEMM_GROUPS];
    double before = 0;
    if (run->desc->grouping == KILN_GROUPING_NONE)
        return;
    for (int64_t i = 0; i < groups->shape[groups->rank - 1]; i++) {
        double value = naive_load(run, groups, 0, 1, 0, i);
        if (run->desc->grouping == KILN_GROUPING_CONTIGUOUS)
            run->exceeded |= value < -1 || value >= (double)run->desc->groups;
        else if (run->desc->grouping == KILN_GROUPING_MASKED)
            run->exceeded |= value < 0 || value > (double)run->m;
        else
            run->exceeded |= value < before || value > (double)run->k;
        before = value;
    }
}

static void compute_groups(naive_run *run)
{
    uint32_t grouping = run->desc->grouping;
    bool late = naive_is_mistake(run, NAIVE_STEP_TOO_MANY),
         before = naive_is_mistake(run, NAIVE_WRONG_GROUP);
    int64_t end = 0;
    note_exceeded(run);
    for (int64_t g = 0; g < run->leads; g++) {
        int64_t other = before && g > 0 ? g - 1 : g;
        naive_group group = {g, g, other, g, 0, run->k};
        if (grouping == KILN_GROUPING_CONTIGUOUS)
            group.a_lead = group.d_lead = 0;
        if (grouping == KILN_GROUPING_K) {
            const kiln_tensor *groups = &run->tensors[KILN_GEMM_GROUPS];
            group.a_lead = group.b_lead = 0;
            group.begin = end;
            end = clamped(naive_load(run, groups, 0, 1, 0, g), group.begin, run->k);
            group.end = end < run->k ? end + late : end;
        }
        compute_group(run, &group);
    }
    if (naive_is_mistake(run, NAIVE_WRITES_PADDING) && grouping == KILN_GROUPING_CONTIGUOUS)
        for (int64_t i = 0; i < run->m; i++)
            if (naive_load(run, &run->tensors[KILN_GEMM_GROUPS], 0, 1, 0, i) < 0)
                write_zeros(run, 0, i);
}

static void clear_gradients(const naive_run *run)
{
    for (uint32_t i = 0; i < run->desc->epilogue_count; i++) {
        const kiln_tensor *tensor = &run->tensors[KILN_GEMM_OPERAND + i];
        int64_t rows = tensor->rank == 2 ? tensor->shape[0] : 1;
        if (run->desc->epilogues[i].kind == KILN_EPILOGUE_BIAS_GRADIENT)
            for (int64_t row = 0; row < rows; row++)
                for (int64_t j = 0; j < tensor->shape[tensor->rank - 1]; j++)
                    naive_store(run, tensor, row, 1, 0, j, 0, 0);
    }
}

void naive_compute(naive_run *run)
{
    clear_gradients(run);
    compute_groups(run);
}
