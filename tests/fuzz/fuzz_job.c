/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: jobs of `kiln run`. Any text, and whatever shapes the tensors of a job that parses
 * may have. Opens no files. */
#include "tests/fuzz/must.h"

#include "tools/kiln/job_shapes.c"

static uint32_t hash(const char *text)
{
    uint32_t value = 2166136261u;
    for (; *text; text++)
        value = (value ^ (unsigned char)*text) * 16777619u;
    return value;
}

/* Names with these first letters are vectors of groups, scales, and what may have scales. */
static bool invent_special(job_tensor *tensor, uint32_t value)
{
    static const uint32_t scales[] = {KILN_F32, KILN_F32, KILN_UE8M0, KILN_U8},
                          stored[] = {KILN_E4M3, KILN_I8, KILN_I4, KILN_U8};
    static const int64_t few[] = {1, 2, 1, 2, 1, 2, 3, 0};
    switch (tensor->name[0]) {
    case 'g':
        tensor->type = value % 8 ? KILN_I32 : KILN_I64;
        tensor->rank = 1;
        break;
    case 's':
        tensor->type = scales[value % 4];
        tensor->rank = value / 4 % 4;
        break;
    case 'q':
        tensor->type = stored[value % 4];
        tensor->rank = 2 + value / 4 % 2;
        break;
    default:
        return false;
    }
    for (uint32_t i = 0; i < tensor->rank; i++)
        tensor->shape[i] = few[(value >> (5 + 3 * i)) % 8];
    return true;
}

/* A tensor's name says what its file holds: mostly what fits the others. */
static void invent(job_tensor *tensor)
{
    static const uint32_t ranks[] = {2, 3, 2, 3, 2, 3, 1, 0};
    static const int64_t leading[] = {2, 1, 2, 0, 2, 3, 2, INT64_C(1) << 40};
    static const int64_t others[] = {2, 2, 2, 2, 1, 3, 0, 1024};
    static const uint32_t types[] = {KILN_F16, KILN_F32, KILN_I8, KILN_F64};
    uint32_t value = hash(tensor->name);
    if (invent_special(tensor, value))
        return;
    tensor->type = types[value % 4];
    tensor->rank = ranks[value / 4 % 8];
    for (uint32_t i = 0; i < tensor->rank; i++)
        tensor->shape[i] = (tensor->rank - i > 2 ? leading : others)[(value >> (5 + 3 * i)) % 8];
}

/* Names are distinct, and whatever is used is made before. */
static void check_names(const kiln_job *job)
{
    for (int64_t i = 0; i < job->tensor_count; i++) {
        const job_tensor *tensor = &job->tensors[i];
        must(tensor->name[0] && job_find_tensor(job, tensor->name) == i);
        must((tensor->file != NULL) == (tensor->producer == JOB_NONE));
    }
    must(job->step_count > 0);
    for (int64_t i = 0; i < job->step_count; i++) {
        const job_step *step = &job->steps[i];
        int64_t index;
        int outputs = 0;
        for (int slot = job_next_input(job, step, -1, &index); slot >= 0;
             slot = job_next_input(job, step, slot, &index))
            must(index >= 0 && index < job->tensor_count && job->tensors[index].producer < i);
        for (int slot = job_next_output(job, step, -1, &index); slot >= 0;
             slot = job_next_output(job, step, slot, &index), outputs++)
            must(job->tensors[index].producer == i);
        must(outputs > 0 && (step->groups != JOB_NONE) == (step->grouping != 0));
        must((step->d_scale != JOB_NONE) == (job->tensors[step->d].scale != JOB_NONE));
    }
}

/* What a step passes lies within the tensor. */
static void check_view(const kiln_job *job, const job_step *step, uint32_t slot, int64_t index)
{
    kiln_tensor whole = job_whole(&job->tensors[index]), view = job_view(job, step, slot, index);
    int64_t elements = kiln_tensor_elements(&view), last = 0;
    must(view.type == whole.type);
    for (uint32_t i = 0; i < view.rank && elements > 0; i++)
        last += (view.shape[i] - 1) * view.strides[i];
    must(elements == 0 || last < kiln_tensor_elements(&whole));
}

