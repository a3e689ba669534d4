/* SPDX-License-Identifier: Apache-2.0 */
/* Views of operands, and their elements as double. */
#include "plugins/ref/ref.h"

/* Converts `count` elements, `stride` apart, into doubles, `step` apart. Elements need no
 * alignment. */
static void load(uint32_t type, const char *source, int64_t stride, int64_t count, double *values,
                 int64_t step)
{
#define LOAD(ctype, convert)                                                             \
    for (int64_t i = 0; i < count; i++) {                                                \
        ctype element;                                                                   \
        memcpy(&element, source + i * stride * (int64_t)sizeof element, sizeof element); \
        values[i * step] = (double)convert(element);                                     \
    }                                                                                    \
    break
    switch (type) {
    case KILN_F64:
        LOAD(double, );
    case KILN_F32:
        LOAD(float, );
    case KILN_F16:
        LOAD(uint16_t, kiln_f32_from_f16);
    case KILN_BF16:
        LOAD(uint16_t, kiln_f32_from_bf16);
    case KILN_I8:
        LOAD(int8_t, );
    case KILN_I32:
        LOAD(int32_t, );
    default:
        break;
    }
#undef LOAD
}

ref_operand ref_operand_strided(const kiln_tensor *tensor, char *data, bool rows_first)
{
    uint32_t first = tensor->rank - 2, rows = first + !rows_first, depth = first + rows_first;
    ref_operand operand = {
        .data = data,
        .type = tensor->type,
        .batch = tensor->rank == 3 ? tensor->shape[0] : 1,
        .rows = tensor->shape[rows],
        .depth = tensor->shape[depth],
        .batch_stride = tensor->rank == 3 ? tensor->strides[0] : 0,
        .row_stride = tensor->strides[rows],
        .depth_stride = tensor->strides[depth],
        .panel_stride = REF_PANEL * tensor->strides[rows],
    };
    return operand;
}

ref_operand ref_operand_packed(const kiln_tensor *tensor, char *data, bool rows_first)
{
    ref_operand operand = ref_operand_strided(tensor, data, rows_first);
    operand.row_stride = 1;
    operand.depth_stride = REF_PANEL;
    operand.panel_stride = operand.depth * REF_PANEL;
    int64_t entry = (operand.rows + REF_PANEL - 1) / REF_PANEL * operand.panel_stride;
    operand.batch_stride = operand.batch == 1 ? 0 : entry; /* one entry serves any batch */
    return operand;
}

char *ref_operand_at(const ref_operand *operand, int64_t batch, int64_t row, int64_t k)
{
    int64_t element = batch * operand->batch_stride + row / REF_PANEL * operand->panel_stride +
                      row % REF_PANEL * operand->row_stride + k * operand->depth_stride;
    return operand->data + element * (kiln_type_bits(operand->type) / 8);
}

void ref_operand_load(const ref_operand *operand, int64_t batch, int64_t panel, int64_t k,
                      double *block)
{
    int64_t first = panel * REF_PANEL;
    int64_t rows = operand->rows - first < REF_PANEL ? operand->rows - first : REF_PANEL;
    int64_t depth = operand->depth - k < REF_DEPTH ? operand->depth - k : REF_DEPTH;
    if (rows < REF_PANEL || depth < REF_DEPTH)
        memset(block, 0, REF_BLOCK * sizeof *block);
    /* Along the unit stride, so that memory is read in order. */
    if (operand->depth_stride == 1)
        for (int64_t r = 0; r < rows; r++)
            load(operand->type, ref_operand_at(operand, batch, first + r, k), 1, depth, block + r,
                 REF_PANEL);
    else
        for (int64_t i = 0; i < depth; i++)
            load(operand->type, ref_operand_at(operand, batch, first, k + i), operand->row_stride,
                 rows, block + i * REF_PANEL, 1);
}

ref_matrix ref_matrix_of(const kiln_tensor *tensor, char *data, uint32_t shape)
{
    uint32_t own = shape == KILN_OPERAND_MATRIX ? 2 : 1; /* dimensions without the batch */
    ref_matrix matrix = {.data = data, .type = tensor->type};
    if (tensor->rank > own)
        matrix.batch_stride = tensor->strides[0];
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

static char *matrix_at(const ref_matrix *matrix, int64_t batch, int64_t row, int64_t column)
{
    int64_t element =
        batch * matrix->batch_stride + row * matrix->row_stride + column * matrix->column_stride;
    return matrix->data + element * (kiln_type_bits(matrix->type) / 8);
}

void ref_matrix_load(const ref_matrix *matrix, int64_t batch, int64_t row, int64_t column,
                     int64_t count, double *values)
{
    load(matrix->type, matrix_at(matrix, batch, row, column), matrix->column_stride, count, values,
         1);
}

void ref_matrix_store(const ref_matrix *matrix, int64_t batch, int64_t row, int64_t column,
                      int64_t count, const double *values, bool saturate)
{
    char *to = matrix_at(matrix, batch, row, column);
    for (int64_t j = 0; j < count; j++)
        kiln_store_f64(matrix->type, to, j, values[j], saturate ? KILN_SATURATE : 0);
}
