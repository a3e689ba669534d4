/* SPDX-License-Identifier: Apache-2.0 */
/* kiln.gemm/1 for plain f32 matrices. The core has checked types, shapes and strides before run is
 * called; what we do not offer we decline in query, with a reason. */
#include <kiln/gemm.h>
#include <stdlib.h>

#include "plugin.h"

typedef struct gemm_plan {
    const acme_instance *acme;
    kiln_gemm_desc desc;
} gemm_plan;

/* Row strides and addresses of one run; strides in elements. */
typedef struct gemm_run {
    const gemm_plan *plan;
    const float *a, *b, *c;
    float *d;
    int64_t m, n, k, a_stride, b_stride, c_stride, d_stride;
    float alpha, beta;
} gemm_run;

static const char *why_not(const acme_instance *acme, kiln_device *device,
                           const kiln_op_head *descriptor, kiln_gemm_desc *desc)
{
    const uint32_t known = KILN_GEMM_TRANSPOSE_A | KILN_GEMM_TRANSPOSE_B | KILN_GEMM_DYNAMIC_M |
                           KILN_GEMM_DYNAMIC_N | KILN_GEMM_DYNAMIC_K | KILN_GEMM_DYNAMIC_BATCH;
    static const kiln_quantization none;
    if (!acme->host->device_is_host(device))
        return "it computes in host memory only";
    if (kiln_receive_descriptor(desc, sizeof *desc, descriptor) != KILN_OK ||
        (desc->head.flags & ~known))
        return "packed operands, saturation and flags of later versions are not offered";
    if (desc->a_type != KILN_F32 || desc->b_type != KILN_F32 || desc->d_type != KILN_F32 ||
        (desc->c_type != KILN_TYPE_NONE && desc->c_type != KILN_F32))
        return "only f32 is offered";
    if (desc->accumulator != KILN_TYPE_NONE && desc->accumulator != KILN_F32)
        return "the sum is in f32 only";
    const uint32_t alignments[] = {desc->a_alignment, desc->b_alignment, desc->c_alignment,
                                   desc->d_alignment};
    for (int i = 0; i < 4; i++) /* 0 promises whole elements, 1 and 2 less than that */
        if (alignments[i] && alignments[i] < sizeof(float))
            return "floats must be aligned: a_alignment to d_alignment of 1 or 2 are not offered";
    if (desc->batch != 1 || (desc->head.flags & KILN_GEMM_DYNAMIC_BATCH))
        return "batches are not offered";
    if (desc->epilogue_count || desc->grouping || desc->precision || desc->max_rel_error != 0)
        return "epilogues, groups and reduced precision are not offered";
    if (memcmp(&desc->a_quantization, &none, sizeof none) ||
        memcmp(&desc->b_quantization, &none, sizeof none) ||
        memcmp(&desc->d_quantization, &none, sizeof none))
        return "quantised operands are not offered";
    return NULL;
}

static kiln_status gemm_query(void *instance, kiln_device *device, const kiln_op_head *descriptor,
                              kiln_answer *answer)
{
    kiln_gemm_desc desc;
    const char *reason = why_not(instance, device, descriptor, &desc);
    if (reason) {
        kiln_decline(answer, "%s", reason);
        return KILN_OK;
    }
    answer->support = KILN_SUPPORT_NATIVE;
    answer->flags = KILN_ANSWER_REPRODUCIBLE; /* every element is one loop over k */
    answer->accumulator = KILN_F32;
    strncpy(answer->kernel, "loop-f32", sizeof answer->kernel - 1);
    return KILN_OK;
}

static kiln_status gemm_plan_make(void *instance, const kiln_plan_request *request, void **result)
{
    const acme_instance *acme = instance;
    if (kiln_check_request(request, sizeof *request) != KILN_OK)
        return acme->host->set_error(KILN_UNSUPPORTED, "acme gemm: the request is too new");
    if (request->parameter_count)
        return acme->host->set_error(KILN_INVALID, "acme gemm: there is no tuning parameter '%s'",
                                     request->parameters[0].name);
    gemm_plan *plan = malloc(sizeof *plan);
    if (!plan)
        return acme->host->set_error(KILN_NO_MEMORY, "acme gemm: out of memory while planning");
    plan->acme = acme;
    const char *reason = why_not(acme, request->device, request->descriptor, &plan->desc);
    if (reason) {
        free(plan);
        return acme->host->set_error(KILN_UNSUPPORTED, "%s", reason);
    }
    *result = plan;
    return KILN_OK;
}

