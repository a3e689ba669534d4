/* SPDX-License-Identifier: Apache-2.0 */
/* Strided copies and fills between the host and global memory, outside of programs. */
#ifndef NPU_TRANSFER_H
#define NPU_TRANSFER_H

#include "plugins/npu/memory.h"

#define NPU_RANK 8

/* Bytes in GM, or, when `host` is set, of the host. Strides in bytes, at least 0. */
struct npu_side {
    uint8_t *host;
    int64_t address; /* model address, when host is NULL */
    int64_t strides[NPU_RANK];
};

/* destination[i0, i1, ...] = source[i0, i1, ...], or the pattern when `fill` is set. The elements
   of the two sides must not overlap unless they are the same. */
struct npu_transfer {
    int64_t element_bytes; /* at least 1; of a fill at most 16 */
    int64_t rank;          /* 0 to NPU_RANK */
    int64_t shape[NPU_RANK];
    struct npu_side destination;
    struct npu_side source;
    bool fill;
    uint8_t pattern[16];
};

/* 0, or -1 with one sentence in error (size bytes): what a transfer names in GM does not lie within
   one allocation, or its extents cannot be. */
int npu_transfer_check(struct npu_global *global, const struct npu_transfer *transfer, char *error,
                       size_t size);

/* Does it, once checked. Returns the bytes written. */
int64_t npu_transfer_run(const struct npu_global *global, const struct npu_transfer *transfer);

#endif
