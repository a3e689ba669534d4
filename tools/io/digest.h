/* SPDX-License-Identifier: Apache-2.0 */
/* Digests. Of a tensor: equal for equal type, shape and elements, bit by bit, whatever the strides
 * and the file. */
#ifndef KILN_TOOLS_IO_DIGEST_H
#define KILN_TOOLS_IO_DIGEST_H

#include "tools/io/tensor_file.h"

enum { TENSOR_DIGEST_BYTES = 33 };

/* XXH3-128 with seed 0 of the text "f32[3,4]" (type and shape), a zero byte, and the elements in
 * row-major order, little-endian, each row of a type of fewer than 8 bits from a byte of its own;
 * as 32 hexadecimal digits, most significant first, the way xxhsum prints them. Bits count, not
 * values: 0 and -0 differ, and so do NaNs. The tensor must be strided host memory without scales,
 * else INVALID. NO_MEMORY. */
kiln_status tensor_digest(const kiln_tensor *tensor, char digest[TENSOR_DIGEST_BYTES],
                          io_error *error);

/* XXH3-128 of a whole file, as xxhsum prints it. False, with errno, when it cannot be read. */
bool file_digest(const char *path, char digest[TENSOR_DIGEST_BYTES]);

#endif