/* As many scales as there are blocks. */
static void check_scales(const kiln_job *job, const job_step *step)
{
    for (uint32_t slot = KILN_GEMM_A; slot <= KILN_GEMM_B; slot++) {
        const job_tensor *tensor = &job->tensors[slot ? step->b : step->a];
        const kiln_quantization *said =
            slot ? &step->desc.b_quantization : &step->desc.a_quantization;
        const int64_t indices[] = {tensor->scale, tensor->zero_point};
        must((said->scale_type != 0) == (tensor->scale != JOB_NONE));
        must((said->zero_type != 0) == (tensor->zero_point != JOB_NONE));
        for (uint32_t i = 0; i < 2; i++) {
            if (indices[i] == JOB_NONE)
                continue;
            kiln_tensor view = job_view(job, step, JOB_SCALE + 2 * i + slot, indices[i]);
            for (uint32_t axis = 0; axis < 2; axis++) {
                int64_t extent = tensor->shape[tensor->rank - 2 + axis], block = said->block[axis];
                must(block > 0 || block == -1);
                must(view.shape[view.rank - 2 + axis] ==
                     (block < 0 ? 1 : (extent + block - 1) / block));
            }
        }
    }
}

static void check_step(const kiln_job *job, const job_step *step)
{
    const kiln_gemm_desc *desc = &step->desc;
    const job_tensor *d = &job->tensors[step->d];
    int64_t index, leading = d->rank == 3 ? d->shape[0] : 1,
                   columns = columns_at(step, step->epilogue_count);
    bool dynamic = desc->head.flags & KILN_GEMM_DYNAMIC_BATCH,
         grouped = step->grouping == KILN_GROUPING_MASKED || step->grouping == KILN_GROUPING_K;
    must(d->rank >= 2 && job_tensor_is_countable(d));
    must(d->shape[d->rank - 2] == desc->m && d->shape[d->rank - 1] == columns);
    must(dynamic ? leading == 0 && desc->batch == 1 && !step->grouping
                 : leading == (grouped ? desc->groups : desc->batch));
    must((step->grouping != 0) == (desc->groups > 0));
    for (int slot = job_next_input(job, step, -1, &index); slot >= 0;
         slot = job_next_input(job, step, slot, &index))
        check_view(job, step, (uint32_t)slot, index);
    for (int slot = job_next_output(job, step, -1, &index); slot >= 0;
         slot = job_next_output(job, step, slot, &index))
        check_view(job, step, (uint32_t)slot, index);
    check_scales(job, step);
}

static void check_rest(const kiln_job *job)
{
    kiln_yaml_error error = {""};
    for (int64_t i = 0; i < job->output_count; i++)
        must(check_output(job, &job->outputs[i], &error) || error.text[0]);
    for (int64_t i = 0; i < job->check_count; i++) {
        must(job->checks[i].at_least >= 0 && job->checks[i].at_least <= 1);
        must(check_check(job, &job->checks[i], &error) || error.text[0]);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    kiln_job job;
    kiln_yaml_error error = {""};
    if (!job_parse("fuzz/job.yaml", (const char *)bytes, size, &job, &error)) {
        must(strncmp(error.text, "fuzz/job.yaml:", 14) == 0);
        return 0;
    }
    check_names(&job);
    for (int64_t i = 0; i < job.tensor_count; i++)
        if (job.tensors[i].file)
            invent(&job.tensors[i]);
    if (job_shape_steps(&job, &error)) {
        for (int64_t i = 0; i < job.step_count; i++)
            check_step(&job, &job.steps[i]);
        check_rest(&job);
    } else {
        must(strncmp(error.text, "fuzz/job.yaml:", 14) == 0);
    }
    job_free(&job);
    return 0;
}
