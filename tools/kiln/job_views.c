/* SPDX-License-Identifier: Apache-2.0 */
/* Jobs: their tensors as a step passes them to the operator. */
#include <stdio.h>
#include <string.h>

#include "bench/gemm.h"

#include "tools/kiln/job.h"

/* ---- Whole tensors ---- */

const char *job_shape_text(const job_tensor *tensor, char text[160])
{
    int used = snprintf(text, 160, "[");
    for (uint32_t i = 0; i < tensor->rank && used < 140; i++)
        used += snprintf(text + used, 160 - (size_t)used, i ? ", %lld" : "%lld",
                         (long long)tensor->shape[i]);
    snprintf(text + used, 160 - (size_t)used, "]");
    return text;
}

kiln_tensor job_whole(const job_tensor *tensor)
{
    return kiln_tensor_host(tensor->type, NULL, tensor->rank, tensor->shape);
}

int64_t job_tensor_bytes(const job_tensor *tensor)
{
    kiln_tensor whole = job_whole(tensor);
    return bench_tensor_bytes(&whole);
}

bool job_tensor_is_countable(const job_tensor *tensor)
{
    int64_t product = 16; /* bytes per element, with room to spare */
    for (uint32_t i = 0; i < tensor->rank; i++) {
        /* Strides are products too, of which a zero extent makes no exception. */
        int64_t extent = tensor->shape[i] > 0 ? tensor->shape[i] : 1;
        if (__builtin_mul_overflow(product, extent, &product))
            return false;
    }
    return true;
}

/* ---- Slots ---- */

static const job_epilogue *epilogue_of(const job_step *step, int slot)
{
    int index = slot - KILN_GEMM_OPERAND;
    return index >= 0 && index < (int)step->epilogue_count ? &step->epilogues[index] : NULL;
}

/* The tensor of a slot, JOB_NONE when it is not in use. */
static int64_t tensor_of(const kiln_job *job, const job_step *step, int slot)
{
    const job_epilogue *epilogue = epilogue_of(step, slot);
    switch (slot) {
    case KILN_GEMM_A:
        return step->a;
    case KILN_GEMM_B:
        return step->b;
    case KILN_GEMM_C:
        return step->c;
    case KILN_GEMM_D:
        return step->d;
    case KILN_GEMM_GROUPS:
        return step->groups;
    case KILN_GEMM_D_SCALE:
        return step->d_scale;
    case JOB_SCALE:
    case JOB_SCALE + 1:
        return job->tensors[slot == JOB_SCALE ? step->a : step->b].scale;
    case JOB_ZERO_POINT:
    case JOB_ZERO_POINT + 1:
        return job->tensors[slot == JOB_ZERO_POINT ? step->a : step->b].zero_point;
    default:
        return epilogue ? epilogue->operand : JOB_NONE;
    }
}

static bool is_output(const job_step *step, int slot)
{
    const job_epilogue *epilogue = epilogue_of(step, slot);
    return slot == KILN_GEMM_D || slot == KILN_GEMM_D_SCALE ||
           (epilogue && epilogue->epilogue.kind == KILN_EPILOGUE_BIAS_GRADIENT);
}

static int next_slot(const kiln_job *job, const job_step *step, int slot, bool output,
                     int64_t *index)
{
    for (slot++; slot < JOB_SLOTS; slot++) {
        *index = tensor_of(job, step, slot);
        if (*index != JOB_NONE && is_output(step, slot) == output)
            return slot;
    }
    return -1;
}

int job_next_input(const kiln_job *job, const job_step *step, int slot, int64_t *index)
{
    return next_slot(job, step, slot, false, index);
}

int job_next_output(const kiln_job *job, const job_step *step, int slot, int64_t *index)
{
    return next_slot(job, step, slot, true, index);
}

/* ---- Views ---- */

int64_t job_leading(const kiln_job *job, const job_step *step, uint32_t slot)
{
    const job_tensor *d = &job->tensors[step->d];
    const job_epilogue *epilogue = epilogue_of(step, (int)slot);
    bool vector = epilogue && epilogue->epilogue.operand != KILN_OPERAND_MATRIX;
    if (slot == KILN_GEMM_GROUPS)
        return 0;
    switch (step->grouping) {
    case KILN_GROUPING_CONTIGUOUS:
        return slot == KILN_GEMM_B || vector ? step->desc.groups : 0;
    case KILN_GROUPING_MASKED:
        return step->desc.groups;
    case KILN_GROUPING_K:
        return slot == KILN_GEMM_A || slot == KILN_GEMM_B ? 0 : step->desc.groups;
    default:
        return d->rank == 3 ? d->shape[0] : 0;
    }
}