static void compute_row(const gemm_run *run, int64_t i)
{
    const uint32_t flags = run->plan->desc.head.flags;
    for (int64_t j = 0; j < run->n; j++) {
        float sum = 0;
        for (int64_t p = 0; run->alpha != 0 && p < run->k; p++) {
            float a = flags & KILN_GEMM_TRANSPOSE_A ? run->a[p * run->a_stride + i]
                                                    : run->a[i * run->a_stride + p];
            float b = flags & KILN_GEMM_TRANSPOSE_B ? run->b[j * run->b_stride + p]
                                                    : run->b[p * run->b_stride + j];
            sum += a * b;
        }
        float value = run->alpha != 0 ? run->alpha * sum : 0;
        if (run->beta != 0) /* beta 0 must not read C, which may hold NaN */
            value += run->beta * run->c[i * run->c_stride + j];
        run->d[i * run->d_stride + j] = value;
    }
}

static void compute_part(void *argument, int64_t part)
{
    const gemm_run *run = argument;
    int64_t rows = run->plan->acme->rows_per_part, begin = part * rows,
            end = begin + rows < run->m ? begin + rows : run->m;
    for (int64_t i = begin; i < end; i++)
        compute_row(run, i);
}

static int64_t row_stride(const kiln_tensor *tensor)
{
    return tensor->strides[tensor->rank - 2];
}

static kiln_status gemm_run_plan(void *object, const kiln_run_context *context,
                                 const kiln_args_head *arguments)
{
    const gemm_plan *plan = object;
    const kiln_host *host = plan->acme->host;
    const kiln_gemm_args *args = (const kiln_gemm_args *)arguments;
    const kiln_tensor *a = &arguments->tensors[KILN_GEMM_A], *b = &arguments->tensors[KILN_GEMM_B],
                      *c = &arguments->tensors[KILN_GEMM_C], *d = &arguments->tensors[KILN_GEMM_D];
    kiln_status status = kiln_check_arguments(arguments, sizeof *args);
    if (status != KILN_OK)
        return host->set_error(status, "acme gemm: the arguments are of another version");
    gemm_run run = {.plan = plan, .alpha = (float)args->alpha, .beta = (float)args->beta};
    run.m = d->shape[d->rank - 2]; /* what is dynamic, the tensors tell */
    run.n = d->shape[d->rank - 1];
    run.k = a->shape[plan->desc.head.flags & KILN_GEMM_TRANSPOSE_A ? a->rank - 2 : a->rank - 1];
    run.d = (float *)kiln_tensor_address(host, d);
    run.d_stride = row_stride(d);
    if (run.k > 0) { /* otherwise A and B may be anything */
        run.a = (const float *)kiln_tensor_address(host, a);
        run.b = (const float *)kiln_tensor_address(host, b);
        run.a_stride = row_stride(a);
        run.b_stride = row_stride(b);
    }
    if (run.beta != 0) {
        run.c = (const float *)kiln_tensor_address(host, c);
        run.c_stride = row_stride(c);
    }
    int64_t parts = (run.m + plan->acme->rows_per_part - 1) / plan->acme->rows_per_part;
    if (context->parts == 0) {
        host->parallel_for(host, parts, compute_part, &run);
        return KILN_OK;
    }
    for (int64_t part = context->part; part < parts; part += context->parts)
        compute_part(&run, part);
    return KILN_OK;
}

const kiln_operator_table acme_gemm_table = {
    .struct_size = sizeof(kiln_operator_table),
    .query = gemm_query,
    .plan = gemm_plan_make,
    .run = gemm_run_plan,
    .free = free,
};
