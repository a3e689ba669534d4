/* SPDX-License-Identifier: Apache-2.0 */
/* What follows the product: alpha, beta, the ordered epilogues, one rounding to D.
 *
 * Values stand in double and are rounded to f32 after every step unless the GEMM is wide. That
 * gives the bits of f32 arithmetic: a product of two f32 is exact in double, and a sum in double
 * has more than twice the digits, so that rounding it again does no harm. The activations are
 * computed in double and rounded once. */
#include <math.h>

#include "plugins/ref/ref.h"

/* -Inf would meet 0 in each of these; its limit is -0. */
static double gelu_erf(double v)
{
    /* erfc, not 1 + erf: no cancellation for negative v. */
    return v == -(double)INFINITY ? -0.0 : 0.5 * v * erfc(-v * 0.70710678118654752440);
}

static double gelu_tanh(double v)
{
    double inner = 0.79788456080286535588 * (v + 0.044715 * v * v * v);
    /* (1 + tanh x) / 2 = 1 / (1 + e^-2x), again without cancellation. */
    return v == -(double)INFINITY ? -0.0 : v / (1 + exp(-2 * inner));
}

static double silu(double v)
{
    return v == -(double)INFINITY ? -0.0 : v / (1 + exp(-v));
}

static void round_row(bool wide, int64_t count, double *values)
{
    if (!wide)
        for (int64_t j = 0; j < count; j++)
            values[j] = (double)(float)values[j];
}

static double parameter(bool wide, double value)
{
    return wide ? value : (double)(float)value;
}

static void apply(const kiln_epilogue *epilogue, bool wide, int64_t count, double *v,
                  const double *x)
{
    double p0 = parameter(wide, epilogue->p0), p1 = parameter(wide, epilogue->p1);
    switch (epilogue->kind) {
    case KILN_EPILOGUE_BIAS:
    case KILN_EPILOGUE_RESIDUAL:
        for (int64_t j = 0; j < count; j++)
            v[j] += x[j];
        break;
    case KILN_EPILOGUE_RELU:
        for (int64_t j = 0; j < count; j++)
            v[j] = v[j] < 0 ? 0 : v[j];
        break;
    case KILN_EPILOGUE_GELU_ERF:
        for (int64_t j = 0; j < count; j++)
            v[j] = gelu_erf(v[j]);
        break;
    case KILN_EPILOGUE_GELU_TANH:
        for (int64_t j = 0; j < count; j++)
            v[j] = gelu_tanh(v[j]);
        break;
    case KILN_EPILOGUE_SILU:
        for (int64_t j = 0; j < count; j++)
            v[j] = silu(v[j]);
        break;
    case KILN_EPILOGUE_MULTIPLY:
    case KILN_EPILOGUE_SCALE:
        for (int64_t j = 0; j < count; j++)
            v[j] *= epilogue->operand == KILN_OPERAND_NONE ? p0 : x[j];
        break;
    case KILN_EPILOGUE_CLIP:
        for (int64_t j = 0; j < count; j++)
            v[j] = v[j] < p0 ? p0 : v[j] > p1 ? p1 : v[j];
        break;
    default: /* query declined it */
        break;
    }
}

void ref_gemm_finish_row(const ref_gemm_finish *finish, int64_t batch, int64_t row, int64_t column,
                         int64_t count, double *values)
{
    const kiln_gemm_desc *desc = finish->desc;
    bool wide = finish->wide;
    double other[REF_TILE];
    double alpha = parameter(wide, finish->alpha), beta = parameter(wide, finish->beta);

    round_row(wide, count, values);
    for (int64_t j = 0; j < count; j++)
        values[j] *= alpha;
    round_row(wide, count, values);
    if (finish->c.data) {
        ref_matrix_load(&finish->c, batch, row, column, count, other);
        round_row(wide, count, other);
        for (int64_t j = 0; j < count; j++)
            other[j] *= beta;
        round_row(wide, count, other);
        for (int64_t j = 0; j < count; j++)
            values[j] += other[j];
        round_row(wide, count, values);
    }
    for (uint32_t i = 0; i < desc->epilogue_count; i++) {
        if (desc->epilogues[i].operand != KILN_OPERAND_NONE)
            ref_matrix_load(&finish->operands[i], batch, row, column, count, other);
        apply(&desc->epilogues[i], wide, count, values, other);
        round_row(wide, count, values);
    }
    ref_matrix_store(&finish->d, batch, row, column, count, values,
                     desc->head.flags & KILN_GEMM_SATURATE);
}