/* Flat, but where there is one vector for each batch entry or group. */
static kiln_tensor vector_view(const job_tensor *tensor, const job_step *step, uint32_t slot)
{
    kiln_tensor whole = job_whole(tensor);
    int64_t elements = kiln_tensor_elements(&whole),
            one = tensor->rank ? tensor->shape[tensor->rank - 1] : 1;
    uint32_t operand = epilogue_of(step, (int)slot)->epilogue.operand;
    if (tensor->rank == 2 && operand != KILN_OPERAND_COLUMN && elements != one)
        return whole;
    return kiln_vector(tensor->type, NULL, elements);
}

/* The matrix of scales or zero points of A or B: one for each block, or one for all. */
static kiln_tensor scale_view(const job_tensor *scale, const job_tensor *operand)
{
    int64_t shape[3] = {1, 1, 1};
    kiln_tensor whole = job_whole(scale);
    for (int i = 0; i < 2; i++) {
        int64_t extent = operand->shape[operand->rank - 2 + (uint32_t)i];
        int32_t block = operand->block[i];
        shape[1 + i] = block < 1 ? 1 : extent / block + (extent % block != 0);
    }
    bool single = kiln_tensor_elements(&whole) == 1,
         leading = !single && operand->rank == 3 && operand->shape[0] > 1 &&
                   kiln_tensor_elements(&whole) != shape[1] * shape[2];
    shape[0] = leading ? operand->shape[0] : 1;
    kiln_tensor view = kiln_tensor_host(scale->type, NULL, leading ? 3 : 2, shape + !leading);
    for (uint32_t i = 0; single && i < view.rank; i++)
        view.strides[i] = view.shape[i] > 1 ? 0 : view.strides[i];
    return view;
}

/* A matrix that serves all of the leading dimension, or that does as its only one. */
static kiln_tensor lead(kiln_tensor view, int64_t leading)
{
    if (view.rank == 2) {
        view.rank = 3;
        view.shape[2] = view.shape[1], view.shape[1] = view.shape[0];
        view.strides[2] = 1, view.strides[1] = view.strides[0];
        view.shape[0] = 1;
    }
    if (view.shape[0] != leading) {
        view.shape[0] = leading;
        view.strides[0] = 0;
    }
    return view;
}

kiln_tensor job_view(const kiln_job *job, const job_step *step, uint32_t slot, int64_t index)
{
    const job_tensor *tensor = &job->tensors[index];
    const job_epilogue *epilogue = epilogue_of(step, (int)slot);
    kiln_tensor view = job_whole(tensor);
    if (slot >= JOB_SCALE)
        return scale_view(tensor, &job->tensors[(slot - JOB_SCALE) % 2 ? step->b : step->a]);
    if (slot == KILN_GEMM_GROUPS)
        return kiln_vector(tensor->type, NULL, kiln_tensor_elements(&view));
    if (epilogue && epilogue->epilogue.operand != KILN_OPERAND_MATRIX)
        return vector_view(tensor, step, slot);
    int64_t leading = job_leading(job, step, slot);
    bool batched = step->grouping || job->tensors[step->d].rank == 3;
    /* An empty batch is a leading dimension as well. */
    if (leading > 0 || (batched && !step->grouping))
        view = is_output(step, (int)slot) ? view : lead(view, leading);
    for (int i = 0; slot <= KILN_GEMM_B && job_is_quantized(tensor) && i < 2; i++)
        view.scale_block[i] = tensor->block[i] < 1 ? 0 : tensor->block[i];
    return view;
}

void job_attach_scales(const kiln_job *job, const job_step *step, kiln_tensor tensors[JOB_SLOTS])
{
    for (int slot = KILN_GEMM_A; slot <= KILN_GEMM_B; slot++) {
        if (tensor_of(job, step, JOB_SCALE + slot) != JOB_NONE)
            tensors[slot].scale = &tensors[JOB_SCALE + slot];
        if (tensor_of(job, step, JOB_ZERO_POINT + slot) != JOB_NONE)
            tensors[slot].zero_point = &tensors[JOB_ZERO_POINT + slot];
    }
}
