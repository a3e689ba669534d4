/* SPDX-License-Identifier: Apache-2.0 */
/* A tensor as lines: the runs of its innermost dimension. */
#ifndef KILN_CONFORMANCE_LINES_H
#define KILN_CONFORMANCE_LINES_H

#include "kiln/tensor.h"

/* Elements of a line; its stride is 1. */
static inline int64_t conformance_line_elements(const kiln_tensor *tensor)
{
    return tensor->shape[tensor->rank - 1];
}

static inline int64_t conformance_line_count(const kiln_tensor *tensor)
{
    int64_t elements = conformance_line_elements(tensor);
    return elements > 0 ? kiln_tensor_elements(tensor) / elements : 0;
}

/* Line `line`, in row-major order, of a tensor whose memory begins at `memory`. */
static inline uint8_t *conformance_line(const kiln_tensor *tensor, uint8_t *memory, int64_t line)
{
    int64_t element = 0;
    for (uint32_t i = tensor->rank - 1; i-- > 0;) {
        element += line % tensor->shape[i] * tensor->strides[i];
        line /= tensor->shape[i];
    }
    return memory + tensor->byte_offset + element * (kiln_type_bits(tensor->type) / 8);
}

#endif
