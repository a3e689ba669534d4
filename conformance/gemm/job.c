/* SPDX-License-Identifier: Apache-2.0 */
/* The oracle's arguments and memory. */
#include <stdlib.h>

#include "conformance/gemm/job.h"

static kiln_status refuse(kiln_status status, const char *why, const char **reason)
{
    *reason = why;
    return status;
}

static kiln_tensor tensor_of(const kiln_gemm_args *args, uint32_t slot)
{
    kiln_tensor absent = {0};
    return slot < args->head.tensor_count ? args->head.tensors[slot] : absent;
}

static bool is_element(uint32_t type)
{
    switch (type) {
    case KILN_F32:
    case KILN_F16:
    case KILN_BF16:
    case KILN_E4M3:
    case KILN_E5M2:
    case KILN_E2M1:
    case KILN_I8:
    case KILN_U8:
    case KILN_I4:
    case KILN_U4:
        return true;
    default:
        return false;
    }
}

static kiln_status check_descriptor(const kiln_gemm_desc *desc, const char **reason)
{
    bool wide = desc->a_type == KILN_F64 && desc->b_type == KILN_F64;
    if (!wide && (!is_element(desc->a_type) || !is_element(desc->b_type)))
        return refuse(KILN_UNSUPPORTED, "the oracle knows A and B of f64, or of at most 32 bits",
                      reason);
    if (wide && (desc->a_quantization.scale_type || desc->b_quantization.scale_type))
        return refuse(KILN_UNSUPPORTED, "f64 is not quantised", reason);
    if (desc->accumulator && desc->accumulator != KILN_F64 &&
        (wide || (desc->accumulator != KILN_F32 && desc->accumulator != KILN_I32)))
        return refuse(KILN_UNSUPPORTED, "the oracle knows no such accumulator", reason);
    if (desc->d_type != KILN_F64 && desc->d_type != KILN_I32 && !is_element(desc->d_type))
        return refuse(KILN_UNSUPPORTED, "the oracle does not know D's type", reason);
    if (desc->grouping > KILN_GROUPING_K || desc->precision > KILN_PRECISION_AUTO)
        return refuse(KILN_UNSUPPORTED, "the oracle does not know the grouping or precision",
                      reason);
    if (desc->epilogue_count > KILN_GEMM_MAX_EPILOGUES)
        return refuse(KILN_INVALID, "more than 8 epilogues", reason);
    for (uint32_t i = 0; i < desc->epilogue_count; i++) {
        uint32_t kind = desc->epilogues[i].kind;
        if (kind == KILN_EPILOGUE_NONE || kind > KILN_EPILOGUE_BIAS_GRADIENT)
            return refuse(KILN_UNSUPPORTED, "the oracle does not know an epilogue's kind", reason);
        double piece = desc->epilogues[i].p0;
        if (kind == KILN_EPILOGUE_SWIGLU &&
            !(piece >= -1 && piece <= 0x1p31 && piece == (double)(int64_t)piece))
            return refuse(KILN_INVALID, "swiglu takes pieces of whole columns", reason);
        if (kind == KILN_EPILOGUE_QUANTIZE &&
            (i + 1 < desc->epilogue_count || kiln_type_bits(desc->d_type) > 8))
            return refuse(KILN_UNSUPPORTED, "quantising comes last, into at most 8 bits", reason);
    }
    return KILN_OK;
}

