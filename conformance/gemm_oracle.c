/* SPDX-License-Identifier: Apache-2.0 */
/* What a GEMM computes, by plain loops. */
#include <math.h>
#include <stdlib.h>

#include "conformance/conformance.h"
#include "conformance/gemm_numeric.h"

/* A tensor as the oracle reads it: element (batch, row, column) by strides, of which some may be 0.
 */
typedef struct matrix_view {
    const char *data;
    uint32_t type;
    int64_t batch_stride, row_stride, column_stride; /* in elements */
} matrix_view;

static double at(const matrix_view *view, int64_t batch, int64_t row, int64_t column)
{
    int64_t element =
        batch * view->batch_stride + row * view->row_stride + column * view->column_stride;
    return kiln_load_f64(view->type, view->data + element * (kiln_type_bits(view->type) / 8), 0);
}

static kiln_tensor tensor_of(const kiln_gemm_args *args, uint32_t slot)
{
    kiln_tensor absent = {0};
    return slot < args->head.tensor_count ? args->head.tensors[slot] : absent;
}

/* The view of slot `slot`; false when the host cannot read it. */
static bool view_of(const kiln_gemm_args *args, uint32_t slot, uint32_t shape, bool transposed,
                    matrix_view *view)
{
    kiln_tensor tensor = tensor_of(args, slot);
    const char *base = tensor.buffer ? kiln_buffer_host(tensor.buffer) : tensor.data;
    uint32_t own = shape == KILN_OPERAND_MATRIX ? 2 : 1;
    if (!base || tensor.layout != KILN_LAYOUT_STRIDED || tensor.rank < own ||
        tensor.rank > own + 1 || kiln_type_bits(tensor.type) < 8)
        return false;
    uint32_t column = transposed ? tensor.rank - own : tensor.rank - 1;
    uint32_t row = transposed ? tensor.rank - 1 : tensor.rank - own;
    view->data = base + tensor.byte_offset;
    view->type = tensor.type;
    view->batch_stride = tensor.rank > own ? tensor.strides[0] : 0;
    view->row_stride =
        shape == KILN_OPERAND_MATRIX || shape == KILN_OPERAND_COLUMN ? tensor.strides[row] : 0;
    view->column_stride =
        shape == KILN_OPERAND_MATRIX || shape == KILN_OPERAND_ROW ? tensor.strides[column] : 0;
    return true;
}

/* One GEMM on its way. */
typedef struct gemm_job {
    const kiln_gemm_desc *desc;
    gemm_arithmetic arithmetic;
    bool wide;
    int64_t m, n, k, batch;
    double alpha, beta;
    matrix_view a, b, c, operands[KILN_GEMM_MAX_EPILOGUES];

    double *op_b;       /* op(B) of one batch entry, K × N */
    double *op_a;       /* one row of op(A) */
    long double *sums;  /* of one row of D: Σab, in long double where wide */
    double *plain_sums; /* in double elsewhere */
    double *magnitudes; /* Σ|a||b| */
    double *spreads;    /* Σ(|a| + |b|) */
} gemm_job;

static void multiply_row(gemm_job *job, int64_t batch, int64_t row)
{
    for (int64_t j = 0; j < job->n; j++) {
        job->sums[j] = 0;
        job->plain_sums[j] = job->magnitudes[j] = job->spreads[j] = 0;
    }
    if (job->alpha == 0)
        return;
    for (int64_t k = 0; k < job->k; k++)
        job->op_a[k] = at(&job->a, batch, row, k);
    for (int64_t k = 0; k < job->k; k++) {
        double a = job->op_a[k];
        const double *b = job->op_b + k * job->n;
        if (job->wide)
            for (int64_t j = 0; j < job->n; j++)
                job->sums[j] += (long double)a * (long double)b[j];
        else
            for (int64_t j = 0; j < job->n; j++)
                job->plain_sums[j] += a * b[j];
        for (int64_t j = 0; j < job->n; j++)
            job->magnitudes[j] += fabs(a) * fabs(b[j]);
        if (job->arithmetic.flushes)
            for (int64_t j = 0; j < job->n; j++)
                job->spreads[j] += fabs(a) + fabs(b[j]);
    }
    if (!job->wide)
        for (int64_t j = 0; j < job->n; j++)
            job->sums[j] = job->plain_sums[j];
}

