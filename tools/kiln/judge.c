/* SPDX-License-Identifier: Apache-2.0 */
/* Judging the tensors that a step makes, element by element. */
#include "tools/kiln/judge.h"

#include <math.h>
#include <stdio.h>

static double difference_of(double result, double reference)
{
    if (result == reference || (isnan(result) && isnan(reference)))
        return 0;
    return isfinite(result) && isfinite(reference) ? fabs(result - reference) : HUGE_VAL;
}

/* The value as a tensor of this type holds it. */
static double as_held(uint32_t type, double value)
{
    uint64_t element = 0;
    kiln_store_f64(type, &element, 0, value, 0);
    return kiln_load_f64(type, &element, 0);
}

/* ---- Elements ---- */

static int64_t columns_of(const kiln_tensor *tensor)
{
    return tensor->rank ? tensor->shape[tensor->rank - 1] : 1;
}

static int64_t lines_of(const kiln_tensor *tensor)
{
    int64_t lines = 1;
    for (uint32_t i = 0; i + 1 < tensor->rank; i++)
        lines *= tensor->shape[i];
    return lines;
}

/* What is stored. Rows of fewer than 8 bits an element begin on a byte. */
static double stored(const kiln_tensor *tensor, int64_t line, int64_t column)
{
    int64_t stride = tensor->rank > 1 ? tensor->strides[tensor->rank - 2] : columns_of(tensor);
    return kiln_load_f64(tensor->type, tensor->data, line * stride + column);
}

static int64_t scale_column(const judged_values *values, int64_t column)
{
    return values->block ? column / values->block : 0;
}

static double scale_of(const judged_values *values, int64_t line, int64_t column)
{
    return values->scales.type ? stored(&values->scales, line, scale_column(values, column)) : 1;
}

/* What it means. */
static double meaning(const judged_values *values, int64_t line, int64_t column)
{
    return stored(&values->tensor, line, column) * scale_of(values, line, column);
}

/* ---- Bounds ---- */

/* Whether the element cannot be a number: the exact value is none, or so far beyond its type and
 * the arithmetic that roundings cannot bring it back. Nothing says whether it is NaN, Inf or -Inf,
 * which depends on the order of the sum. */
static bool must_overflow(const judged *judge, double exact)
{
    return judge->overflows_in && !isfinite(as_held(judge->result.tensor.type, exact / 2)) &&
           !isfinite(as_held(judge->overflows_in, exact / 2));
}

static double ratio_to_exact(const judged *judge, const judged_values *values, int64_t line,
                             int64_t column)
{
    int64_t at = line * columns_of(&values->tensor) + column;
    double result = stored(&values->tensor, line, column), exact = judge->exact[at],
           bound = judge->bound[at];
    if (!isfinite(bound))
        return isfinite(result) && must_overflow(judge, exact) ? HUGE_VAL : 0;
    if (values->scales.type)
        return conformance_gemm_quantized_ratio(values->tensor.type, exact, bound,
                                                scale_of(values, line, column), result);
    return conformance_gemm_ratio(values->tensor.type, judge->saturate, exact, bound, result);
}

/* Both of two backends must keep the bound: a difference alone does not say which of them is wrong.
 */
static double ratio_at(const judged *judge, int64_t line, int64_t column)
{
    if (!judge->bound)
        return -1;
    double ratio = ratio_to_exact(judge, &judge->result, line, column);
    return judge->reference.tensor.type
               ? fmax(ratio, ratio_to_exact(judge, &judge->reference, line, column))
               : ratio;
}

/* ---- One tensor ---- */

/* On the way through a tensor. */
typedef struct search {
    run_comparison *found;
    double worst; /* of what is noted, over all tensors */
    double largest_difference, largest_magnitude;
} search;

static void note_worst(int64_t index, const kiln_tensor *tensor, int64_t line, int64_t column,
                       double result, double reference, run_comparison *found)
{
    int64_t rows = tensor->rank > 1 ? tensor->shape[tensor->rank - 2] : 1;
    found->worst_of = index;
    found->worst[0] = line / rows;
    found->worst[1] = line % rows;
    found->worst[2] = column;
    found->worst_result = result;
    found->worst_reference = reference;
}