static kiln_status bind_operands(gemm_job *job, const kiln_gemm_args *args, const char **reason)
{
    const kiln_gemm_desc *desc = job->desc;
    kiln_tensor a = tensor_of(args, KILN_GEMM_A), b = tensor_of(args, KILN_GEMM_B),
                c = tensor_of(args, KILN_GEMM_C), groups = tensor_of(args, KILN_GEMM_GROUPS);
    bool transpose_a = desc->head.flags & KILN_GEMM_TRANSPOSE_A,
         transpose_b = desc->head.flags & KILN_GEMM_TRANSPOSE_B;
    if (a.rank < 2 || a.rank > 3)
        return refuse(KILN_INVALID, "A must be a matrix, or matrices", reason);
    job->k = a.shape[transpose_a ? a.rank - 2 : a.rank - 1];
    job->a.block_k = job->b.block_k = INT64_MAX;
    if (job->alpha != 0 && job->k > 0 && job->m > 0 && job->n > 0 &&
        (!conformance_operand_of(&a, &desc->a_quantization, transpose_a, job->m, job->k, &job->a) ||
         !conformance_operand_of(&b, &desc->b_quantization, !transpose_b, job->n, job->k, &job->b)))
        return refuse(KILN_INVALID,
                      "the oracle reads strided matrices and their scales in host memory", reason);
    if (job->beta != 0 && job->m > 0 && job->n > 0 &&
        !conformance_view_of(&c, KILN_OPERAND_MATRIX, &job->c))
        return refuse(KILN_INVALID, "the oracle reads C in host memory", reason);
    int64_t count = desc->grouping == KILN_GROUPING_CONTIGUOUS ? job->m : desc->groups;
    if (desc->grouping != KILN_GROUPING_NONE &&
        (groups.rank != 1 || groups.shape[0] != count || groups.type != KILN_I32 ||
         !conformance_view_of(&groups, KILN_OPERAND_ROW, &job->groups)))
        return refuse(KILN_INVALID, "the oracle reads groups in host memory", reason);
    return KILN_OK;
}

static kiln_status bind_epilogues(gemm_job *job, const kiln_gemm_args *args, const char **reason)
{
    const kiln_gemm_desc *desc = job->desc;
    int64_t width = job->n;
    for (uint32_t i = 0; i < desc->epilogue_count; i++) {
        const kiln_epilogue *epilogue = &desc->epilogues[i];
        kiln_tensor operand = tensor_of(args, KILN_GEMM_OPERAND + i);
        if (epilogue->kind == KILN_EPILOGUE_SWIGLU) {
            width /= 2;
            if (epilogue->p0 > 0 && width % (int64_t)epilogue->p0)
                return refuse(KILN_INVALID, "swiglu has no whole pieces", reason);
        } else if (epilogue->kind == KILN_EPILOGUE_QUANTIZE) {
            int64_t block = desc->d_quantization.block[1];
            if (width > 0)
                job->expected->scale_columns = block > 0 ? (width + block - 1) / block : 1;
        } else if (epilogue->kind == KILN_EPILOGUE_BIAS_GRADIENT) {
            if (operand.rank < 1 || operand.rank > 2 || operand.shape[operand.rank - 1] != width)
                return refuse(KILN_INVALID, "a bias gradient has the columns of its values",
                              reason);
            job->expected->gradients[i].rows = operand.rank == 2 ? operand.shape[0] : 1;
            job->expected->gradients[i].columns = width;
        } else if (epilogue->operand != KILN_OPERAND_NONE && job->m > 0 && width > 0 &&
                   !conformance_view_of(&operand, epilogue->operand, &job->operands[i])) {
            return refuse(KILN_INVALID, "the oracle reads epilogue operands in host memory",
                          reason);
        }
    }
    if (width != job->expected->columns)
        return refuse(KILN_INVALID, "D has not the columns that the epilogues leave", reason);
    return KILN_OK;
}

kiln_status conformance_job_bind(gemm_job *job, const kiln_gemm_args *args, const char **reason)
{
    const kiln_gemm_desc *desc = job->desc;
    kiln_tensor d = tensor_of(args, KILN_GEMM_D);
    kiln_status status = check_descriptor(desc, reason);
    if (status != KILN_OK)
        return status;
    if (d.rank < 2 || d.rank > 3)
        return refuse(KILN_INVALID, "D must be a matrix, or matrices", reason);
    job->expected->batch = job->batch = d.rank == 3 ? d.shape[0] : 1;
    job->expected->rows = job->m = d.shape[d.rank - 2];
    job->expected->columns = job->n = d.shape[d.rank - 1];
    for (uint32_t i = 0; i < desc->epilogue_count; i++)
        job->n *= desc->epilogues[i].kind == KILN_EPILOGUE_SWIGLU ? 2 : 1;
    if ((desc->grouping == KILN_GROUPING_MASKED || desc->grouping == KILN_GROUPING_K) &&
        job->batch != desc->groups)
        return refuse(KILN_INVALID, "D has not the groups of the descriptor", reason);
    job->alpha = kiln_gemm_factor(desc, args->alpha);
    job->beta = kiln_gemm_factor(desc, args->beta);
    status = bind_operands(job, args, reason);
    return status == KILN_OK ? bind_epilogues(job, args, reason) : status;
}

