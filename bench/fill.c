/* SPDX-License-Identifier: Apache-2.0 */
/* What the operands of a measured GEMM hold. */
#include "bench/fill.h"

#include <string.h>

#include "conformance/random.h"

enum { CODES = 4096 };

static void fill_bytes(const kiln_tensor *tensor, uint64_t seed)
{
    uint8_t *bytes = tensor->data;
    for (int64_t i = 0, end = bench_tensor_bytes(tensor); i < end; i++)
        bytes[i] = (uint8_t)(conformance_random(&seed) >> 32);
}

/* Narrow types take their codes from a table of random ones, since rounding each value singly would
 * take longer than many a measurement; of those whose every code is a number, any code will do. */
void bench_fill(const kiln_tensor *tensor, uint64_t seed)
{
    int64_t count = kiln_tensor_elements(tensor);
    if (tensor->type == KILN_F32) {
        float *values = tensor->data;
        for (int64_t i = 0; i < count; i++)
            values[i] = (float)((int32_t)(conformance_random(&seed) >> 32)) * 0x1p-31f;
        return;
    }
    int bits = kiln_type_bits(tensor->type);
    if (bits < 8 || tensor->type == KILN_U8) {
        fill_bytes(tensor, seed);
        return;
    }
    if (bits != 16 && bits != 8) {
        for (int64_t i = 0; i < count; i++)
            kiln_store_f64(tensor->type, tensor->data, i, conformance_random_unit(&seed), 0);
        return;
    }
    uint16_t codes[CODES];
    double range = tensor->type == KILN_I8 ? 127 : 1;
    memset(codes, 0, sizeof codes);
    for (int i = 0; i < CODES; i++)
        kiln_store_f64(tensor->type, &codes[i], 0, conformance_random_unit(&seed) * range, 0);
    uint8_t *bytes = tensor->data;
    for (int64_t i = 0; i < count; i++)
        memcpy(bytes + i * (bits / 8), &codes[conformance_random(&seed) % CODES], (size_t)bits / 8);
}

void bench_fill_scales(const kiln_tensor *tensor, uint64_t seed)
{
    int64_t count = kiln_tensor_elements(tensor);
    for (int64_t i = 0; i < count; i++)
        kiln_store_f64(tensor->type, tensor->data, i, 1.25 + 0.75 * conformance_random_unit(&seed),
                       0);
}

/* How much of an extent each group gets, so that all begin where the descriptor promises. */
static int64_t group_share(const kiln_gemm_desc *desc, int64_t extent, int64_t step)
{
    int64_t share = extent / desc->groups + (extent % desc->groups != 0);
    int64_t steps = share / step + (share % step != 0);
    return steps > 0 && steps <= INT64_MAX / step ? steps * step : step;
}

void bench_fill_groups(const kiln_gemm_desc *desc, const kiln_tensor *tensor)
{
    int64_t step = desc->group_alignment > 0 ? desc->group_alignment : 1;
    int64_t extent = desc->grouping == KILN_GROUPING_K ? desc->k / step * step : desc->m;
    int64_t share = group_share(desc, extent, step), count = kiln_tensor_elements(tensor);
    int32_t *groups = tensor->data;
    for (int64_t i = 0; i < count; i++) {
        int64_t group = i / share, end;
        if (desc->grouping == KILN_GROUPING_MASKED)
            groups[i] = (int32_t)desc->m;
        else if (desc->grouping == KILN_GROUPING_CONTIGUOUS)
            groups[i] = (int32_t)(group < desc->groups ? group : desc->groups - 1);
        else
            groups[i] =
                (int32_t)(__builtin_mul_overflow(i + 1, share, &end) || end > extent ? extent
                                                                                     : end);
    }
}
