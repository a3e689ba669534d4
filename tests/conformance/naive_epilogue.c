/* SPDX-License-Identifier: Apache-2.0 */
/* The naive plugin: epilogues, and the row of D that they end in. */
#include "tests/conformance/naive_parts.h"

static double silu(double v)
{
    return v == -(double)INFINITY ? -0.0 : v / (1 + exp(-v));
}

static double activation(uint32_t kind, double v)
{
    if (kind == KILN_EPILOGUE_SILU)
        return silu(v);
    if (v == -(double)INFINITY)
        return -0.0;
    if (kind == KILN_EPILOGUE_GELU_ERF)
        return v / 2 * erfc(-v / sqrt(2.0));
    double inner = 0.79788456080286535588 * (v + 0.044715 * v * v * v);
    return v / (1 + exp(-2 * inner));
}

static double operand(const naive_run *run, uint32_t i, int64_t lead, int64_t row, int64_t column)
{
    const kiln_epilogue *epilogue = &run->desc->epilogues[i];
    const kiln_tensor *tensor = &run->tensors[KILN_GEMM_OPERAND + i];
    if (naive_is_mistake(run, NAIVE_BROADCAST_VECTOR) && epilogue->operand != KILN_OPERAND_MATRIX)
        lead = 0;
    switch (epilogue->operand) {
    case KILN_OPERAND_MATRIX:
        return naive_load(run, tensor, lead, 2, row, column);
    case KILN_OPERAND_NONE:
        return naive_rounded(run, epilogue->p0);
    default:
        return naive_load(run, tensor, lead, 1, 0,
                          epilogue->operand == KILN_OPERAND_ROW      ? column
                          : epilogue->operand == KILN_OPERAND_COLUMN ? row
                                                                     : 0);
    }
}

static double apply(const naive_run *run, uint32_t i, double v, double x)
{
    const kiln_epilogue *epilogue = &run->desc->epilogues[i];
    double p1 = naive_rounded(run, epilogue->p1);
    switch (epilogue->kind) {
    case KILN_EPILOGUE_BIAS:
    case KILN_EPILOGUE_RESIDUAL:
        return naive_rounded(run, v + x);
    case KILN_EPILOGUE_MULTIPLY:
    case KILN_EPILOGUE_SCALE:
        return naive_rounded(run, v * x);
    case KILN_EPILOGUE_RELU:
        return v < 0 ? 0 : v;
    case KILN_EPILOGUE_CLIP:
        return v < x ? x : v > p1 ? p1 : v;
    default:
        return naive_rounded(run, activation(epilogue->kind, v));
    }
}

static void add_values(const naive_run *run, const kiln_tensor *tensor, int64_t lead, int64_t width)
{
    for (int64_t j = 0; j < width; j++)
        naive_store(run, tensor, lead, 1, 0, j,
                    naive_load(run, tensor, lead, 1, 0, j) + run->values[j], 0);
}

static void add_gradient(const naive_run *run, uint32_t i, int64_t lead, int64_t width)
{
    const kiln_tensor *tensor = &run->tensors[KILN_GEMM_OPERAND + i];
    add_values(run, tensor, lead, width);
    if (naive_is_mistake(run, NAIVE_GRADIENT_SHARED) && tensor->rank == 2 && lead > 0)
        add_values(run, tensor, 0, width);
}

static double largest_of(uint32_t type)
{
    switch (type) {
    case KILN_E4M3:
        return 448;
    case KILN_E5M2:
        return 57344;
    case KILN_E2M1:
        return 6;
    case KILN_I4:
        return 7;
    case KILN_U4:
        return 15;
    case KILN_U8:
        return 255;
    default:
        return 127;
    }
}

static double scale_of(const naive_run *run, int64_t first, int64_t last)
{
    double largest = 0;
    for (int64_t j = first; j < last; j++)
        if (isfinite(run->values[j]) && fabs(run->values[j]) > largest)
            largest = fabs(run->values[j]);
    if (largest == 0)
        return 1;
    double scale = (double)(float)(largest / largest_of(run->desc->d_type));
    uint32_t type = run->desc->d_quantization.scale_type;
    double least = type == KILN_E4M3 ? 0x1p-9 : 0x1p-126;
    if (type == KILN_UE8M0)
        scale = kiln_f64_from_ue8m0(kiln_ue8m0_from_f64(scale));
    if (scale < least)
        scale = least;
    if (type == KILN_E4M3)
        scale = kiln_f64_from_e4m3(kiln_e4m3_from_f64(scale, KILN_SATURATE));
    if (naive_is_mistake(run, NAIVE_SCALE_CODE))
        scale *= type == KILN_UE8M0 ? 2 : type == KILN_E4M3 ? 1.125 : 1.00001;
    return scale;
}

