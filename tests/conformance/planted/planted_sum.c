/* SPDX-License-Identifier: Apache-2.0 */
/* Sums of products along k, and what can be wrong with them. Each run of k in which the scales do
 * not change is one loop in f32 (i32 for integers), so that its bits depend on nothing else. */
#include "planted_gemm.h"

#include <math.h>

int64_t planted_element_at(const planted_product *self, uint32_t slot, int64_t matrix, int64_t row,
                           int64_t column)
{
    const kiln_tensor *tensor = &self->tensors[slot];
    uint32_t last = tensor->rank - 1;
    int64_t stride = tensor->strides[last - 1], matrix_stride = tensor->strides[0];
    if (planted(IGNORES_STRIDE) && slot == KILN_GEMM_B)
        stride = tensor->shape[last];
    if (planted(IGNORES_SCALE_STRIDE) && slot >= PLANTED_SCALE && tensor->strides[last] == 1)
        stride = tensor->shape[last];
    if (planted(IGNORES_BROADCAST) && matrix_stride == 0)
        matrix_stride = tensor->shape[1] * stride;
    return row * stride + column * tensor->strides[last] +
           (tensor->rank == 3 ? matrix * matrix_stride : 0);
}

/* ---- Lines along k ---- */

/* Scales, or zero points, of a line: element k / block. */
typedef struct planted_grid {
    const char *first; /* NULL = there are none */
    uint32_t type;
    int64_t block, step;
} planted_grid;

/* A row of op(A) or a column of op(B). */
typedef struct planted_line {
    const char *first;
    int64_t step; /* in bytes */
    uint32_t type;
    planted_grid scale, zero_point;
} planted_line;

static planted_grid grid_of(const planted_product *self, uint32_t slot, const int32_t block[2],
                            int64_t matrix, int64_t index, bool along_row)
{
    const kiln_tensor *tensor = &self->tensors[slot];
    planted_grid grid = {.type = tensor->type, .block = INT64_MAX};
    if (tensor->type == KILN_TYPE_NONE)
        return grid;
    int64_t across = block[!along_row], at = across > 0 ? index / across : 0;
    if (block[along_row] > 0)
        grid.block = block[along_row];
    grid.step = tensor->strides[along_row ? tensor->rank - 1 : tensor->rank - 2];
    grid.first = self->addresses[slot] +
                 planted_element_at(self, slot, matrix, along_row ? at : 0, along_row ? 0 : at) *
                     kiln_type_bits(tensor->type) / 8;
    return grid;
}

static double grid_value(const planted_grid *self, int64_t k, double otherwise)
{
    return self->first ? kiln_load_f64(self->type, self->first, k / self->block * self->step)
                       : otherwise;
}

/* Where the value at k ends. */
static int64_t grid_end(const planted_grid *self, int64_t k, int64_t end)
{
    return self->first && end - k > self->block - k % self->block
               ? k + self->block - k % self->block
               : end;
}

static planted_line line_of(const planted_product *self, uint32_t slot, int64_t matrix,
                            int64_t index)
{
    const kiln_gemm_desc *desc = self->desc;
    bool is_a = slot == KILN_GEMM_A,
         transposed = desc->head.flags & (is_a ? KILN_GEMM_TRANSPOSE_A : KILN_GEMM_TRANSPOSE_B);
    bool along_row = transposed != is_a;
    const int32_t *block = is_a ? desc->a_quantization.block : desc->b_quantization.block;
    uint32_t type = self->tensors[slot].type;
    int64_t size = kiln_type_bits(type) / 8,
            start = planted_element_at(self, slot, matrix, along_row ? index : 0,
                                       along_row ? 0 : index);
    planted_line line = {self->addresses[slot] + start * size, size, type,
                         grid_of(self, PLANTED_SCALE + slot, block, matrix, index, along_row),
                         grid_of(self, PLANTED_ZERO_POINT + slot, block, matrix, index, along_row)};
    if (!along_row)
        line.step = (planted_element_at(self, slot, matrix, 1, 0) -
                     planted_element_at(self, slot, matrix, 0, 0)) *
                    size;
    if (planted(ASSUMES_64) && is_a && desc->a_alignment >= 16)
        line.first -= (uintptr_t)line.first % 64;
    if (planted(DROPS_OFFSET) && is_a && type == KILN_F32)
        line.first -= (uintptr_t)line.first % 4;
    return line;
}

