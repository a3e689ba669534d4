/* SPDX-License-Identifier: Apache-2.0 */
/* Tensors of a GEMM as the oracle reads them. */
#ifndef KILN_CONFORMANCE_GEMM_OPERAND_H
#define KILN_CONFORMANCE_GEMM_OPERAND_H

#include <stdbool.h>

#include "kiln/gemm.h"

/* Element (lead, row, column) by strides, of which some may be 0; lead is the batch entry or the
 * group. */
typedef struct matrix_view {
    const char *data; /* NULL: absent */
    uint32_t type;
    int64_t lead_stride, row_stride, column_stride; /* in elements */
} matrix_view;

double conformance_view_at(const matrix_view *view, int64_t lead, int64_t row, int64_t column);

/* The view of a tensor whose own dimensions are those of a kiln_operand_shape, perhaps with one
 * before; false when the host cannot read it. */
bool conformance_view_of(const kiln_tensor *tensor, uint32_t shape, matrix_view *view);

/* A or B, quantised or not. `across` counts along M or N. */
typedef struct gemm_operand {
    matrix_view elements, scales, zero_points;
    bool k_is_row; /* k counts the stored rows */
    int64_t block_rows, block_columns;
    int64_t block_k; /* steps of k that share a scale; INT64_MAX without scales */
} gemm_operand;

/* `across` × `k` elements; false when the host cannot read them, or what belongs to them. */
bool conformance_operand_of(const kiln_tensor *tensor, const kiln_quantization *quantization,
                            bool k_is_row, int64_t across, int64_t k, gemm_operand *operand);

/* Stored element less zero point, and its scale. */
double conformance_operand_at(const gemm_operand *operand, int64_t lead, int64_t across, int64_t k);
double conformance_operand_scale(const gemm_operand *operand, int64_t lead, int64_t across,
                                 int64_t k);

#endif