static void judge_element(const judged *judge, int64_t line, int64_t column, search *at)
{
    run_comparison *found = at->found;
    int64_t element = line * columns_of(&judge->result.tensor) + column;
    bool other = judge->reference.tensor.type;
    double result = meaning(&judge->result, line, column),
           reference = other ? meaning(&judge->reference, line, column) : judge->exact[element],
           difference = difference_of(result, reference);
    /* The oracle's values are not rounded to the type: beyond its range an Inf is the same. */
    if (!other && isinf(result) && result == as_held(judge->result.tensor.type, reference))
        difference = 0;
    double ratio = ratio_at(judge, line, column);
    found->elements++;
    found->max_difference = fmax(found->max_difference, difference);
    at->largest_difference = fmax(at->largest_difference, difference);
    if (isfinite(reference))
        at->largest_magnitude = fmax(at->largest_magnitude, fabs(reference));
    if (reference != 0 && isfinite(reference))
        found->max_relative = fmax(found->max_relative, difference / fabs(reference));
    found->bound_ratio = fmax(found->bound_ratio, ratio);
    found->unbounded += judge->bound && !isfinite(judge->bound[element]);
    double badness = judge->bound && judge->tolerance < 0 ? ratio : difference;
    if (badness > at->worst) {
        at->worst = badness;
        note_worst(judge->index, &judge->result.tensor, line, column, result, reference, found);
    }
}

/* A scale that a step has found. By a tolerance what it scales is judged. */
static void judge_scale(const judged *judge, const judged_values *values, int64_t line,
                        int64_t column, search *at)
{
    const kiln_tensor *scales = &values->scales;
    int64_t element = line * columns_of(scales) + column;
    double found = stored(scales, line, column), low = judge->scale_low[element],
           high = judge->scale_high[element],
           ratio = conformance_gemm_scale_ratio(scales->type, low, high, found);
    at->found->bound_ratio = fmax(at->found->bound_ratio, ratio);
    if (ratio > at->worst && ratio > 1 && judge->tolerance < 0) {
        at->worst = ratio;
        note_worst(judge->scales, scales, line, column, found, found < low ? low : high, at->found);
    }
}

static void judge_line(const judged *judge, int64_t line, search *at)
{
    for (int64_t column = 0; column < columns_of(&judge->result.tensor); column++)
        judge_element(judge, line, column, at);
    for (int64_t column = 0; judge->scale_low && column < columns_of(&judge->result.scales);
         column++) {
        judge_scale(judge, &judge->result, line, column, at);
        if (judge->reference.tensor.type)
            judge_scale(judge, &judge->reference, line, column, at);
    }
}

void judge_begin(run_comparison *found, bool bounded)
{
    found->compared = found->passed = true;
    found->unbounded = bounded ? 0 : -1;
    found->worst_badness = -1;
}

void judge_tensor(const judged *judge, run_comparison *found)
{
    search at = {.found = found, .worst = found->worst_badness};
    for (int64_t line = 0; line < lines_of(&judge->result.tensor); line++)
        if (!judge->written || judge->written[line])
            judge_line(judge, line, &at);
    found->worst_badness = at.worst;
    double allowed = judge->tolerance * at.largest_magnitude;
    if (judge->tolerance < 0 || at.largest_difference <= allowed)
        return;
    if (found->passed)
        snprintf(found->why, sizeof found->why,
                 "the difference may be %.3g of the largest magnitude: %.3g", judge->tolerance,
                 allowed);
    found->passed = false;
}

/* Elements without a bound prove nothing: a step may have one in a thousand, as in the conformance
 * tests. */
void judge_end(double tolerance, run_comparison *found)
{
    if (tolerance >= 0)
        return;
    found->passed = found->bound_ratio <= 1 && found->unbounded <= found->elements / 1000;
    if (found->bound_ratio > 1)
        snprintf(found->why, sizeof found->why, "the error is beyond the bound");
    else if (!found->passed)
        snprintf(found->why, sizeof found->why,
                 "%lld of %lld elements have no bound, since a value on the way to them may "
                 "overflow: scale the inputs, or give a --tolerance",
                 (long long)found->unbounded, (long long)found->elements);
}