/* ---- Memory ---- */

/* Never zero bytes, so that NULL means that there is none. */
static void *zeroed(int64_t count, size_t size)
{
    return calloc((size_t)count + 1, size);
}

static bool make_expected(gemm_job *job)
{
    conformance_gemm_expected *expected = job->expected;
    int64_t lines = expected->batch * expected->rows, elements = lines * expected->columns,
            scales = lines * expected->scale_columns;
    expected->exact = zeroed(elements, sizeof(double));
    expected->bound = zeroed(elements, sizeof(double));
    expected->written = zeroed(lines, sizeof(bool));
    expected->loose = zeroed(lines, sizeof(bool));
    bool made = expected->exact && expected->bound && expected->written && expected->loose;
    if (scales > 0) {
        expected->scale_low = zeroed(scales, sizeof(double));
        expected->scale_high = zeroed(scales, sizeof(double));
        made = made && expected->scale_low && expected->scale_high;
    }
    for (uint32_t i = 0; i < job->desc->epilogue_count; i++) {
        conformance_gemm_gradient *gradient = &expected->gradients[i];
        gradient_sums *sums = &job->gradients[i];
        if (gradient->rows == 0)
            continue;
        int64_t count = gradient->rows * gradient->columns;
        gradient->exact = zeroed(count, sizeof(double));
        gradient->bound = zeroed(count, sizeof(double));
        sums->values = zeroed(count, sizeof(long double));
        sums->magnitudes = zeroed(count, sizeof(double));
        sums->errors = zeroed(count, sizeof(double));
        sums->counts = zeroed(gradient->rows, sizeof(int64_t));
        made = made && gradient->exact && gradient->bound && sums->values && sums->magnitudes &&
               sums->errors && sums->counts;
    }
    return made;
}

bool conformance_job_make(gemm_job *job)
{
    int64_t n = job->n, k = job->k,
            block = job->a.block_k < job->b.block_k ? job->a.block_k : job->b.block_k;
    int64_t segments = block < k ? 2 * (k / block) + 3 : 2;
    job->segments = zeroed(segments, sizeof *job->segments);
    job->op_b = zeroed(k * n, sizeof(double));
    job->b_factors = zeroed(segments * n, sizeof *job->b_factors);
    job->op_a = zeroed(k, sizeof(double));
    job->segment_sums = zeroed(n, sizeof(double));
    job->segment_magnitudes = zeroed(n, sizeof(double));
    job->terms = zeroed(n, sizeof *job->terms);
    job->values = zeroed(n, sizeof(long double));
    job->errors = zeroed(n, sizeof(double));
    job->is_row = zeroed(job->m, sizeof(bool));
    return make_expected(job) && job->is_row && job->segments && job->op_b && job->b_factors &&
           job->op_a && job->segment_sums && job->segment_magnitudes && job->terms && job->values &&
           job->errors;
}

void conformance_job_free(gemm_job *job)
{
    free(job->segments);
    free(job->op_b);
    free(job->b_factors);
    free(job->op_a);
    free(job->segment_sums);
    free(job->segment_magnitudes);
    free(job->terms);
    free(job->values);
    free(job->errors);
    free(job->is_row);
    for (uint32_t i = 0; i < KILN_GEMM_MAX_EPILOGUES; i++) {
        free(job->gradients[i].values);
        free(job->gradients[i].magnitudes);
        free(job->gradients[i].errors);
        free(job->gradients[i].counts);
    }
}
