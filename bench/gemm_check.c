/* SPDX-License-Identifier: Apache-2.0 */
/* Is the result right? A loop in double, at some places of D, with the bound that the public header
 * documents. */
#include "bench/gemm.h"

#include <math.h>

#include "conformance/random.h"

/* A value and how far a correct backend may be from it. */
typedef struct expected {
    double value;
    double bound;
} expected;

typedef struct place {
    int64_t batch, row, column;
} place;

static double element(const kiln_tensor *tensor, int64_t batch, int64_t row, int64_t column)
{
    uint32_t last = tensor->rank - 1;
    int64_t index = column * tensor->strides[last];
    if (tensor->rank >= 2)
        index += row * tensor->strides[last - 1];
    if (tensor->rank == 3)
        index += batch * tensor->strides[0];
    return kiln_load_f64(tensor->type, tensor->data, index);
}

/* What an element of A or B means. */
static double quantized(const kiln_tensor *tensor, int64_t batch, int64_t row, int64_t column)
{
    const int64_t *block = tensor->scale_block;
    double value = element(tensor, batch, row, column);
    row = block[0] ? row / block[0] : 0;
    column = block[1] ? column / block[1] : 0;
    if (tensor->zero_point)
        value -= element(tensor->zero_point, batch, row, column);
    return tensor->scale ? value * element(tensor->scale, batch, row, column) : value;
}

/* Unit roundoff of a type; 0 for integers. */
static double unit(uint32_t type)
{
    switch (type) {
    case KILN_F64:
        return 0x1p-53;
    case KILN_F32:
        return 0x1p-24;
    case KILN_F16:
        return 0x1p-11;
    case KILN_BF16:
        return 0x1p-8;
    case KILN_E4M3:
        return 0x1p-4;
    case KILN_E5M2:
        return 0x1p-3;
    case KILN_E2M1:
        return 0x1p-2;
    default:
        return 0;
    }
}

/* Unit roundoff of sums and of steps after them. */
static double inner_unit(const kiln_gemm_desc *desc)
{
    return desc->a_type == KILN_F64 ? 0x1p-53 : 0x1p-24;
}

/* Which matrices of A and B meet at a place of D, and over which steps of k. */
typedef struct meeting {
    int64_t a_batch, b_batch, from, to;
} meeting;

static meeting meeting_at(const kiln_gemm_desc *desc, const bench_operands *operands, place at)
{
    const kiln_tensor *groups = &operands->tensors[KILN_GEMM_GROUPS];
    if (desc->grouping == KILN_GROUPING_CONTIGUOUS)
        return (meeting){0, (int64_t)kiln_load_f64(KILN_I32, groups->data, at.row), 0, desc->k};
    if (desc->grouping == KILN_GROUPING_K)
        return (meeting){
            0, 0, at.batch > 0 ? (int64_t)kiln_load_f64(KILN_I32, groups->data, at.batch - 1) : 0,
            (int64_t)kiln_load_f64(KILN_I32, groups->data, at.batch)};
    return (meeting){at.batch, at.batch, 0, desc->k};
}

/* Roundings of a sum. Products of plain integers are summed exactly; scales bring more. */
static double roundings(const kiln_gemm_desc *desc, const kiln_tensor *tensors)
{
    bool plain = !tensors[KILN_GEMM_A].scale && !tensors[KILN_GEMM_B].scale;
    if (plain && kiln_gemm_integer_depth(desc) < INT64_MAX && desc->d_type == KILN_I32)
        return 0;
    return (plain ? 1 : 3) * ((double)desc->k + 4);
}

/* How far a backend was allowed to leave the meaning. */
static double allowance(const kiln_gemm_desc *desc)
{
    return desc->precision == KILN_PRECISION_FAST ? 0.01 : desc->max_rel_error;
}

