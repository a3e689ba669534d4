/* SPDX-License-Identifier: Apache-2.0 */
/* A tensor as lines: the runs of its innermost dimension. */
#ifndef KILN_CONFORMANCE_LINES_H
#define KILN_CONFORMANCE_LINES_H

#include "kiln/tensor.h"

static inline int64_t conformance_line_elements(const kiln_tensor *tensor)
{
    return tensor->shape[tensor->rank - 1];
}

static inline int64_t conformance_line_count(const kiln_tensor *tensor)
{
    int64_t elements = conformance_line_elements(tensor);
    return elements > 0 ? kiln_tensor_elements(tensor) / elements : 0;
}

/* Line `line`, in row-major order, of a tensor whose memory begins at `memory`. Its element j has
 * the index conformance_line_index(tensor, j) there, for kiln_load_f64 and kiln_store_f64. */
static inline uint8_t *conformance_line(const kiln_tensor *tensor, uint8_t *memory, int64_t line)
{
    int64_t element = 0;
    for (uint32_t i = tensor->rank - 1; i-- > 0;) {
        element += line % tensor->shape[i] * tensor->strides[i];
        line /= tensor->shape[i];
    }
    return memory + tensor->byte_offset + element * kiln_type_bits(tensor->type) / 8;
}

static inline int64_t conformance_line_index(const kiln_tensor *tensor, int64_t j)
{
    return j * tensor->strides[tensor->rank - 1];
}

/* Copies the bytes of a line's elements between two memories of one layout. Elements of fewer than
 * 8 bits come with the rest of their last byte. */
static inline void conformance_line_copy(const kiln_tensor *tensor, uint8_t *to,
                                         const uint8_t *from, int64_t line)
{
    int64_t elements = conformance_line_elements(tensor), size = kiln_type_bits(tensor->type) / 8;
    uint8_t *target = conformance_line(tensor, to, line);
    const uint8_t *source = from + (target - to);
    if (tensor->strides[tensor->rank - 1] == 1) {
        memcpy(target, source, (size_t)kiln_type_row_bytes(tensor->type, elements));
        return;
    }
    for (int64_t j = 0; j < elements; j++) {
        int64_t at = conformance_line_index(tensor, j) * size;
        memcpy(target + at, source + at, (size_t)size);
    }
}

#endif