static void quantize(const naive_run *run, int64_t lead, int64_t row, int64_t width)
{
    int64_t size = run->desc->d_quantization.block[1];
    const kiln_tensor *d = &run->tensors[KILN_GEMM_D];
    if (size < 0)
        size = width;
    for (int64_t first = 0; first < width; first += size) {
        int64_t last = first + size < width ? first + size : width;
        double scale = scale_of(run, first, last);
        naive_store(run, &run->tensors[KILN_GEMM_D_SCALE], lead, 2, row, first / size, scale, 0);
        for (int64_t j = first; j < last; j++) {
            double value = naive_rounded(run, run->values[j] / scale);
            if (naive_is_mistake(run, NAIVE_UNSCALED_D))
                value = run->values[j];
            naive_store(run, d, lead, 2, row, j, value, KILN_SATURATE);
        }
    }
}

static void store_row(const naive_run *run, int64_t lead, int64_t row, int64_t width)
{
    const kiln_tensor *d = &run->tensors[KILN_GEMM_D];
    int flags = run->desc->head.flags & KILN_GEMM_SATURATE ? KILN_SATURATE : 0;
    for (int64_t j = 0; j < width; j++) {
        naive_store(run, d, lead, 2, row, j, run->values[j], flags);
        double stored = naive_load(run, d, lead, 2, row, j);
        if (naive_is_mistake(run, NAIVE_ROUNDED_DOWN) && fabs(stored) > fabs(run->values[j]) &&
            kiln_type_bits(d->type) == 16)
            naive_store(run, d, lead, 2, row, j,
                        run->values[j] * (1 - (d->type == KILN_F16 ? 0x1p-11 : 0x1p-8)), flags);
    }
}

/* Vectors and scalars go by group; columns and matrices of a contiguous grouping go by row. */
static int64_t operand_lead(const naive_run *run, uint32_t i, int64_t group)
{
    uint32_t shape = run->desc->epilogues[i].operand;
    bool by_row = shape == KILN_OPERAND_MATRIX || shape == KILN_OPERAND_COLUMN;
    return run->desc->grouping == KILN_GROUPING_CONTIGUOUS && by_row ? 0 : group;
}

void naive_finish_row(naive_run *run, int64_t group, int64_t d_lead, int64_t row, bool last)
{
    const kiln_gemm_desc *desc = run->desc;
    int64_t width = run->n;
    for (uint32_t i = 0; i < desc->epilogue_count; i++) {
        uint32_t kind = desc->epilogues[i].kind;
        int64_t lead = operand_lead(run, i, group);
        if (kind == KILN_EPILOGUE_QUANTIZE) {
            quantize(run, d_lead, row, width);
            return;
        }
        if (kind == KILN_EPILOGUE_BIAS_GRADIENT) {
            if (!(last && naive_is_mistake(run, NAIVE_GRADIENT_MISSES)))
                add_gradient(run, i, lead, width);
            continue;
        }
        if (kind == KILN_EPILOGUE_SWIGLU) {
            bool swapped = naive_is_mistake(run, NAIVE_SWAPPED_PAIR);
            width /= 2;
            int64_t piece = desc->epilogues[i].p0 < 0 ? width : (int64_t)desc->epilogues[i].p0;
            piece += piece == 0;
            for (int64_t j = 0; j < width; j++) {
                const double *pair = run->values + j + j / piece * piece;
                run->values[j] =
                    naive_rounded(run, naive_rounded(run, silu(pair[swapped ? piece : 0])) *
                                           pair[swapped ? 0 : piece]);
            }
            continue;
        }
        for (int64_t j = 0; j < width; j++)
            run->values[j] = apply(run, i, run->values[j], operand(run, i, lead, row, j));
    }
    store_row(run, d_lead, row, width);
}
