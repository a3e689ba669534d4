/* SPDX-License-Identifier: Apache-2.0 */
/* Running a job: comparing what a step makes with the oracle's or another backend's results, from
 * the same inputs. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/kiln/judge.h"

/* What a comparison works on. */
typedef struct comparison {
    job_run *run;
    const job_step *step;
    run_step *ran;
    conformance_gemm_expected expected; /* empty when only the tolerance judges */
    void *others[JOB_SLOTS];            /* by slot: results of the other backend; allocated */
} comparison;

/* ---- The oracle ---- */

/* The step's operands on the host. */
static bool host_operands(job_run *run, const job_step *step, kiln_tensor tensors[JOB_SLOTS])
{
    int64_t index;
    memset(tensors, 0, JOB_SLOTS * sizeof *tensors);
    for (int slot = job_next_input(run->job, step, -1, &index); slot >= 0;
         slot = job_next_input(run->job, step, slot, &index)) {
        kiln_tensor whole;
        if (!run_host_tensor(run, index, &whole))
            return false;
        tensors[slot] = job_view(run->job, step, (uint32_t)slot, index);
        tensors[slot].data = whole.data;
    }
    for (int slot = job_next_output(run->job, step, -1, &index); slot >= 0;
         slot = job_next_output(run->job, step, slot, &index))
        tensors[slot] = job_view(run->job, step, (uint32_t)slot, index);
    job_attach_scales(run->job, step, tensors);
    return true;
}

static bool ask_oracle(comparison *self)
{
    job_run *run = self->run;
    const job_step *step = self->step;
    kiln_tensor tensors[JOB_SLOTS];
    kiln_gemm_args args = {{sizeof args, KILN_GEMM_SLOTS, tensors}, step->alpha, step->beta};
    kiln_plan_info other = {.struct_size = sizeof other};
    const char *reason = "memory is exhausted";
    if (!host_operands(run, step, tensors))
        return false;
    if (self->ran->other && kiln_plan_get_info(self->ran->other, &other) != KILN_OK)
        return tool_fail(run->common, "%s", kiln_last_error()), false;
    if (conformance_gemm_oracle(&step->desc, &args, self->ran->info.flags | other.flags,
                                &self->expected, &reason) == KILN_OK)
        return true;
    tool_fail(run->common, "step '%s': the oracle cannot compute it: %s", step->name, reason);
    return false;
}

/* ---- The other backend ---- */

static bool fetch(comparison *self, int64_t index, kiln_buffer *buffer, void **memory)
{
    const job_tensor *tensor = &self->run->job->tensors[index];
    kiln_tensor from = job_whole(tensor), to = from;
    *memory = malloc((size_t)job_tensor_bytes(tensor) + 1);
    if (!*memory) {
        tool_fail(self->run->common, "step '%s': no memory for a second result", self->step->name);
        return false;
    }
    from.buffer = buffer;
    to.data = *memory;
    if (kiln_copy(NULL, self->run->runtime, &to, &from) == KILN_OK)
        return true;
    tool_fail(self->run->common, "step '%s': %s", self->step->name, kiln_last_error());
    return false;
}

static bool place_there(comparison *self, kiln_buffer *made[JOB_SLOTS])
{
    job_run *run = self->run;
    const job_step *step = self->step;
    int64_t index;
    for (int slot = job_next_input(run->job, step, -1, &index); slot >= 0;
         slot = job_next_input(run->job, step, slot, &index))
        if (!run_place(run, index, self->ran->other_device, NULL))
            return false;
    for (int slot = job_next_output(run->job, step, -1, &index); slot >= 0;
         slot = job_next_output(run->job, step, slot, &index))
        if (!run_allocate_result(run, step, index, self->ran->other_device, &made[slot]))
            return false;
    return true;
}

/* Runs the step there and brings its results to the host. */
static bool ask_backend(comparison *self)
{
    const job_step *step = self->step;
    kiln_buffer *made[JOB_SLOTS] = {NULL};
    int64_t time_ns, index;
    bool good = place_there(self, made) && run_plan_once(self->run, step, self->ran->other,
                                                         self->ran->other_device, made, &time_ns);
    for (int slot = job_next_output(self->run->job, step, -1, &index); good && slot >= 0;
         slot = job_next_output(self->run->job, step, slot, &index))
        good = fetch(self, index, made[slot], &self->others[slot]);
    for (int slot = 0; slot < JOB_SLOTS; slot++)
        kiln_buffer_release(made[slot]);
    return good;
}

