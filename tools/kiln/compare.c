/* SPDX-License-Identifier: Apache-2.0 */
/* Running a job: comparing a step's result with the oracle's or another backend's, from the same
 * inputs. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "conformance/gemm.h"
#include "tools/kiln/run.h"

/* What a comparison works on: batch × M × N elements each, on the host. */
typedef struct judgement {
    const job_step *step;
    kiln_tensor result;
    kiln_tensor reference; /* of the other backend; type NONE when the oracle is the reference */
    conformance_gemm_expected expected; /* empty when only the tolerance judges */
    double tolerance;                   /* absolute; negative = the bounds judge */
} judgement;

/* ---- The oracle ---- */

/* The step's operands on the host; `tensors` has KILN_GEMM_SLOTS. */
static bool host_operands(job_run *run, const job_step *step, kiln_tensor *tensors)
{
    int64_t index;
    memset(tensors, 0, KILN_GEMM_SLOTS * sizeof *tensors);
    for (int slot = job_next_input(step, -1, &index); slot >= 0;
         slot = job_next_input(step, slot, &index)) {
        kiln_tensor whole;
        if (!run_host_tensor(run, index, &whole))
            return false;
        tensors[slot] = job_view(run->job, step, (uint32_t)slot, index);
        tensors[slot].data = whole.data;
    }
    tensors[KILN_GEMM_D] = job_view(run->job, step, KILN_GEMM_D, step->d);
    return true;
}

static bool ask_oracle(job_run *run, const run_step *ran, judgement *judge)
{
    const job_step *step = judge->step;
    kiln_tensor tensors[KILN_GEMM_SLOTS];
    kiln_gemm_args args = {{sizeof args, KILN_GEMM_SLOTS, tensors}, step->alpha, step->beta};
    kiln_plan_info other = {.struct_size = sizeof other};
    const char *reason = "memory is exhausted";
    if (!host_operands(run, step, tensors))
        return false;
    if (ran->other && kiln_plan_get_info(ran->other, &other) != KILN_OK)
        return tool_fail(run->common, "%s", kiln_last_error()), false;
    if (conformance_gemm_oracle(&step->desc, &args, ran->info.flags | other.flags, &judge->expected,
                                &reason) != KILN_OK)
        return tool_fail(run->common, "step '%s': the oracle cannot compute it: %s", step->name,
                         reason),
               false;
    if (judge->expected.scale_columns == 0)
        return true;
    tool_fail(run->common, "step '%s': a quantised D cannot be compared without its scales",
              step->name);
    return false;
}

/* ---- The other backend ---- */

/* Runs the step there; the result, on the host, in allocated memory. */
static void *ask_backend(job_run *run, const run_step *ran, const job_step *step)
{
    const job_tensor *d = &run->job->tensors[step->d];
    kiln_tensor from = job_whole(d), to = from;
    int64_t time_ns, index;
    for (int slot = job_next_input(step, -1, &index); slot >= 0;
         slot = job_next_input(step, slot, &index))
        if (!run_place(run, index, ran->other_device, NULL))
            return NULL;
    if (!run_allocate(run, step->d, ran->other_device, &from.buffer))
        return NULL;
    to.data = malloc((size_t)job_tensor_bytes(d) + 1);
    bool good =
        to.data && run_plan_once(run, step, ran->other, ran->other_device, from.buffer, &time_ns);
    if (good && kiln_copy(NULL, run->runtime, &to, &from) != KILN_OK) {
        tool_fail(run->common, "step '%s': %s", step->name, kiln_last_error());
        good = false;
    }
    if (!to.data)
        tool_fail(run->common, "step '%s': no memory for a second result", step->name);
    kiln_buffer_release(from.buffer);
    if (!good) {
        free(to.data);
        return NULL;
    }
    return to.data;
}

/* ---- Judging ---- */

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

/* Whether an Inf or NaN among the step's intermediate values is one in D as well. */
static bool keeps_overflow(const kiln_gemm_desc *desc)
{
    for (uint32_t i = 0; i < desc->epilogue_count; i++)
        switch (desc->epilogues[i].kind) {
        case KILN_EPILOGUE_BIAS:
        case KILN_EPILOGUE_RESIDUAL:
        case KILN_EPILOGUE_MULTIPLY:
        case KILN_EPILOGUE_SCALE:
            break;
        default:
            return false;
        }
    return true;
}

/* Whether D cannot be a number there: the exact value is none, or so far beyond D's type and the
 * arithmetic that roundings cannot bring it back. Nothing says whether D is NaN, Inf or -Inf, which
 * depends on the order of the sum. */
static bool must_overflow(const judgement *judge, double exact)
{
    uint32_t arithmetic = judge->step->desc.a_type == KILN_F64 ? KILN_F64 : KILN_F32;
    return !isfinite(as_held(judge->result.type, exact / 2)) &&
           !isfinite(as_held(arithmetic, exact / 2)) && keeps_overflow(&judge->step->desc);
}

static bool has_bound(const judgement *judge, int64_t at)
{
    return isfinite(judge->expected.bound[at]);
}

