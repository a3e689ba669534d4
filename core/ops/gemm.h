/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of kiln.gemm/1 share: see kiln_operator for what each does. */
#ifndef KILN_CORE_OPS_GEMM_H
#define KILN_CORE_OPS_GEMM_H

#include "core/ops/operator.h"
#include "kiln/gemm.h"

kiln_status kiln_gemm_canonicalise(void *descriptor);
void kiln_gemm_prepare(const void *descriptor, kiln_device *home, void *prepared);
kiln_status kiln_gemm_check(const void *descriptor, const void *prepared, kiln_device *home,
                            const kiln_args_head *arguments, bool *empty);
kiln_status kiln_gemm_check_packed(const void *descriptor, uint32_t operand,
                                   const kiln_tensor *strided, const kiln_tensor *packed);

/* ---- gemm_tensors.c: single tensors of a run ---- */

/* What messages call the slots. */
extern const char *const kiln_gemm_slot_names[KILN_GEMM_SLOTS];

/* The memory of a tensor. One without elements has none: begin and end are 0. */
typedef struct kiln_gemm_extent {
    const char *what;         /* whose it is, for messages */
    const kiln_buffer *owner; /* device memory: offsets of different buffers are not comparable */
    uint64_t begin, end;
    /* All of it lies within `row` bytes from `begin` and from every multiple of `pitch` behind it.
     */
    uint64_t row, pitch; /* pitch 0: there is only one row */
} kiln_gemm_extent;

/* What a tensor in a slot must be. */
typedef struct kiln_gemm_expected {
    uint32_t slot;
    uint32_t type;
    uint32_t alignment; /* as a descriptor has it */
    int64_t leading;    /* batch, groups, or 1: then the dimension may be missing */
    int64_t rows, columns;
    bool shared;                           /* the leading dimension may be missing in any case */
    bool output;                           /* none of its elements may lie upon another */
    const kiln_quantization *quantization; /* NULL = none */
} kiln_gemm_expected;

/* A row-major matrix with unit column stride. Its scales and zero points must be there or not as
 * the descriptor says; kiln_gemm_check_scale() looks at them. */
kiln_status kiln_gemm_check_matrix(const kiln_tensor *tensor, const kiln_gemm_expected *expected,
                                   kiln_device *home, kiln_gemm_extent *extent);

/* A vector of `columns` elements, one behind the other; one for each of `leading` with rank 2. */
kiln_status kiln_gemm_check_vector(const kiln_tensor *tensor, const kiln_gemm_expected *expected,
                                   kiln_device *home, kiln_gemm_extent *extent);

/* A matrix whose rows or whose columns are contiguous. */
kiln_status kiln_gemm_check_either_way(const kiln_tensor *tensor,
                                       const kiln_gemm_expected *expected, kiln_device *home,
                                       kiln_gemm_extent *extent);

/* A packed operand, of which only what every blob has in common can be seen. */
kiln_status kiln_gemm_check_blob(const kiln_tensor *tensor, const kiln_gemm_expected *expected,
                                 kiln_device *home, kiln_gemm_extent *extent);

/* That scales and zero points are given as the descriptor says (NULL = neither), for its blocks. */
kiln_status kiln_gemm_check_quantization(const char *what, const kiln_tensor *tensor,
                                         const kiln_quantization *quantization);

/* The scales (or zero points) of an operand that is as expected: NULL is fine, since the former has
 * been called. With `home` NULL they may live anywhere. */
kiln_status kiln_gemm_check_scale(const kiln_tensor *operand, bool zero_point,
                                  const kiln_gemm_expected *expected, kiln_device *home,
                                  kiln_gemm_extent *extent);

bool kiln_gemm_overlaps(const kiln_gemm_extent *a, const kiln_gemm_extent *b);

/* True when two tensors are the same elements, seen alike. */
bool kiln_gemm_same_view(const kiln_tensor *a, const kiln_tensor *b);

/* What a descriptor's alignment promises; 0 is the element size, or a byte. */
static inline uint32_t kiln_gemm_promised(uint32_t alignment, uint32_t type)
{
    return alignment ? alignment : (uint32_t)(kiln_type_bits(type) + 7) / 8;
}

/* How many of `block` (-1 = the whole) elements there are in `count`. */
static inline int64_t kiln_gemm_blocks(int64_t count, int32_t block)
{
    return block == -1 ? count > 0 : count / block + (count % block != 0);
}

#endif
