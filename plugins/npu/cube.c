/* SPDX-License-Identifier: Apache-2.0 */
/* The cube unit: blocks of 16 by 16 accumulators, k ascending. */
#include "plugins/npu/units.h"

#include <stdlib.h>

#define SIDE NPU_FRACTAL_ROWS

/* Products of i8 are at most 2^14 in magnitude, so this many sum up exactly in a float. */
#define EXACT_I8_DEPTH 1024

/* One 32-byte row of a fractal, as floats, into every 16th place from `to`. */
static void widen_row(float *to, const uint8_t *row, enum npu_type type)
{
    if (type == NPU_I8) {
        for (int k = 0; k < NPU_GRANULE; k++)
            to[k * SIDE] = (float)(int8_t)row[k];
        return;
    }
    uint16_t bits[NPU_GRANULE / 2];
    memcpy(bits, row, sizeof bits);
    for (int k = 0; k < NPU_GRANULE / 2; k++)
        to[k * SIDE] = type == NPU_F16 ? npu_f16_to_f32(bits[k]) : npu_bf16_to_f32(bits[k]);
}

/* Fractals of an operand to panels of 16: element (outer, k) at (outer / 16 * depth + k) * 16 +
   outer % 16. */
static void widen(float *to, const uint8_t *from, enum npu_type type, int64_t extent, int64_t depth)
{
    int64_t across = npu_across(type);
    for (int64_t panel = 0; panel < extent / SIDE; panel++)
        for (int64_t k = 0; k < depth; k += across)
            for (int64_t row = 0; row < SIDE; row++, from += NPU_GRANULE)
                widen_row(to + (panel * depth + k) * SIDE + row, from, type);
}

/* Adds `depth` products to 4 by 8 accumulators, which stay in registers meanwhile; each sums in the
   order of k. */
static void accumulate_4x8(float *c, const float *a, const float *b, int64_t depth)
{
    float sum[4][8];
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < 8; j++)
            sum[i][j] = c[i * SIDE + j];
    for (int64_t k = 0; k < depth; k++, a += SIDE, b += SIDE)
        for (int i = 0; i < 4; i++)
            for (int j = 0; j < 8; j++)
                sum[i][j] += a[i] * b[j];
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < 8; j++)
            c[i * SIDE + j] = sum[i][j];
}

static void accumulate(float *c, const float *a, const float *b, int64_t depth)
{
    for (int i = 0; i < SIDE; i += 4)
        for (int j = 0; j < SIDE; j += 8)
            accumulate_4x8(c + i * SIDE + j, a + i, b + j, depth);
}

static void accumulate_i8(int32_t *c, const float *a, const float *b, int64_t depth)
{
    for (int64_t k = 0; k < depth; k += EXACT_I8_DEPTH) {
        float sum[SIDE * SIDE] = {0};
        int64_t part = depth - k < EXACT_I8_DEPTH ? depth - k : EXACT_I8_DEPTH;
        accumulate(sum, a + k * SIDE, b + k * SIDE, part);
        for (int i = 0; i < SIDE * SIDE; i++)
            c[i] = (int32_t)((uint32_t)c[i] + (uint32_t)(int32_t)sum[i]); /* wraps */
    }
}

void npu_multiply(struct npu_core *core, const struct npu_multiply *multiply,
                  const int64_t *registers)
{
    int64_t m = npu_round_up(npu_value_of(multiply->m, registers), SIDE);
    int64_t n = npu_round_up(npu_value_of(multiply->n, registers), SIDE);
    int64_t depth = npu_round_up(npu_value_of(multiply->k, registers), npu_across(multiply->type));
    widen(core->left, core->local[NPU_L0A] + multiply->a, multiply->type, m, depth);
    widen(core->right, core->local[NPU_L0B] + multiply->b, multiply->type, n, depth);
    for (int64_t j = 0; j < n / SIDE; j++)
        for (int64_t i = 0; i < m / SIDE; i++) {
            uint8_t *c =
                core->local[NPU_L0C] + multiply->c + (j * multiply->pitch + i * SIDE) * SIDE * 4;
            const float *a = core->left + i * depth * SIDE;
            const float *b = core->right + j * depth * SIDE;
            if (!multiply->accumulate)
                memset(c, 0, SIDE * SIDE * 4);
            if (multiply->type == NPU_I8)
                accumulate_i8((int32_t *)(void *)c, a, b, depth);
            else
                accumulate((float *)(void *)c, a, b, depth);
        }
}

int npu_core_open(struct npu_core *core, struct npu_global *global, const struct npu_config *config)
{
    memset(core, 0, sizeof *core);
    core->global = global;
    for (int memory = NPU_L1; memory < NPU_MEMORIES; memory++) {
        size_t bytes = (size_t)npu_round_up(config->size[memory], 64);
        core->local[memory] = aligned_alloc(64, bytes);
        if (!core->local[memory])
            return -1;
        memset(core->local[memory], 0, bytes);
    }
    /* An operand of i8 has as many elements as its memory has bytes. */
    core->left = malloc((size_t)config->size[NPU_L0A] * sizeof *core->left);
    core->right = malloc((size_t)config->size[NPU_L0B] * sizeof *core->right);
    return core->left && core->right ? 0 : -1;
}

void npu_core_close(struct npu_core *core)
{
    for (int memory = 0; memory < NPU_MEMORIES; memory++)
        free(core->local[memory]);
    free(core->left);
    free(core->right);
    memset(core, 0, sizeof *core);
}