/* alpha A B + beta C at one place. */
static expected linear(const bench_gemm *gemm, const bench_operands *operands, place at)
{
    const kiln_gemm_desc *desc = &gemm->desc;
    const kiln_tensor *a = &operands->tensors[KILN_GEMM_A], *b = &operands->tensors[KILN_GEMM_B],
                      *c = &operands->tensors[KILN_GEMM_C];
    bool ta = desc->head.flags & KILN_GEMM_TRANSPOSE_A,
         tb = desc->head.flags & KILN_GEMM_TRANSPOSE_B;
    meeting of = meeting_at(desc, operands, at);
    double sum = 0, magnitude = 0;
    for (int64_t k = of.from; k < of.to; k++) {
        double product = quantized(a, of.a_batch, ta ? k : at.row, ta ? at.row : k) *
                         quantized(b, of.b_batch, tb ? at.column : k, tb ? k : at.column);
        sum += product;
        magnitude += fabs(product);
    }
    double value = gemm->alpha * sum, size = fabs(gemm->alpha) * magnitude;
    if (gemm->beta != 0) {
        double addend = gemm->beta * element(c, at.batch, at.row, at.column);
        value += addend;
        size += fabs(addend);
    }
    double relative = roundings(desc, operands->tensors) * inner_unit(desc) + allowance(desc);
    return (expected){value, relative * size};
}

static double sigmoid(double value)
{
    return 1 / (1 + exp(-value));
}

/* One epilogue on one value; `other` is the operand's value or the second of a pair. The slope of
 * every activation here is below 1.2. */
static expected step(const kiln_epilogue *epilogue, expected v, double other, double roundoff)
{
    expected result = v;
    double slope = 1;
    switch (epilogue->kind) {
    case KILN_EPILOGUE_BIAS:
    case KILN_EPILOGUE_RESIDUAL:
        result.value = v.value + other;
        break;
    case KILN_EPILOGUE_RELU:
        result.value = v.value > 0 ? v.value : 0;
        break;
    case KILN_EPILOGUE_GELU_ERF:
        result.value = v.value / 2 * (1 + erf(v.value * sqrt(0.5)));
        slope = 1.2;
        break;
    case KILN_EPILOGUE_GELU_TANH:
        result.value =
            v.value / 2 * (1 + tanh(sqrt(2 / acos(-1.0)) * (v.value + 0.044715 * pow(v.value, 3))));
        slope = 1.2;
        break;
    case KILN_EPILOGUE_SILU:
        result.value = v.value * sigmoid(v.value);
        slope = 1.2;
        break;
    case KILN_EPILOGUE_MULTIPLY:
    case KILN_EPILOGUE_SCALE:
        slope = epilogue->operand == KILN_OPERAND_NONE ? epilogue->p0 : other;
        result.value = v.value * slope;
        break;
    case KILN_EPILOGUE_CLIP:
        result.value = fmin(fmax(v.value, epilogue->p0), epilogue->p1);
        break;
    default:
        break;
    }
    result.bound =
        v.bound * fabs(slope) + 16 * roundoff * (fabs(result.value) + fabs(v.value) + fabs(other));
    return result;
}

/* The operand of an epilogue at a place, whatever its shape. */
static double operand_value(const kiln_tensor *tensor, uint32_t shape, place at)
{
    switch (shape) {
    case KILN_OPERAND_SCALAR:
        return element(tensor, 0, 0, 0);
    case KILN_OPERAND_ROW:
        return element(tensor, 0, 0, at.column);
    case KILN_OPERAND_COLUMN:
        return element(tensor, 0, 0, at.row);
    case KILN_OPERAND_MATRIX:
        return element(tensor, at.batch, at.row, at.column);
    default:
        return 0;
    }
}

/* What stands at a place after the first `steps` epilogues. */
static expected after(const bench_gemm *gemm, const bench_operands *operands, uint32_t steps,
                      place at)
{
    if (steps == 0)
        return linear(gemm, operands, at);
    const kiln_epilogue *epilogue = &gemm->desc.epilogues[steps - 1];
    double roundoff = inner_unit(&gemm->desc);
    if (epilogue->kind == KILN_EPILOGUE_SWIGLU) {
        int64_t piece = kiln_gemm_piece(epilogue, gemm->desc.n / 2);
        place first = {at.batch, at.row, at.column + at.column / piece * piece};
        place second = {at.batch, at.row, first.column + piece};
        expected gate = after(gemm, operands, steps - 1, first);
        expected up = after(gemm, operands, steps - 1, second);
        double silu = gate.value * sigmoid(gate.value);
        double bound = fabs(silu) * up.bound + 1.2 * gate.bound * (fabs(up.value) + up.bound);
        return (expected){silu * up.value, bound + 16 * roundoff * fabs(silu * up.value)};
    }
    if (epilogue->kind == KILN_EPILOGUE_BIAS_GRADIENT || epilogue->kind == KILN_EPILOGUE_QUANTIZE)
        return after(gemm, operands, steps - 1, at); /* the value stays */
    double other =
        operand_value(&operands->tensors[KILN_GEMM_OPERAND + steps - 1], epilogue->operand, at);
    return step(epilogue, after(gemm, operands, steps - 1, at), other, roundoff);
}

