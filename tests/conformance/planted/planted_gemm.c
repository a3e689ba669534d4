/* SPDX-License-Identifier: Apache-2.0 */
/* A GEMM by plain loops, and what can be wrong with it. Every sum is one loop over k in f32 (i32
 * for i8), so that its bits depend on nothing else. */
#include "planted.h"

#include <fenv.h>
#include <math.h>
#include <sched.h>

/* ---- The product ---- */

/* Elements from a tensor's first to element (row, column) of a batch entry. */
static int64_t element_at(const planted_product *self, uint32_t slot, int64_t entry, int64_t row,
                          int64_t column)
{
    const kiln_tensor *tensor = &self->tensors[slot];
    uint32_t last = tensor->rank - 1;
    int64_t stride = tensor->strides[last - 1], batch_stride = tensor->strides[0];
    if (planted(IGNORES_STRIDE) && slot == KILN_GEMM_B)
        stride = tensor->shape[last];
    if (planted(IGNORES_BROADCAST) && tensor->rank == 3)
        batch_stride = tensor->shape[1] * stride;
    return row * stride + column + (tensor->rank == 3 ? entry * batch_stride : 0);
}

static double load(const planted_product *self, uint32_t slot, int64_t entry, int64_t row,
                   int64_t column)
{
    return kiln_load_f64(self->tensors[slot].type, self->addresses[slot],
                         element_at(self, slot, entry, row, column));
}

/* A row of op(A) or a column of op(B): elements along k. */
typedef struct planted_line {
    const char *first;
    int64_t step; /* in bytes */
    uint32_t type;
} planted_line;

static planted_line line_of(const planted_product *self, uint32_t slot, int64_t entry,
                            int64_t index)
{
    bool transposed = self->desc->head.flags &
                      (slot == KILN_GEMM_A ? KILN_GEMM_TRANSPOSE_A : KILN_GEMM_TRANSPOSE_B);
    bool along_row = transposed == (slot == KILN_GEMM_B);
    uint32_t type = self->tensors[slot].type;
    int64_t size = kiln_type_bits(type) / 8,
            start = element_at(self, slot, entry, along_row ? index : 0, along_row ? 0 : index);
    planted_line line = {self->addresses[slot] + start * size, size, type};
    if (!along_row)
        line.step =
            (element_at(self, slot, entry, 1, 0) - element_at(self, slot, entry, 0, 0)) * size;
    if (planted(ASSUMES_64) && slot == KILN_GEMM_A && self->desc->a_alignment >= 16)
        line.first -= (uintptr_t)line.first % 64;
    if (planted(DROPS_OFFSET) && slot == KILN_GEMM_A && type == KILN_F32)
        line.first -= (uintptr_t)line.first % 4;
    return line;
}

static inline float element_of(const planted_line *line, int64_t k)
{
    const char *at = line->first + k * line->step;
    float value;
    uint16_t half;
    switch (line->type) {
    case KILN_F32:
        memcpy(&value, at, sizeof value);
        return value;
    case KILN_F16:
        memcpy(&half, at, sizeof half);
        return kiln_f32_from_f16(half);
    default:
        return (float)*(const int8_t *)at;
    }
}

static double flushed(double value)
{
    return fabs(value) < 0x1p-126 ? 0 : value;
}

/* From which end the sum is made: always from the first, where the plugin is right. */
static bool is_reversed(const planted_product *self)
{
    const kiln_tensor *d = &self->tensors[KILN_GEMM_D];
    return (planted(BITS_BY_ROWS) && d->shape[d->rank - 2] > 8) ||
           (planted(BITS_BY_ADDRESS) && (uintptr_t)self->addresses[KILN_GEMM_A] % 64 != 0) ||
           (planted(BITS_BY_BATCH) && d->rank == 3) ||
           (planted(BITS_BY_THREADS) && self->threads > 1) ||
           (planted(BITS_BY_SHARE) && self->share > 0) ||
           (planted(PACKED_OTHERWISE) && (self->desc->head.flags & KILN_GEMM_PACKED_B));
}

