/* SPDX-License-Identifier: Apache-2.0 */
/* The naive plugin: elements of tensors, and what scales those of A and B. */
#include "tests/conformance/naive_parts.h"

static char *place(const naive_run *run, const kiln_tensor *tensor, int64_t lead, uint32_t own,
                   int64_t row, int64_t column, int64_t *index)
{
    int64_t bits = kiln_type_bits(tensor->type), element = 0;
    if (tensor->rank > own)
        element += lead * tensor->strides[0];
    if (own == 2)
        element += row * tensor->strides[tensor->rank - 2];
    *index = column * tensor->strides[tensor->rank - 1];
    return kiln_tensor_address(run->instance->host, tensor) + element * bits / 8;
}

double naive_load(const naive_run *run, const kiln_tensor *tensor, int64_t lead, uint32_t own,
                  int64_t row, int64_t column)
{
    int64_t index;
    const char *memory = place(run, tensor, lead, own, row, column, &index);
    return kiln_load_f64(tensor->type, memory, index);
}

void naive_store(const naive_run *run, const kiln_tensor *tensor, int64_t lead, uint32_t own,
                 int64_t row, int64_t column, double value, int flags)
{
    int64_t index;
    char *memory = place(run, tensor, lead, own, row, column, &index);
    kiln_store_f64(tensor->type, memory, index, value, flags);
}

/* Block of element `at`. */
static int64_t block(int64_t at, int64_t size)
{
    return size > 0 ? at / size : 0;
}

/* Element (row, column) of A or B as stored, without its zero point, and its scale. */
static double load_quantized(const naive_run *run, uint32_t slot, int64_t lead, int64_t row,
                             int64_t column, double *scale)
{
    const kiln_tensor *tensor = &run->tensors[slot];
    int64_t down = block(row, tensor->scale_block[0]),
            right = block(column, tensor->scale_block[1]);
    double value = naive_load(run, tensor, lead, 2, row, column);
    *scale = 1;
    if (slot == KILN_GEMM_A && naive_is_mistake(run, NAIVE_WRONG_SCALE))
        down = right = 0;
    if (tensor->scale)
        *scale = naive_load(run, tensor->scale, lead, 2, down, right);
    if (tensor->zero_point && !(slot == KILN_GEMM_B && naive_is_mistake(run, NAIVE_NO_ZERO_POINT)))
        value -= naive_load(run, tensor->zero_point, lead, 2, down, right);
    return value;
}

void naive_load_operand(const naive_run *run, uint32_t slot, int64_t lead, int64_t across,
                        int64_t begin, int64_t end, int64_t step, double *values, double *scales)
{
    bool k_is_row = slot == KILN_GEMM_A ? run->desc->head.flags & KILN_GEMM_TRANSPOSE_A
                                        : !(run->desc->head.flags & KILN_GEMM_TRANSPOSE_B);
    for (int64_t k = begin; k < end; k++)
        values[k * step] = load_quantized(run, slot, lead, k_is_row ? k : across,
                                          k_is_row ? across : k, &scales[k * step]);
}
