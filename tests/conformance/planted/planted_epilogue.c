/* SPDX-License-Identifier: Apache-2.0 */
/* What happens to a sum on its way to D, value by value, and what can be wrong with it. */
#include "planted_gemm.h"

#include <math.h>

static double rounded(const planted_product *self, double value)
{
    return self->desc->d_type == KILN_I32 ? value : (double)(float)value;
}

static double load(const planted_product *self, uint32_t slot, int64_t matrix, int64_t row,
                   int64_t column)
{
    return kiln_load_f64(self->tensors[slot].type, self->addresses[slot],
                         planted_element_at(self, slot, matrix, row, column));
}

/* ---- alpha and beta ---- */

static double sum_at(const planted_row *row, int64_t j)
{
    return j >= row->first && j < row->first + row->count
               ? row->sums[j - row->first]
               : planted_sum(row->product, &row->place, j);
}

static double start(const planted_row *row, int64_t j)
{
    const planted_product *self = row->product;
    double alpha = self->args.alpha, beta = self->args.beta,
           value = rounded(self, rounded(self, sum_at(row, j)) * alpha);
    if (planted(CLEARS_D_FIRST) && self->addresses[KILN_GEMM_C] == self->addresses[KILN_GEMM_D])
        kiln_store_f64(self->desc->d_type, self->addresses[KILN_GEMM_D],
                       planted_element_at(self, KILN_GEMM_D, row->place.d, row->place.row, j), 0,
                       0);
    bool with_c = self->desc->c_type != KILN_TYPE_NONE && (beta != 0 || planted(READS_C));
    if (with_c && self->addresses[KILN_GEMM_C]) {
        double c = rounded(self, load(self, KILN_GEMM_C, row->place.d, row->place.row, j));
        value = rounded(self, value + rounded(self, c * beta));
        if (planted(BETA_TWICE) && beta != 1)
            value = rounded(self, value + rounded(self, c * beta) * (beta - 1));
    }
    return value;
}

/* ---- Operands ---- */

/* A vector of rank 2 has one for each batch entry or group. What belongs to rows has none in a
 * contiguous grouping, whose D is one matrix. */
static double operand_of(const planted_row *row, uint32_t index, int64_t j)
{
    const planted_product *self = row->product;
    uint32_t slot = KILN_GEMM_OPERAND + index, shape = self->desc->epilogues[index].operand;
    const kiln_tensor *tensor = &self->tensors[slot];
    if (shape == KILN_OPERAND_MATRIX)
        return load(self, slot, row->place.d, row->place.row, j);
    uint32_t type = tensor->type;
    if (planted(TAKES_BF16_FOR_F16) && type == KILN_BF16)
        type = KILN_F16;
    int64_t vector = shape == KILN_OPERAND_COLUMN ? row->place.d : row->place.group,
            element = shape == KILN_OPERAND_COLUMN ? row->place.row
                      : shape == KILN_OPERAND_ROW  ? j
                                                   : 0;
    return kiln_load_f64(type, self->addresses[slot],
                         (tensor->rank == 2 ? vector * tensor->strides[0] : 0) + element);
}

/* ---- Steps ---- */

static double silu(double v)
{
    return v == -(double)INFINITY ? -0.0 : v / (1 + exp(-v));
}

static double apply(const kiln_epilogue *epilogue, double v, double x)
{
    double p0 = (double)(float)epilogue->p0, p1 = (double)(float)epilogue->p1;
    switch (epilogue->kind) {
    case KILN_EPILOGUE_BIAS:
    case KILN_EPILOGUE_RESIDUAL:
        return v + x;
    case KILN_EPILOGUE_MULTIPLY:
        return v * x;
    case KILN_EPILOGUE_SCALE:
        return v * (epilogue->operand ? x : p0);
    case KILN_EPILOGUE_RELU:
        if (planted(RELU_SWALLOWS_NAN))
            return v > 0 ? v : 0;
        return v < 0 ? 0 : v;
    case KILN_EPILOGUE_CLIP:
        return v < p0 ? p0 : v > p1 ? p1 : v;
    case KILN_EPILOGUE_GELU_ERF:
        return v == -(double)INFINITY ? -0.0 : 0.5 * v * erfc(-v * 0.70710678118654752440);
    case KILN_EPILOGUE_GELU_TANH:
        return v == -(double)INFINITY
                   ? -0.0
                   : v / (1 + exp(-1.59576912160573071176 * (v + 0.044715 * v * v * v)));
    case KILN_EPILOGUE_SILU:
        return silu(v);
    default: /* BIAS_GRADIENT and QUANTIZE leave it */
        return v;
    }
}

/* Column j of what SWIGLU leaves, from the values before it. */
static double join_pair(const planted_row *row, uint32_t index, int64_t j)
{
    double p0 = row->product->desc->epilogues[index].p0;
    int64_t piece = p0 == 0  ? 1
                    : p0 < 0 ? row->product->n / 2
                             : (int64_t)p0,
            gate = j / piece * 2 * piece + j % piece, up = gate + piece;
    if (planted(SWIGLU_SWAPPED)) {
        up = gate;
        gate += piece;
    }
    return silu((double)(float)planted_value(row, index, gate)) *
           (double)(float)planted_value(row, index, up);
}

/* Which epilogue is applied as number `index`. */
static uint32_t turn_of(const kiln_gemm_desc *desc, uint32_t index)
{
    if (!planted(EPILOGUES_REVERSED))
        return index;
    for (uint32_t i = 0; i < desc->epilogue_count; i++)
        if (desc->epilogues[i].kind > KILN_EPILOGUE_CLIP)
            return index; /* their order is their sense */
    return desc->epilogue_count - 1 - index;
}

double planted_value(const planted_row *row, uint32_t index, int64_t j)
{
    const kiln_gemm_desc *desc = row->product->desc;
    if (index == 0)
        return start(row, j);
    uint32_t at = turn_of(desc, index - 1);
    const kiln_epilogue *epilogue = &desc->epilogues[at];
    if (epilogue->kind == KILN_EPILOGUE_SWIGLU)
        return (double)(float)join_pair(row, at, j);
    double v = (double)(float)planted_value(row, index - 1, j);
    bool reads = epilogue->operand && epilogue->kind != KILN_EPILOGUE_BIAS_GRADIENT;
    return (double)(float)apply(epilogue, v, reads ? operand_of(row, at, j) : 0);
}