/* An f16 of the same bits is 256 times less. */
static inline float from_e4m3(uint8_t code)
{
    if ((code & 0x7f) == 0x7f)
        return NAN;
    return 256 * kiln_f32_from_f16((uint16_t)((code & 0x80) << 8 | (code & 0x7f) << 7));
}

static inline float stored(const planted_line *line, int64_t k)
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
    case KILN_E4M3:
        return from_e4m3(*(const uint8_t *)at);
    case KILN_U8:
        return *(const uint8_t *)at;
    default:
        return *(const int8_t *)at;
    }
}

/* Without its scale. */
static inline float element_of(const planted_line *line, int64_t k)
{
    float value = stored(line, k);
    bool ignored = planted(ZERO_POINT_IGNORED) && k >= line->zero_point.block;
    if (line->zero_point.first && !ignored)
        value -= (float)grid_value(&line->zero_point, k, 0);
    return value;
}

static double scale_at(const planted_line *line, int64_t k)
{
    if (planted(SCALE_OFF_BY_BLOCK) && k >= line->scale.block)
        k -= line->scale.block;
    return grid_value(&line->scale, k, 1);
}

/* ---- Sums ---- */

static double flushed(double value)
{
    return fabs(value) < 0x1p-126 ? 0 : value;
}

/* From which end a run is summed: always from the first, where the plugin is right. */
static bool is_reversed(const planted_product *self)
{
    const kiln_tensor *d = &self->tensors[KILN_GEMM_D];
    return (planted(BITS_BY_ROWS) && self->m > 8) ||
           (planted(BITS_BY_ADDRESS) && (uintptr_t)self->addresses[KILN_GEMM_A] % 64 != 0) ||
           (planted(BITS_BY_BATCH) && d->rank == 3) ||
           (planted(BITS_BY_THREADS) && self->threads > 1) ||
           (planted(BITS_BY_SHARE) && self->share > 0) ||
           (planted(PACKED_OTHERWISE) && (self->desc->head.flags & KILN_GEMM_PACKED_B));
}

static double sum_of_integers(const planted_line *left, const planted_line *right, int64_t k,
                              int64_t end)
{
    int32_t sum = 0;
    for (; k < end; k++)
        sum += (int32_t)element_of(left, k) * (int32_t)element_of(right, k);
    return sum;
}

static double sum_of_floats(const planted_line *left, const planted_line *right, int64_t k,
                            int64_t end, bool reversed)
{
    float sum = 0;
    for (int64_t i = k; i < end; i++) {
        int64_t at = reversed ? end - 1 - (i - k) : i;
        float a = element_of(left, at), b = element_of(right, at);
        if (planted(FLUSHES_DENORMALS))
            a = (float)flushed((double)a);
        sum += a * b;
    }
    return (double)sum;
}

double planted_sum(const planted_product *self, const planted_place *place, int64_t j)
{
    int64_t k = place->k, end = place->end_of_k;
    double sum = 0;
    if (planted(TRANSPOSED_ODD_K) && (self->desc->head.flags & KILN_GEMM_TRANSPOSE_A) &&
        self->k % 2 && end == self->k)
        end--;
    if ((self->args.alpha == 0 && !planted(READS_A)) || k >= end)
        return 0;
    planted_line left = line_of(self, KILN_GEMM_A, place->a, place->row),
                 right = line_of(self, KILN_GEMM_B, place->b, j);
    bool integers = planted_sum_type(self->desc) == KILN_I32, reversed = is_reversed(self);
    while (k < end) {
        int64_t end_of_run = grid_end(&left.scale, k, grid_end(&right.scale, k, end));
        double run = integers ? sum_of_integers(&left, &right, k, end_of_run)
                              : sum_of_floats(&left, &right, k, end_of_run, reversed);
        sum += run * (scale_at(&left, k) * scale_at(&right, k));
        k = end_of_run;
    }
    return sum;
}