/* ---- What is judged ---- */

/* Whether an Inf or NaN among the step's intermediate values is one in D as well. */
static bool keeps_overflow(const kiln_gemm_desc *desc)
{
    for (uint32_t i = 0; i < desc->epilogue_count; i++)
        switch (desc->epilogues[i].kind) {
        case KILN_EPILOGUE_BIAS:
        case KILN_EPILOGUE_RESIDUAL:
        case KILN_EPILOGUE_MULTIPLY:
        case KILN_EPILOGUE_SCALE:
        case KILN_EPILOGUE_BIAS_GRADIENT:
            break;
        default:
            return false;
        }
    return true;
}

static bool values_of(comparison *self, int slot, int64_t index, judged *judge)
{
    if (!run_host_tensor(self->run, index, &judge->result.tensor))
        return false;
    if (!self->ran->other)
        return true;
    judge->reference.tensor = judge->result.tensor;
    judge->reference.tensor.data = self->others[slot];
    return true;
}

static bool judge_d(comparison *self, judged *judge)
{
    const job_step *step = self->step;
    const conformance_gemm_expected *expected = &self->expected;
    if (!values_of(self, KILN_GEMM_D, step->d, judge))
        return false;
    if (step->d_scale != JOB_NONE) {
        int32_t block = step->desc.d_quantization.block[1];
        judge->result.block = judge->reference.block = block > 0 ? block : 0;
        if (!run_host_tensor(self->run, step->d_scale, &judge->result.scales))
            return false;
        judge->reference.scales = judge->result.scales;
        judge->reference.scales.data = self->others[KILN_GEMM_D_SCALE];
    }
    judge->index = self->ran->comparison.worst_of = step->d;
    judge->scales = step->d_scale;
    judge->exact = expected->exact;
    judge->bound = expected->bound;
    judge->written = expected->written;
    judge->scale_low = expected->scale_low;
    judge->scale_high = expected->scale_high;
    judge->saturate = step->desc.head.flags & KILN_GEMM_SATURATE;
    if (keeps_overflow(&step->desc))
        judge->overflows_in = step->desc.a_type == KILN_F64 ? KILN_F64 : KILN_F32;
    judge_tensor(judge, &self->ran->comparison);
    return true;
}

static bool judge_gradients(comparison *self, double tolerance)
{
    const job_step *step = self->step;
    for (uint32_t i = 0; i < step->epilogue_count; i++) {
        const conformance_gemm_gradient *gradient = &self->expected.gradients[i];
        judged judge = {.index = step->epilogues[i].operand, .tolerance = tolerance};
        if (step->epilogues[i].epilogue.kind != KILN_EPILOGUE_BIAS_GRADIENT)
            continue;
        if (!values_of(self, (int)(KILN_GEMM_OPERAND + i), judge.index, &judge))
            return false;
        judge.exact = gradient->exact;
        judge.bound = gradient->bound;
        judge_tensor(&judge, &self->ran->comparison);
    }
    return true;
}

static bool judge_step(comparison *self)
{
    double tolerance = self->run->options->tolerance;
    judged judge = {.tolerance = tolerance};
    if (self->ran->other && !ask_backend(self))
        return false;
    /* The oracle is slow, and not needed when a tolerance judges two backends, unless it has to say
     * which rows count. */
    bool needed = !self->ran->other || tolerance < 0 || self->step->grouping;
    if (needed && !ask_oracle(self))
        return false;
    judge_begin(&self->ran->comparison, self->expected.bound != NULL);
    if (!judge_d(self, &judge) || !judge_gradients(self, tolerance))
        return false;
    judge_end(tolerance, &self->ran->comparison);
    return true;
}

bool run_compare(job_run *run, int64_t index)
{
    comparison self = {.run = run, .step = &run->job->steps[index], .ran = &run->steps[index]};
    const char *with = run->options->compare;
    if (!self.ran->other && strcmp(with, "oracle") != 0) {
        snprintf(self.ran->comparison.why, sizeof self.ran->comparison.why,
                 "the step itself ran on %s", with);
        return true;
    }
    tool_progress("comparing %s with %s", self.step->name, with);
    bool good = judge_step(&self);
    conformance_gemm_expected_free(&self.expected);
    for (int slot = 0; slot < JOB_SLOTS; slot++)
        free(self.others[slot]);
    return good;
}