/* The least distance of two values of a type. */
static double step_of(uint32_t type)
{
    switch (type) {
    case KILN_F16:
        return 0x1p-24;
    case KILN_E4M3:
        return 0x1p-9;
    case KILN_E5M2:
        return 0x1p-16;
    case KILN_E2M1:
        return 0.5;
    default:
        return unit(type) > 0 ? 0 : 1; /* integers */
    }
}

/* The largest or least value of a type: what that takes a value beyond it for. */
static double edge(uint32_t type, double beyond)
{
    uint64_t code = 0;
    kiln_store_f64(type, &code, 0, beyond, KILN_SATURATE);
    return kiln_load_f64(type, &code, 0);
}

/* Rounds as D's type does. Integers saturate: the bound stays that of the value, and half a unit
 * when it was not exact. */
static expected rounded(expected v, uint32_t type, bool saturate)
{
    double roundoff = unit(type), largest = edge(type, 1e308);
    uint64_t code = 0;
    kiln_store_f64(type, &code, 0, v.value, saturate ? KILN_SATURATE : 0);
    double stored = kiln_load_f64(type, &code, 0);
    if (roundoff == 0)
        return (expected){stored, v.bound > 0 ? v.bound + 1 : 0};
    if (fabs(v.value) > largest && type != KILN_F64) /* the edge itself may fall to either side */
        return (expected){stored,
                          fabs(v.value) - v.bound > largest * (1 + roundoff) ? 0 : INFINITY};
    return (expected){v.value, v.bound + roundoff * fabs(v.value) + step_of(type)};
}

/* A quantised result is compared as what it means: an element times its scale, which may have been
 * rounded down, so that the type's range ends before the value. */
static double quantized_result(const bench_gemm *gemm, const bench_operands *operands, place at,
                               double code, expected *right)
{
    const kiln_tensor *scales = &operands->tensors[KILN_GEMM_D_SCALE];
    uint32_t type = gemm->desc.d_type;
    int32_t block = gemm->desc.d_quantization.block[1];
    double scale = element(scales, at.batch, at.row, block > 0 ? at.column / block : 0);
    right->value = fmin(fmax(right->value, scale * edge(type, -1e308)), scale * edge(type, 1e308));
    right->bound += (unit(type) + 0x1p-22) * fabs(right->value) + scale * step_of(type);
    return code * scale;
}

static bool check_place(const bench_gemm *gemm, const bench_operands *operands, place at,
                        bench_message *message)
{
    expected right = after(gemm, operands, gemm->desc.epilogue_count, at);
    double got = element(&operands->tensors[KILN_GEMM_D], at.batch, at.row, at.column);
    if (operands->tensors[KILN_GEMM_D_SCALE].data)
        got = quantized_result(gemm, operands, at, got, &right);
    else
        right = rounded(right, gemm->desc.d_type, gemm->desc.head.flags & KILN_GEMM_SATURATE);
    if (got == right.value || (isnan(got) && isnan(right.value)) || isinf(right.bound) ||
        fabs(got - right.value) <= right.bound)
        return true;
    return bench_say(
        message, "wrong result at batch %lld, row %lld, column %lld: %.9g instead of %.9g ± %.3g",
        (long long)at.batch, (long long)at.row, (long long)at.column, got, right.value,
        right.bound);
}

bool bench_gemm_check(const bench_gemm *gemm, const bench_operands *operands, int64_t samples,
                      bench_message *message)
{
    const kiln_tensor *d = &operands->tensors[KILN_GEMM_D];
    int64_t rows = d->shape[d->rank - 2], columns = d->shape[d->rank - 1],
            batch = d->rank == 3 ? d->shape[0] : 1;
    int64_t total = kiln_tensor_elements(d);
    uint64_t state = gemm->seed ^ 0xc4ec7;
    bool all = samples == 0 || samples >= total;
    for (int64_t i = 0; i < (all ? total : samples + 2); i++) {
        int64_t index = all            ? i
                        : i == samples ? 0
                        : i > samples  ? total - 1
                                       : conformance_random_below(&state, total);
        place at = {index / (rows * columns) % batch, index / columns % rows, index % columns};
        if (!check_place(gemm, operands, at, message))
            return false;
    }
    return true;
}
