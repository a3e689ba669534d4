/* SPDX-License-Identifier: Apache-2.0 */
/* Reading elements, scales and zero points where they lie. */
#include "conformance/gemm/operand.h"

double conformance_view_at(const matrix_view *view, int64_t lead, int64_t row, int64_t column)
{
    int bits = kiln_type_bits(view->type);
    int64_t line = lead * view->lead_stride + row * view->row_stride;
    if (bits < 8) /* packed along columns; every row begins on a byte */
        return kiln_load_f64(view->type, view->data + line * bits / 8, column);
    return kiln_load_f64(view->type,
                         view->data + (line + column * view->column_stride) * (bits / 8), 0);
}

bool conformance_view_of(const kiln_tensor *tensor, uint32_t shape, matrix_view *view)
{
    const char *base = tensor->buffer ? kiln_buffer_host(tensor->buffer) : tensor->data;
    bool matrix = shape == KILN_OPERAND_MATRIX;
    uint32_t own = matrix ? 2 : 1, last = tensor->rank - 1;
    int bits = kiln_type_bits(tensor->type);
    if (!base || tensor->layout != KILN_LAYOUT_STRIDED || tensor->rank < own ||
        tensor->rank > own + 1 || bits == 0 || (bits < 8 && tensor->strides[last] != 1))
        return false;
    view->data = base + tensor->byte_offset;
    view->type = tensor->type;
    view->lead_stride = tensor->rank > own ? tensor->strides[0] : 0;
    view->row_stride = matrix                         ? tensor->strides[last - 1]
                       : shape == KILN_OPERAND_COLUMN ? tensor->strides[last]
                                                      : 0;
    view->column_stride = matrix || shape == KILN_OPERAND_ROW ? tensor->strides[last] : 0;
    return true;
}

static bool has_shape(const kiln_tensor *tensor, int64_t rows, int64_t columns)
{
    return (tensor->rank == 2 || tensor->rank == 3) && tensor->shape[tensor->rank - 2] == rows &&
           tensor->shape[tensor->rank - 1] == columns;
}

static int64_t block_of(int32_t block)
{
    return block > 0 ? block : INT64_MAX;
}

static int64_t blocks_in(int64_t extent, int64_t block)
{
    return extent / block + (extent % block != 0);
}

bool conformance_operand_of(const kiln_tensor *tensor, const kiln_quantization *quantization,
                            bool k_is_row, int64_t across, int64_t k, gemm_operand *operand)
{
    int64_t rows = k_is_row ? k : across, columns = k_is_row ? across : k;
    operand->k_is_row = k_is_row;
    operand->block_rows = block_of(quantization->block[0]);
    operand->block_columns = block_of(quantization->block[1]);
    operand->block_k = INT64_MAX;
    if (quantization->scale_type)
        operand->block_k = k_is_row ? operand->block_rows : operand->block_columns;
    int64_t down = blocks_in(rows, operand->block_rows),
            right = blocks_in(columns, operand->block_columns);
    if (!has_shape(tensor, rows, columns) ||
        !conformance_view_of(tensor, KILN_OPERAND_MATRIX, &operand->elements))
        return false;
    if (quantization->scale_type &&
        (!tensor->scale || !has_shape(tensor->scale, down, right) ||
         !conformance_view_of(tensor->scale, KILN_OPERAND_MATRIX, &operand->scales)))
        return false;
    return !quantization->zero_type ||
           (tensor->zero_point && has_shape(tensor->zero_point, down, right) &&
            conformance_view_of(tensor->zero_point, KILN_OPERAND_MATRIX, &operand->zero_points));
}

double conformance_operand_at(const gemm_operand *operand, int64_t lead, int64_t across, int64_t k)
{
    int64_t row = operand->k_is_row ? k : across, column = operand->k_is_row ? across : k;
    double value = conformance_view_at(&operand->elements, lead, row, column);
    if (operand->zero_points.data)
        value -= conformance_view_at(&operand->zero_points, lead, row / operand->block_rows,
                                     column / operand->block_columns);
    return value;
}

double conformance_operand_scale(const gemm_operand *operand, int64_t lead, int64_t across,
                                 int64_t k)
{
    int64_t row = operand->k_is_row ? k : across, column = operand->k_is_row ? across : k;
    if (!operand->scales.data)
        return 1;
    return conformance_view_at(&operand->scales, lead, row / operand->block_rows,
                               column / operand->block_columns);
}
