/* SPDX-License-Identifier: Apache-2.0 */
/* The transfer engines MTE1, MTE2 and MTE3. */
#include "plugins/npu/units.h"

/* One row of `bytes` bytes into columns of 32 bytes; the last column is filled up with zeros. */
static void scatter_row(uint8_t *first, int64_t column_bytes, const uint8_t *row, int64_t bytes)
{
    while (bytes >= NPU_GRANULE) {
        memcpy(first, row, NPU_GRANULE);
        first += column_bytes;
        row += NPU_GRANULE;
        bytes -= NPU_GRANULE;
    }
    if (bytes) {
        memcpy(first, row, (size_t)bytes);
        memset(first + bytes, 0, (size_t)(NPU_GRANULE - bytes));
    }
}

static void gather_row(uint8_t *row, const uint8_t *first, int64_t column_bytes, int64_t bytes)
{
    for (int64_t done = 0; done < bytes; done += NPU_GRANULE, first += column_bytes)
        memcpy(row + done, first,
               (size_t)(bytes - done < NPU_GRANULE ? bytes - done : NPU_GRANULE));
}

void npu_copy_in(struct npu_core *core, const struct npu_copy *copy, const int64_t *registers)
{
    int64_t rows = npu_value_of(copy->rows, registers);
    int64_t bytes = npu_value_of(copy->columns, registers) * npu_type_bytes(copy->type);
    int64_t stride = npu_value_of(copy->stride, registers);
    int64_t padded = npu_round_up(bytes, NPU_GRANULE);
    uint8_t *local = core->local[copy->memory] + copy->local;
    const uint8_t *global = npu_global_at(core->global, npu_copy_address(copy, registers));
    if (copy->layout == NPU_ROWS) {
        for (int64_t row = 0; row < rows; row++) {
            uint8_t *to = local + row * copy->pitch;
            memcpy(to, global + row * stride, (size_t)bytes);
            memset(to + bytes, 0, (size_t)(padded - bytes));
        }
        return;
    }
    int64_t column_bytes = copy->pitch * NPU_GRANULE;
    int64_t missing = npu_round_up(rows, copy->row_multiple) - rows;
    for (int64_t row = 0; row < rows; row++)
        scatter_row(local + row * NPU_GRANULE, column_bytes, global + row * stride, bytes);
    for (int64_t column = 0; column < padded / NPU_GRANULE; column++)
        memset(local + column * column_bytes + rows * NPU_GRANULE, 0,
               (size_t)(missing * NPU_GRANULE));
}

void npu_copy_out(struct npu_core *core, const struct npu_copy *copy, const int64_t *registers)
{
    int64_t rows = npu_value_of(copy->rows, registers);
    int64_t bytes = npu_value_of(copy->columns, registers) * npu_type_bytes(copy->type);
    int64_t stride = npu_value_of(copy->stride, registers);
    const uint8_t *local = core->local[copy->memory] + copy->local;
    uint8_t *global = npu_global_at(core->global, npu_copy_address(copy, registers));
    for (int64_t row = 0; row < rows; row++) {
        if (copy->layout == NPU_ROWS)
            memcpy(global + row * stride, local + row * copy->pitch, (size_t)bytes);
        else
            gather_row(global + row * stride, local + row * NPU_GRANULE, copy->pitch * NPU_GRANULE,
                       bytes);
    }
}

/* A whole column of fractals at a time: both sides hold 16 rows of 32 bytes in one piece. */
static void load_straight(uint8_t *to, const uint8_t *from, int64_t pitch, int64_t extent,
                          int64_t columns)
{
    for (int64_t outer = 0; outer < extent / NPU_FRACTAL_ROWS; outer++)
        for (int64_t column = 0; column < columns; column++) {
            memcpy(to, from + column * pitch * NPU_GRANULE + outer * NPU_FRACTAL_BYTES,
                   NPU_FRACTAL_BYTES);
            to += NPU_FRACTAL_BYTES;
        }
}

/* Where element (outer, k) lies among the fractals of an operand; `across` elements in 32 bytes. */
static inline int64_t operand_index(int64_t outer, int64_t k, int64_t depth, int64_t across)
{
    int64_t fractal = outer / NPU_FRACTAL_ROWS * (depth / across) + k / across;
    return (fractal * NPU_FRACTAL_ROWS + outer % NPU_FRACTAL_ROWS) * across + k % across;
}

static void load_transposed_16(uint16_t *to, const uint16_t *from, int64_t pitch, int64_t extent,
                               int64_t depth)
{
    for (int64_t k = 0; k < depth; k++)
        for (int64_t outer = 0; outer < extent; outer++)
            to[operand_index(outer, k, depth, 16)] =
                from[(outer / 16 * pitch + k) * 16 + outer % 16];
}

static void load_transposed_8(uint8_t *to, const uint8_t *from, int64_t pitch, int64_t extent,
                              int64_t depth)
{
    for (int64_t k = 0; k < depth; k++)
        for (int64_t outer = 0; outer < extent; outer++)
            to[operand_index(outer, k, depth, 32)] =
                from[(outer / 32 * pitch + k) * 32 + outer % 32];
}

void npu_load(struct npu_core *core, const struct npu_load *load, const int64_t *registers)
{
    int64_t extent = npu_round_up(npu_value_of(load->extent, registers), NPU_FRACTAL_ROWS);
    int64_t k = npu_round_up(npu_value_of(load->k, registers), npu_across(load->type));
    int64_t size = npu_type_bytes(load->type);
    uint8_t *to = core->local[load->memory] + load->destination;
    const uint8_t *from = core->local[NPU_L1] + load->source;
    if (!load->transpose)
        load_straight(to, from, load->pitch, extent, k * size / NPU_GRANULE);
    else if (size == 2)
        load_transposed_16((uint16_t *)(void *)to, (const uint16_t *)(const void *)from,
                           load->pitch, extent, k);
    else
        load_transposed_8(to, from, load->pitch, extent, k);
}
