/* SPDX-License-Identifier: Apache-2.0 */
/* Views of A and B, strided and packed, and their blocks as double. */
#include "plugins/ref/ref.h"

ref_operand ref_operand_strided(const kiln_tensor *tensor, char *data, uint32_t slot,
                                bool transposed)
{
    bool rows_first = ref_rows_first(slot, transposed);
    uint32_t first = tensor->rank - 2, rows = first + !rows_first, depth = first + rows_first;
    int64_t panel = slot == KILN_GEMM_A ? REF_ROWS : REF_COLUMNS;
    int64_t entries = tensor->rank == 3 ? tensor->shape[0] : 1;
    /* The stride of a single row says nothing, and may be anything. */
    int64_t row_stride = tensor->shape[rows] > 1 ? tensor->strides[rows] : 0;
    ref_operand operand = {
        .data = data,
        .type = tensor->type,
        .panel = panel,
        .entries = entries,
        .rows = tensor->shape[rows],
        .depth = tensor->shape[depth],
        .entry_stride = entries == 1 ? 0 : tensor->strides[0],
        .panel_stride = panel * row_stride,
        .row_stride = row_stride,
        .depth_stride = tensor->strides[depth],
    };
    return operand;
}

ref_operand ref_operand_packed(const kiln_tensor *tensor, char *data, uint32_t slot,
                               bool transposed)
{
    ref_operand operand = ref_operand_strided(tensor, data, slot, transposed);
    operand.row_stride = 1;
    operand.depth_stride = operand.panel;
    operand.panel_stride = operand.depth * operand.panel;
    operand.entry_stride = operand.entries == 1 /* one entry serves any batch */
                               ? 0
                               : ref_divide_up(operand.rows, operand.panel) * operand.panel_stride;
    return operand;
}

int64_t ref_operand_index(const ref_operand *operand, int64_t entry, int64_t row, int64_t k)
{
    return entry * operand->entry_stride + row / operand->panel * operand->panel_stride +
           row % operand->panel * operand->row_stride + k * operand->depth_stride;
}

/* (stored - zero point) * scale, over the runs of k in which neither changes. */
static void dequantise(const ref_operand *operand, int64_t entry, const ref_rows *rows, int64_t k,
                       int64_t depth, double *block)
{
    double zero[REF_COLUMNS], scale[REF_COLUMNS];
    for (int64_t i = 0, end; i < depth; i = end) {
        end = ref_smaller(depth, ref_smaller(ref_grid_run_end(&operand->zero, k + i),
                                             ref_grid_run_end(&operand->scale, k + i)) -
                                     k);
        ref_grid_load(&operand->zero, entry, rows, k + i, 0, zero);
        ref_grid_load(&operand->scale, entry, rows, k + i, 1, scale);
        for (int64_t j = i; j < end; j++)
            for (int64_t r = 0; r < rows->count; r++) {
                double *value = &block[j * operand->panel + r];
                *value = (*value - zero[r]) * scale[r];
            }
    }
}

void ref_operand_load(const ref_operand *operand, int64_t entry, const ref_rows *rows, int64_t k,
                      int64_t depth, int64_t steps, double *block)
{
    int64_t width = operand->panel;
    if (rows->count < width || depth < steps)
        memset(block, 0, (size_t)(steps * width) * sizeof *block);
    /* Along the unit stride, so that memory is read in order. */
    if (rows->list || operand->depth_stride == 1)
        for (int64_t r = 0; r < rows->count; r++)
            ref_elements_load(operand->type, operand->data,
                              ref_operand_index(operand, entry, ref_row(rows, r), k),
                              operand->depth_stride, depth, block + r, width);
    else
        for (int64_t i = 0; i < depth; i++)
            ref_elements_load(operand->type, operand->data,
                              ref_operand_index(operand, entry, rows->first, k + i),
                              operand->row_stride, rows->count, block + i * width, 1);
    if (operand->zero.data || operand->scale.data)
        dequantise(operand, entry, rows, k, depth, block);
}
