/* SPDX-License-Identifier: Apache-2.0 */
/* What follows the product, row by row: alpha, beta, the ordered epilogues, one rounding to D.
 *
 * Values stand in double and are rounded to f32 after every step unless the GEMM is wide. That
 * gives the bits of f32 arithmetic: a product of two f32 is exact in double, and a sum in double
 * has more than twice the digits, so that rounding it again does no harm. The activations are
 * computed in double and rounded once. */
#include <math.h>

#include "plugins/ref/gemm.h"

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
    default: /* query declined it, or ref_gemm_finish_row does it */
        break;
    }
}

/* The sum of alpha and beta: values = alpha * values + beta * C. */
static void combine(const ref_gemm_finish *finish, int64_t entry, int64_t row, int64_t column,
                    int64_t count, double *values, double *other)
{
    bool wide = finish->wide;
    round_row(wide, count, values);
    for (int64_t j = 0; j < count; j++)
        values[j] *= finish->alpha;
    round_row(wide, count, values);
    if (!finish->c.data)
        return;
    ref_matrix_load(&finish->c, entry, row, column, count, other);
    round_row(wide, count, other);
    for (int64_t j = 0; j < count; j++)
        other[j] *= finish->beta;
    round_row(wide, count, other);
    for (int64_t j = 0; j < count; j++)
        values[j] += other[j];
    round_row(wide, count, values);
}

/* Pairs (gate, up) of pieces of `piece` columns become one; a value is read before its place is
 * written. */
static void swiglu(bool wide, int64_t pairs, int64_t piece, double *v)
{
    for (int64_t j = 0; j < pairs; j++) {
        const double *gate = v + j + j / piece * piece;
        v[j] = parameter(wide, silu(*gate)) * gate[piece];
    }
}

/* Divides each block by the scale that it gets. */
static void quantise(const ref_gemm_finish *finish, int64_t entry, int64_t row, int64_t column,
                     int64_t count, double *v)
{
    const kiln_gemm_desc *desc = finish->desc;
    int64_t block = desc->d_quantization.block[1];
    if (block < 0)
        block = INT64_MAX;
    for (int64_t j = 0, size; j < count; j += size) {
        double largest = 0;
        size = ref_smaller(block, count - j);
        for (int64_t i = j; i < j + size; i++)
            if (isfinite(v[i]) && fabs(v[i]) > largest)
                largest = fabs(v[i]);
        double scale = ref_scale_for(desc->d_type, desc->d_quantization.scale_type, largest);
        for (int64_t i = j; i < j + size; i++)
            v[i] /= scale;
        ref_matrix_store(&finish->d_scale, entry, row, (column + j) / block, 1, &scale, false);
    }
}

void ref_gemm_finish_row(const ref_gemm_finish *finish, int64_t entry, int64_t row, int64_t column,
                         int64_t count, const ref_gemm_slot *slot)
{
    const kiln_gemm_desc *desc = finish->desc;
    double *values = slot->values, *gradient = slot->gradients;
    bool saturate = desc->head.flags & KILN_GEMM_SATURATE;

    combine(finish, entry, row, column, count, values, slot->other);
    for (uint32_t i = 0; i < desc->epilogue_count; i++) {
        const kiln_epilogue *epilogue = &desc->epilogues[i];
        switch (epilogue->kind) {
        case KILN_EPILOGUE_SWIGLU:
            count /= 2;
            column /= 2;
            swiglu(finish->wide, count, kiln_gemm_piece(epilogue, count), values);
            break;
        case KILN_EPILOGUE_BIAS_GRADIENT:
            for (int64_t j = 0; j < count; j++)
                gradient[j] += values[j];
            gradient += finish->tile_columns;
            continue;
        case KILN_EPILOGUE_QUANTIZE:
            quantise(finish, entry, row, column, count, values);
            saturate = true;
            continue;
        default:
            if (epilogue->operand != KILN_OPERAND_NONE)
                ref_matrix_load(&finish->operands[i], entry, row, column, count, slot->other);
            apply(epilogue, finish->wide, count, values, slot->other);
        }
        round_row(finish->wide, count, values);
    }
    ref_matrix_store(&finish->d, entry, row, column, count, values, saturate);
}

/* ---- Sums over rows ---- */

/* Whether one sum serves all entries. */
static bool is_shared(const ref_gemm_finish *finish, uint32_t epilogue)
{
    return finish->operands[epilogue].entries == 1;
}

void ref_gemm_gradients_clear(const ref_gemm_finish *finish, bool shared, const ref_gemm_slot *slot)
{
    double *gradient = slot->gradients;
    for (uint32_t i = 0; i < finish->desc->epilogue_count; i++) {
        if (finish->desc->epilogues[i].kind != KILN_EPILOGUE_BIAS_GRADIENT)
            continue;
        if (is_shared(finish, i) == shared)
            memset(gradient, 0, (size_t)finish->tile_columns * sizeof *gradient);
        gradient += finish->tile_columns;
    }
}

void ref_gemm_gradients_store(const ref_gemm_finish *finish, bool shared, int64_t entry,
                              int64_t column, int64_t count, const ref_gemm_slot *slot)
{
    const double *gradient = slot->gradients;
    for (uint32_t i = 0; i < finish->desc->epilogue_count; i++) {
        uint32_t kind = finish->desc->epilogues[i].kind;
        if (kind == KILN_EPILOGUE_SWIGLU) {
            column /= 2;
            count /= 2;
        }
        if (kind != KILN_EPILOGUE_BIAS_GRADIENT)
            continue;
        if (is_shared(finish, i) == shared)
            ref_matrix_store(&finish->operands[i], entry, 0, column, count, gradient, false);
        gradient += finish->tile_columns;
    }
}
