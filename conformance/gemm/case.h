/* SPDX-License-Identifier: Apache-2.0 */
/* How random cases are made. */
#ifndef KILN_CONFORMANCE_GEMM_CASE_H
#define KILN_CONFORMANCE_GEMM_CASE_H

#include "conformance/gemm.h"
#include "conformance/random.h"

/* Whether an epilogue of a kind is asked for; NONE = whether there is none at all. */
bool conformance_gemm_occurs(const kiln_gemm_desc *desc, uint32_t kind);

/* An operand that is quantised in these blocks, as a descriptor says it of the stored tensor, whose
 * rows are steps of k or not. */
kiln_quantization conformance_gemm_quantization(const conformance_gemm_blocks *blocks,
                                                bool k_is_row);

/* Scales along `extent` elements; `block` -1 = one for all. */
int64_t conformance_gemm_blocks_in(int64_t extent, int32_t block);

/* The first number of a case's own sequence. */
uint64_t conformance_case_random(uint64_t seed, int64_t index);

/* Everything of a case but its memory: descriptor, sizes, factors, features. It begins zeroed, with
 * seed and index set. */
void conformance_case_choose(uint64_t *random, conformance_gemm_case *test);

/* True for a case that has been chosen and passes the filter. */
bool conformance_case_matches(const conformance_gemm_case *test,
                              const conformance_gemm_filter *filter);

/* Tensors for a chosen case, without values; false when memory is exhausted. */
bool conformance_case_make_tensors(uint64_t *random, conformance_gemm_case *test);

/* GROUPS, then values for everything that may be read; what may not stays 0xff, which is NaN in the
 * floating-point types. */
void conformance_case_fill(uint64_t *random, conformance_gemm_case *test);

/* Group of row `row` in a contiguous grouping. */
int64_t conformance_case_group_of(const conformance_gemm_case *test, int64_t row);

/* Element `index` of GROUPS. */
int64_t conformance_case_groups_at(const conformance_gemm_case *test, int64_t index);

#endif
