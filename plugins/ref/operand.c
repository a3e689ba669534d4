/* SPDX-License-Identifier: Apache-2.0 */
/* Views of operands, and their elements as double. */
#include "plugins/ref/ref.h"

/* Converts `count` elements, `stride` apart, into doubles, `step` apart. Elements need no
 * alignment. The loop for neighbours stands by itself because it becomes vector code. */
static void load(uint32_t type, const char *source, int64_t stride, int64_t count, double *values,
                 int64_t step)
{
#define CONVERT(ctype, convert, from, to)                                                \
    for (int64_t i = 0; i < count; i++) {                                                \
        ctype element;                                                                   \
        memcpy(&element, source + i * (from) * (int64_t)sizeof element, sizeof element); \
        values[i * (to)] = (double)convert(element);                                     \
    }
#define LOAD(ctype, convert)                  \
    if (stride == 1 && step == 1)             \
        CONVERT(ctype, convert, 1, 1)         \
    else                                      \
        CONVERT(ctype, convert, stride, step) \
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
#undef CONVERT
}

ref_operand ref_operand_strided(const kiln_tensor *tensor, char *data, uint32_t slot,
                                bool transposed)
{
    bool rows_first = transposed == (slot == KILN_GEMM_B);
    uint32_t first = tensor->rank - 2, rows = first + !rows_first, depth = first + rows_first;
    int64_t panel = slot == KILN_GEMM_A ? REF_ROWS : REF_COLUMNS;
    ref_operand operand = {
        .data = data,
        .type = tensor->type,
        .panel = panel,
        .batch = tensor->rank == 3 ? tensor->shape[0] : 1,
        .rows = tensor->shape[rows],
        .depth = tensor->shape[depth],
        .batch_stride = tensor->rank == 3 ? tensor->strides[0] : 0,
        .panel_stride = panel * tensor->strides[rows],
        .row_stride = tensor->strides[rows],
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
    int64_t entry = (operand.rows + operand.panel - 1) / operand.panel * operand.panel_stride;
    operand.batch_stride = operand.batch == 1 ? 0 : entry; /* one entry serves any batch */
    return operand;
}

char *ref_operand_at(const ref_operand *operand, int64_t batch, int64_t row, int64_t k)
{
    int64_t element = batch * operand->batch_stride + row / operand->panel * operand->panel_stride +
                      row % operand->panel * operand->row_stride + k * operand->depth_stride;
    return operand->data + element * (kiln_type_bits(operand->type) / 8);
}

void ref_operand_load(const ref_operand *operand, int64_t batch, int64_t panel, int64_t k,
                      double *block)
{
    int64_t width = operand->panel, first = panel * width;
    int64_t rows = operand->rows - first < width ? operand->rows - first : width;
    int64_t depth = operand->depth - k < REF_DEPTH ? operand->depth - k : REF_DEPTH;
    if (rows < width || depth < REF_DEPTH)
        memset(block, 0, (size_t)(REF_DEPTH * width) * sizeof *block);
    /* Along the unit stride, so that memory is read in order. */
    if (operand->depth_stride == 1)
        for (int64_t r = 0; r < rows; r++)
            load(operand->type, ref_operand_at(operand, batch, first + r, k), 1, depth, block + r,
                 width);
    else
        for (int64_t i = 0; i < depth; i++)
            load(operand->type, ref_operand_at(operand, batch, first, k + i), operand->row_stride,
                 rows, block + i * width, 1);
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
