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

/* A tensor's name says what its file holds: mostly what fits the others. */
static void invent(job_tensor *tensor)
{
    static const uint32_t ranks[] = {2, 3, 2, 3, 2, 3, 1, 0};
    static const int64_t leading[] = {2, 1, 2, 0, 2, 3, 2, INT64_C(1) << 40};
    static const int64_t others[] = {2, 2, 2, 2, 1, 3, 0, 1024};
    static const uint32_t types[] = {KILN_F16, KILN_F32, KILN_I8, KILN_F64};
    uint32_t value = hash(tensor->name);
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
        int64_t index;
        must(job->tensors[job->steps[i].d].producer == i);
        for (int slot = job_next_input(&job->steps[i], -1, &index); slot >= 0;
             slot = job_next_input(&job->steps[i], slot, &index))
            must(index >= 0 && index < job->tensor_count && job->tensors[index].producer < i);
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

static void check_step(const kiln_job *job, const job_step *step)
{
    const kiln_gemm_desc *desc = &step->desc;
    const job_tensor *d = &job->tensors[step->d];
    int64_t index, batch = d->rank == 3 ? d->shape[0] : 1;
    bool dynamic = desc->head.flags & KILN_GEMM_DYNAMIC_BATCH;
    must(d->rank >= 2 && job_tensor_is_countable(d));
    must(d->shape[d->rank - 2] == desc->m && d->shape[d->rank - 1] == desc->n);
    must(dynamic ? batch == 0 && desc->batch == 1 : batch == desc->batch);
    check_view(job, step, KILN_GEMM_D, step->d);
    for (int slot = job_next_input(step, -1, &index); slot >= 0;
         slot = job_next_input(step, slot, &index))
        check_view(job, step, (uint32_t)slot, index);
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
