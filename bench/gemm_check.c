/* SPDX-License-Identifier: Apache-2.0 */
/* Is the result right? A loop in double, at some places of D, with the bound that the public header
 * documents. */
#include "bench/gemm.h"

#include <math.h>

#include "bench/random.h"

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
    default:
        return 0;
    }
}

/* Unit roundoff of sums and of steps after them. */
static double inner_unit(const kiln_gemm_desc *desc)
{
    return desc->a_type == KILN_F64 ? 0x1p-53 : 0x1p-24;
}

/* alpha A B + beta C at one place. */
static expected linear(const bench_gemm *gemm, const bench_operands *operands, place at)
{
    const kiln_gemm_desc *desc = &gemm->desc;
    const kiln_tensor *a = &operands->tensors[KILN_GEMM_A], *b = &operands->tensors[KILN_GEMM_B];
    const kiln_tensor *c = &operands->tensors[KILN_GEMM_C];
    bool ta = desc->head.flags & KILN_GEMM_TRANSPOSE_A,
         tb = desc->head.flags & KILN_GEMM_TRANSPOSE_B;
    double sum = 0, magnitude = 0;
    for (int64_t k = 0; k < desc->k; k++) {
        double product = element(a, at.batch, ta ? k : at.row, ta ? at.row : k) *
                         element(b, at.batch, tb ? at.column : k, tb ? k : at.column);
        sum += product;
        magnitude += fabs(product);
    }
    double value = gemm->alpha * sum, size = fabs(gemm->alpha) * magnitude;
    if (gemm->beta != 0) {
        double addend = gemm->beta * element(c, at.batch, at.row, at.column);
        value += addend;
        size += fabs(addend);
    }
    double roundings =
        desc->a_type == KILN_I8 && desc->d_type == KILN_I32 ? 0 : (double)desc->k + 4;
    return (expected){value, roundings * inner_unit(desc) * size};
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
        expected gate = after(gemm, operands, steps - 1, (place){at.batch, at.row, 2 * at.column});
        expected up =
            after(gemm, operands, steps - 1, (place){at.batch, at.row, 2 * at.column + 1});
        double silu = gate.value * sigmoid(gate.value);
        double bound = fabs(silu) * up.bound + 1.2 * gate.bound * (fabs(up.value) + up.bound);
        return (expected){silu * up.value, bound + 16 * roundoff * fabs(silu * up.value)};
    }
    double other =
        operand_value(&operands->tensors[KILN_GEMM_OPERAND + steps - 1], epilogue->operand, at);
    return step(epilogue, after(gemm, operands, steps - 1, at), other, roundoff);
}

/* Rounds as D's type does. Integers saturate: the bound stays that of the value, and half a unit
 * when it was not exact. */
static expected rounded(expected v, uint32_t type)
{
    double roundoff = unit(type);
    uint64_t code = 0;
    kiln_store_f64(type, &code, 0, v.value, 0);
    double stored = kiln_load_f64(type, &code, 0);
    if (roundoff > 0)
        return (expected){isinf(stored) ? stored : v.value,
                          v.bound + roundoff * fabs(v.value) + 0x1p-24 * roundoff};
    return (expected){stored, v.bound > 0 ? v.bound + 1 : 0};
}

static bool check_place(const bench_gemm *gemm, const bench_operands *operands, place at,
                        bench_message *message)
{
    expected right =
        rounded(after(gemm, operands, gemm->desc.epilogue_count, at), gemm->desc.d_type);
    double got = element(&operands->tensors[KILN_GEMM_D], at.batch, at.row, at.column);
    if (got == right.value || fabs(got - right.value) <= right.bound)
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
                                       : bench_random_below(&state, total);
        place at = {index / (rows * columns) % batch, index / columns % rows, index % columns};
        if (!check_place(gemm, operands, at, message))
            return false;
    }
    return true;
}