static double sum_of(const planted_product *self, int64_t entry, int64_t i, int64_t j,
                     int64_t depth)
{
    planted_line left = {NULL, 0, 0}, right = left;
    if (depth > 0) {
        left = line_of(self, KILN_GEMM_A, entry, i);
        right = line_of(self, KILN_GEMM_B, entry, j);
    }
    if (planted(TRANSPOSED_ODD_K) && (self->desc->head.flags & KILN_GEMM_TRANSPOSE_A) && depth % 2)
        depth--;
    if (self->desc->a_type == KILN_I8) {
        int32_t sum = 0;
        for (int64_t k = 0; k < depth; k++)
            sum += (int32_t)element_of(&left, k) * (int32_t)element_of(&right, k);
        return sum;
    }
    bool reversed = is_reversed(self);
    float sum = 0;
    for (int64_t k = 0; k < depth; k++) {
        int64_t at = reversed ? depth - 1 - k : k;
        float a = element_of(&left, at), b = element_of(&right, at);
        if (planted(FLUSHES_DENORMALS))
            a = (float)flushed((double)a);
        sum += a * b;
    }
    return (double)sum;
}

/* ---- After the product ---- */

static double rounded(const planted_product *self, double value)
{
    return self->desc->d_type == KILN_I32 ? value : (double)(float)value;
}

static double operand_of(const planted_product *self, uint32_t index, int64_t entry, int64_t i,
                         int64_t j)
{
    const kiln_tensor *tensor = &self->tensors[KILN_GEMM_OPERAND + index];
    const char *line = self->addresses[KILN_GEMM_OPERAND + index];
    kiln_tensor as_f16;
    if (planted(TAKES_BF16_FOR_F16) && tensor->type == KILN_BF16 &&
        self->desc->epilogues[index].operand != KILN_OPERAND_MATRIX) {
        as_f16 = *tensor;
        as_f16.type = KILN_F16;
        tensor = &as_f16;
    }
    switch (self->desc->epilogues[index].operand) {
    case KILN_OPERAND_ROW:
        return kiln_load_f64(tensor->type, line,
                             (tensor->rank == 2 ? entry * tensor->strides[0] : 0) + j);
    case KILN_OPERAND_COLUMN:
        return kiln_load_f64(tensor->type, line,
                             (tensor->rank == 2 ? entry * tensor->strides[0] : 0) + i);
    case KILN_OPERAND_MATRIX:
        return load(self, KILN_GEMM_OPERAND + index, tensor->rank == 3 ? entry : 0, i, j);
    default:
        return kiln_load_f64(tensor->type, line,
                             tensor->rank == 2 ? entry * tensor->strides[0] : 0);
    }
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
    default: /* SILU */
        return v == -(double)INFINITY ? -0.0 : v / (1 + exp(-v));
    }
}