/* The activations, -Inf giving their limit. */
static long double activation(uint32_t kind, bool wide, long double v)
{
    const long double root_half = 0.707106781186547524400844362104849039L;
    const long double root_two_over_pi = 0.797884560802865355879892119868763737L;
    if (isinf(v) && v < 0)
        return -0.0L;
    if (kind == KILN_EPILOGUE_GELU_ERF)
        return v / 2 * (wide ? erfcl(-v * root_half) : (long double)erfc((double)(-v * root_half)));
    long double exponent =
        kind == KILN_EPILOGUE_SILU ? -v : -2 * root_two_over_pi * (v + 0.044715L * v * v * v);
    return v / (1 + (wide ? expl(exponent) : (long double)exp((double)exponent)));
}

static long double apply(const kiln_epilogue *epilogue, bool wide, long double v, double x)
{
    switch (epilogue->kind) {
    case KILN_EPILOGUE_BIAS:
    case KILN_EPILOGUE_RESIDUAL:
        return v + x;
    case KILN_EPILOGUE_MULTIPLY:
    case KILN_EPILOGUE_SCALE:
        return v * x;
    case KILN_EPILOGUE_RELU:
        return v < 0 ? 0 : v;
    case KILN_EPILOGUE_CLIP:
        return v < epilogue->p0 ? epilogue->p0 : v > epilogue->p1 ? epilogue->p1 : v;
    default:
        return activation(epilogue->kind, wide, v);
    }
}

static void finish_element(const gemm_job *job, int64_t batch, int64_t row, int64_t column,
                           double *exact, double *bound)
{
    const kiln_gemm_desc *desc = job->desc;
    double c = job->beta != 0 ? at(&job->c, batch, row, column) : 0;
    long double value = job->alpha != 0 ? job->alpha * job->sums[column] : 0;
    if (job->beta != 0)
        value += (long double)job->beta * c;
    double magnitude =
        job->arithmetic.exact_sum ? (double)fabsl(job->sums[column]) : job->magnitudes[column];
    double error = 0;
    if (isfinite((double)value))
        error = conformance_gemm_sum_error(&job->arithmetic, job->k, job->alpha, magnitude,
                                           job->spreads[column], job->beta, c);
    for (uint32_t i = 0; i < desc->epilogue_count; i++) {
        const kiln_epilogue *epilogue = &desc->epilogues[i];
        double x = epilogue->operand != KILN_OPERAND_NONE
                       ? at(&job->operands[i], batch, row, column)
                   : epilogue->kind == KILN_EPILOGUE_SCALE ? epilogue->p0
                                                           : 0;
        long double after = apply(epilogue, job->wide, value, x);
        error =
            conformance_gemm_step_error(&job->arithmetic, epilogue->kind, value, error, x, after);
        value = after;
    }
    *exact = conformance_gemm_clamped(desc->d_type, desc->head.flags & KILN_GEMM_SATURATE, value);
    *bound = conformance_gemm_output_bound(&job->arithmetic, desc->d_type, *exact, error);
}

static kiln_status refuse(kiln_status status, const char *why, const char **reason)
{
    *reason = why;
    return status;
}