static double ratio_to_exact(const judgement *judge, int64_t at, double result)
{
    if (!has_bound(judge, at))
        return isfinite(result) && must_overflow(judge, judge->expected.exact[at]) ? HUGE_VAL : 0;
    bool saturate = judge->step->desc.head.flags & KILN_GEMM_SATURATE;
    return conformance_gemm_ratio(judge->result.type, saturate, judge->expected.exact[at],
                                  judge->expected.bound[at], result);
}

/* Both of two backends must keep the bound: a difference alone does not say which of them is wrong.
 */
static double ratio_at(const judgement *judge, int64_t at, double result, double reference)
{
    if (!judge->expected.bound)
        return -1;
    double ratio = ratio_to_exact(judge, at, result);
    return judge->reference.type ? fmax(ratio, ratio_to_exact(judge, at, reference)) : ratio;
}

static void note_worst(const judgement *judge, int64_t at, double result, double reference,
                       run_comparison *found)
{
    int64_t n = judge->step->desc.n, m = judge->step->desc.m;
    found->worst[0] = at / n / m;
    found->worst[1] = at / n % m;
    found->worst[2] = at % n;
    found->worst_result = result;
    found->worst_reference = reference;
}

static double element(const kiln_tensor *tensor, int64_t at)
{
    return kiln_load_f64(tensor->type, tensor->data, at);
}

/* The results are contiguous: of whole bytes, since no step makes a type of fewer than 8 bits. */
static void measure(const judgement *judge, run_comparison *found)
{
    int64_t count = kiln_tensor_elements(&judge->result);
    double worst = -1;
    found->unbounded = judge->expected.bound ? 0 : -1;
    for (int64_t at = 0; at < count; at++) {
        double result = element(&judge->result, at);
        double reference =
            judge->reference.type ? element(&judge->reference, at) : judge->expected.exact[at];
        double difference = difference_of(result, reference);
        /* The oracle's values are not rounded to D's type: beyond its range an Inf is the same. */
        if (!judge->reference.type && isinf(result) &&
            result == as_held(judge->result.type, reference))
            difference = 0;
        double ratio = ratio_at(judge, at, result, reference);
        found->max_difference = fmax(found->max_difference, difference);
        if (reference != 0 && isfinite(reference))
            found->max_relative = fmax(found->max_relative, difference / fabs(reference));
        found->bound_ratio = fmax(found->bound_ratio, ratio);
        found->unbounded += judge->expected.bound && !has_bound(judge, at);
        double badness = judge->expected.bound && judge->tolerance < 0 ? ratio : difference;
        if (badness > worst) {
            worst = badness;
            note_worst(judge, at, result, reference, found);
        }
    }
}

static double largest_magnitude(const judgement *judge)
{
    int64_t count = kiln_tensor_elements(&judge->result);
    double largest = 0;
    for (int64_t at = 0; at < count; at++) {
        double value = fabs(judge->reference.type ? element(&judge->reference, at)
                                                  : judge->expected.exact[at]);
        if (isfinite(value))
            largest = fmax(largest, value);
    }
    return largest;
}

/* Elements without a bound prove nothing: a step may have one in a thousand, as in the conformance
 * tests. */
static void decide(const judgement *judge, run_comparison *found)
{
    int64_t count = kiln_tensor_elements(&judge->result);
    found->compared = true;
    if (judge->tolerance >= 0) {
        double allowed = judge->tolerance * largest_magnitude(judge);
        found->passed = found->max_difference <= allowed;
        if (!found->passed)
            snprintf(found->why, sizeof found->why,
                     "the difference may be %.3g of the largest magnitude: %.3g", judge->tolerance,
                     allowed);
        return;
    }
    found->passed = found->bound_ratio <= 1 && found->unbounded <= count / 1000;
    if (found->bound_ratio > 1)
        snprintf(found->why, sizeof found->why, "the error is beyond the bound");
    else if (!found->passed)
        snprintf(found->why, sizeof found->why,
                 "%lld of %lld elements have no bound, since a value on the way to them may "
                 "overflow: scale the inputs, or give a --tolerance",
                 (long long)found->unbounded, (long long)count);
}

/* ---- One step ---- */

static bool judge_step(job_run *run, run_step *ran, judgement *judge)
{
    if (!run_host_tensor(run, judge->step->d, &judge->result))
        return false;
    if (ran->other) {
        judge->reference = judge->result;
        judge->reference.data = ask_backend(run, ran, judge->step);
        if (!judge->reference.data)
            return false;
    }
    /* The oracle is slow, and not needed when a tolerance judges two backends. */
    if ((!ran->other || judge->tolerance < 0) && !ask_oracle(run, ran, judge))
        return false;
    measure(judge, &ran->comparison);
    decide(judge, &ran->comparison);
    return true;
}

bool run_compare(job_run *run, int64_t index)
{
    run_step *ran = &run->steps[index];
    judgement judge = {.step = &run->job->steps[index], .tolerance = run->options->tolerance};
    const char *with = run->options->compare;
    if (!ran->other && strcmp(with, "oracle") != 0) {
        snprintf(ran->comparison.why, sizeof ran->comparison.why, "the step itself ran on %s",
                 with);
        return true;
    }
    tool_progress("comparing %s with %s", judge.step->name, with);
    bool good = judge_step(run, ran, &judge);
    conformance_gemm_expected_free(&judge.expected);
    if (ran->other)
        free(judge.reference.data);
    return good;
}
