/* SPDX-License-Identifier: Apache-2.0 */
/* What the operands of a measured GEMM hold: random values, never zeros, since data may change how
 * fast a machine computes. */
#ifndef KILN_BENCH_FILL_H
#define KILN_BENCH_FILL_H

#include "bench/gemm.h"

/* Uniform in [-1, 1); i8 in [-127, 127], smaller integers, u8 and e2m1 over all codes. */
void bench_fill(const kiln_tensor *tensor, uint64_t seed);

/* From 0.5 to 2, so that no scale makes the rest vanish. Not for types of fewer than 8 bits. */
void bench_fill_scales(const kiln_tensor *tensor, uint64_t seed);

/* The slot KILN_GEMM_GROUPS: rows, or steps of k, spread evenly over the groups, each of which
 * begins where the descriptor promises; of a masked grouping all rows count. */
void bench_fill_groups(const kiln_gemm_desc *desc, const kiln_tensor *tensor);

#endif