static kiln_status bind(gemm_job *job, const kiln_gemm_args *args, const char **reason)
{
    const kiln_gemm_desc *desc = job->desc;
    bool transpose_a = desc->head.flags & KILN_GEMM_TRANSPOSE_A,
         transpose_b = desc->head.flags & KILN_GEMM_TRANSPOSE_B;
    kiln_tensor a = tensor_of(args, KILN_GEMM_A), d = tensor_of(args, KILN_GEMM_D);
    if (desc->grouping != KILN_GROUPING_NONE || desc->a_quantization.scale_type ||
        desc->b_quantization.scale_type || desc->d_quantization.scale_type ||
        desc->epilogue_count > KILN_GEMM_MAX_EPILOGUES)
        return refuse(KILN_UNSUPPORTED,
                      "the oracle knows no grouping and no scales, and at most 8 epilogues",
                      reason);
    if (d.rank < 2 || d.rank > 3 || a.rank < 2 || a.rank > 3)
        return refuse(KILN_INVALID, "A and D must be matrices, or batches of matrices", reason);
    job->m = d.shape[d.rank - 2];
    job->n = d.shape[d.rank - 1];
    job->batch = d.rank == 3 ? d.shape[0] : 1;
    job->k = a.shape[transpose_a ? a.rank - 2 : a.rank - 1];
    job->alpha = args->alpha;
    job->beta = args->beta;
    if (!view_of(args, KILN_GEMM_A, KILN_OPERAND_MATRIX, transpose_a, &job->a) ||
        !view_of(args, KILN_GEMM_B, KILN_OPERAND_MATRIX, transpose_b, &job->b) ||
        (job->beta != 0 && !view_of(args, KILN_GEMM_C, KILN_OPERAND_MATRIX, false, &job->c)))
        return refuse(KILN_INVALID, "the oracle reads strided matrices in host memory", reason);
    for (uint32_t i = 0; i < desc->epilogue_count; i++) {
        if (desc->epilogues[i].kind == KILN_EPILOGUE_NONE ||
            desc->epilogues[i].kind > KILN_EPILOGUE_CLIP)
            return refuse(KILN_UNSUPPORTED, "the oracle knows the epilogues from bias to clip",
                          reason);
        if (desc->epilogues[i].operand != KILN_OPERAND_NONE &&
            !view_of(args, KILN_GEMM_OPERAND + i, desc->epilogues[i].operand, false,
                     &job->operands[i]))
            return refuse(KILN_INVALID, "the oracle reads epilogue operands in host memory",
                          reason);
    }
    return KILN_OK;
}

static void compute(gemm_job *job, double *exact, double *bound)
{
    for (int64_t batch = 0; batch < job->batch; batch++) {
        for (int64_t k = 0; job->alpha != 0 && k < job->k; k++)
            for (int64_t j = 0; j < job->n; j++)
                job->op_b[k * job->n + j] = at(&job->b, batch, k, j);
        for (int64_t i = 0; i < job->m; i++) {
            multiply_row(job, batch, i);
            for (int64_t j = 0; j < job->n; j++)
                finish_element(job, batch, i, j, exact++, bound++);
        }
    }
}

kiln_status conformance_gemm_oracle(const kiln_gemm_desc *desc, const kiln_gemm_args *args,
                                    uint32_t answer_flags, double *exact, double *bound,
                                    const char **reason)
{
    gemm_job job = {.desc = desc, .wide = desc->a_type == KILN_F64};
    job.arithmetic = conformance_gemm_arithmetic(desc, answer_flags);
    kiln_status status = bind(&job, args, reason);
    if (status != KILN_OK)
        return status;
    size_t n = (size_t)job.n + 1, k = (size_t)job.k + 1; /* never zero bytes */
    job.op_b = calloc(k, n * sizeof(double));
    job.op_a = calloc(k, sizeof(double));
    job.sums = calloc(n, sizeof(long double));
    job.plain_sums = calloc(n, sizeof(double));
    job.magnitudes = calloc(n, sizeof(double));
    job.spreads = calloc(n, sizeof(double));
    if (job.op_b && job.op_a && job.sums && job.plain_sums && job.magnitudes && job.spreads)
        compute(&job, exact, bound);
    else
        status = refuse(KILN_NO_MEMORY, "no memory for the oracle", reason);
    free(job.op_b);
    free(job.op_a);
    free(job.sums);
    free(job.plain_sums);
    free(job.magnitudes);
    free(job.spreads);
    return status;
}
