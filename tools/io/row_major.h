/* SPDX-License-Identifier: Apache-2.0 */
/* A tensor's elements as a stream of bytes in row-major order, whatever its strides. */
#ifndef KILN_TOOLS_IO_ROW_MAJOR_H
#define KILN_TOOLS_IO_ROW_MAJOR_H

#include "kiln/tensor.h"

/* The place in the stream. Plain data. The tensor's memory must outlive it. */
typedef struct row_major {
    const uint8_t *piece; /* the contiguous piece of memory at hand */
    int64_t piece_bytes;  /* of each piece */
    int64_t position;     /* in the piece */
    int64_t pieces;       /* left, this one included */
    int64_t total;        /* bytes of the whole stream */
    uint8_t last_mask; /* of the last byte of a piece: types of fewer than 8 bits may leave part of
                          it unused */
    uint32_t rank;     /* of the dimensions that lead from piece to piece */
    int64_t shape[KILN_MAX_RANK], index[KILN_MAX_RANK];
    int64_t step[KILN_MAX_RANK]; /* bytes */
} row_major;

/* Begins at the first element. NULL on success, else what is wrong with the tensor, a phrase in
 * static storage: it must be strided host memory (`data`, no buffer) without scales; of types of
 * fewer than 8 bits the innermost stride must be 1 and the others whole bytes. Each row of such a
 * type begins on a byte of the stream, too, and its unused bits read as 0. */
const char *row_major_open(row_major *stream, const kiln_tensor *tensor);

/* Copies the next bytes, `size` of them or all that are left, and returns how many. */
size_t row_major_read(row_major *stream, void *out, size_t size);

#endif