static void finish(const planted_product *self, int64_t entry, int64_t i, int64_t j, double value)
{
    const kiln_gemm_desc *desc = self->desc;
    double alpha = rounded(self, self->args.alpha), beta = rounded(self, self->args.beta);
    const kiln_tensor *d = &self->tensors[KILN_GEMM_D];
    value = rounded(self, rounded(self, value) * alpha);
    if (planted(CLEARS_D_FIRST) && self->addresses[KILN_GEMM_C] == self->addresses[KILN_GEMM_D])
        kiln_store_f64(d->type, self->addresses[KILN_GEMM_D],
                       element_at(self, KILN_GEMM_D, entry, i, j), 0, 0);
    bool with_c = desc->c_type != KILN_TYPE_NONE && (beta != 0 || planted(READS_C));
    if (with_c && self->addresses[KILN_GEMM_C]) {
        double c = rounded(self, load(self, KILN_GEMM_C, entry, i, j));
        value = rounded(self, value + rounded(self, c * beta));
        if (planted(BETA_TWICE) && beta != 1)
            value = rounded(self, value + rounded(self, c * beta) * (beta - 1));
    }
    for (uint32_t k = 0; k < desc->epilogue_count; k++) {
        uint32_t at = planted(EPILOGUES_REVERSED) ? desc->epilogue_count - 1 - k : k;
        double x = desc->epilogues[at].operand ? operand_of(self, at, entry, i, j) : 0;
        value = (double)(float)apply(&desc->epilogues[at], (double)(float)value, x);
    }
    int64_t element = i * d->strides[d->rank - 2] + j + (d->rank == 3 ? entry * d->strides[0] : 0);
    bool saturates = (desc->head.flags & KILN_GEMM_SATURATE) && !planted(NEVER_SATURATES);
    kiln_store_f64(d->type, self->addresses[KILN_GEMM_D], element, value,
                   saturates ? KILN_SATURATE : 0);
    if (planted(WRITES_GAPS) && j == d->shape[d->rank - 1] - 1 &&
        d->strides[d->rank - 2] > d->shape[d->rank - 1] && i + 1 < d->shape[d->rank - 2])
        kiln_store_f64(d->type, self->addresses[KILN_GEMM_D], element + 1, 0, 0);
}

static void compute_row(const planted_product *self, int64_t entry, int64_t i)
{
    const kiln_tensor *a = &self->tensors[KILN_GEMM_A], *d = &self->tensors[KILN_GEMM_D];
    bool transposed = self->desc->head.flags & KILN_GEMM_TRANSPOSE_A;
    int64_t columns = d->shape[d->rank - 1],
            depth = self->args.alpha != 0 || planted(READS_A)
                        ? a->shape[transposed ? a->rank - 2 : a->rank - 1]
                        : 0;
    double piece[PLANTED_PIECE], *sums = self->sums ? self->sums : piece;
    int64_t width = self->room;
    if (planted(FORGETS_EMPTY_SUMS) && a->shape[transposed ? a->rank - 2 : a->rank - 1] == 0)
        return;
    if (planted(LOSES_LAST_COLUMN) && columns < self->desc->n)
        columns -= columns > 2;
    if (planted(READS_BEYOND_A) && depth > 0) {
        volatile char last = self->addresses[KILN_GEMM_A][planted_span(a)];
        (void)last;
    }
    for (int64_t first = 0; first < columns; first += width) {
        int64_t count = columns - first < width ? columns - first : width;
        for (int64_t j = 0; j < count; j++)
            sums[j] = sum_of(self, entry, i, first + j, depth);
        if (planted(SHARED_SCRATCH))
            sched_yield(); /* as if the kernel were larger: the others get their turn */
        for (int64_t j = 0; j < count; j++)
            finish(self, entry, i, first + j, sums[j]);
    }
}

void planted_compute(const planted_product *self)
{
    const kiln_tensor *d = &self->tensors[KILN_GEMM_D];
    int64_t rows = d->shape[d->rank - 2];
    int rounding = fegetround();
    if (planted(CHANGES_ROUNDING)) /* it knows about itself, but not about its callers */
        fesetround(FE_TONEAREST);
    for (int64_t row = self->begin; row < self->end; row++)
        if (!(planted(WRONG_TAIL) && rows % 64 == 63 && row % rows == rows - 1))
            compute_row(self, row / rows, row % rows);
    if (planted(CHANGES_ROUNDING))
        fesetround(rounding);
}

int64_t planted_span(const kiln_tensor *tensor)
{
    int64_t last = 0;
    for (uint32_t i = 0; i < tensor->rank; i++) {
        if (tensor->shape[i] == 0)
            return 0;
        last += (tensor->shape[i] - 1) * tensor->strides[i];
    }
    return (last + 1) * kiln_type_bits(tensor->type) / 8;
}
