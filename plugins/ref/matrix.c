/* SPDX-License-Identifier: Apache-2.0 */
/* Views of what is added, multiplied or written element by element. */
#include "plugins/ref/ref.h"

ref_matrix ref_matrix_of(const kiln_tensor *tensor, char *data, uint32_t shape)
{
    uint32_t own = shape == KILN_OPERAND_MATRIX ? 2 : 1; /* dimensions without the entries */
    ref_matrix matrix = {.data = data, .type = tensor->type, .entries = 1};
    if (tensor->rank > own)
        matrix.entries = tensor->shape[0];
    if (matrix.entries != 1)
        matrix.entry_stride = tensor->strides[0];
    if (tensor->rank == 0)
        return matrix;
    uint32_t last = tensor->rank - 1;
    if (shape == KILN_OPERAND_MATRIX)
        matrix.row_stride = tensor->strides[last - 1];
    if (shape == KILN_OPERAND_COLUMN)
        matrix.row_stride = tensor->strides[last];
    if (shape == KILN_OPERAND_MATRIX || shape == KILN_OPERAND_ROW)
        matrix.column_stride = tensor->strides[last];
    return matrix;
}

static int64_t index_of(const ref_matrix *matrix, int64_t entry, int64_t row, int64_t column)
{
    return entry * matrix->entry_stride + row * matrix->row_stride + column * matrix->column_stride;
}

void ref_matrix_load(const ref_matrix *matrix, int64_t entry, int64_t row, int64_t column,
                     int64_t count, double *values)
{
    ref_elements_load(matrix->type, matrix->data, index_of(matrix, entry, row, column),
                      matrix->column_stride, count, values, 1);
}

void ref_matrix_store(const ref_matrix *matrix, int64_t entry, int64_t row, int64_t column,
                      int64_t count, const double *values, bool saturate)
{
    int64_t first = index_of(matrix, entry, row, column);
    for (int64_t j = 0; j < count; j++)
        kiln_store_f64(matrix->type, matrix->data, first + j * matrix->column_stride, values[j],
                       saturate ? KILN_SATURATE : 0);
}
