/* SPDX-License-Identifier: Apache-2.0 */
/* Registers and places in memory that the programs and launches of a matrix product agree on. */
#ifndef NPU_GEMM_LAYOUT_H
#define NPU_GEMM_LAYOUT_H

#include "gemm.h"

enum npu_gemm_register {
    NPU_R_A,
    NPU_R_A_STRIDE,
    NPU_R_B,
    NPU_R_B_STRIDE,
    NPU_R_C,
    NPU_R_C_STRIDE,
    NPU_R_D,
    NPU_R_D_STRIDE,
    NPU_R_M,       /* rows of this block */
    NPU_R_N,       /* columns of this block */
    NPU_R_COLUMNS, /* packed B: columns of 32 bytes in this block */
    NPU_R_ALPHA,
    NPU_R_BETA,
    NPU_R_EPILOGUE, /* first of 8 pairs: address, stride */
    NPU_R_GEMM_COUNT = NPU_R_EPILOGUE + 2 * NPU_EPILOGUES
};

/* Two buffers of each operand of the cube unit, so that one is filled while the other is read. */
struct npu_gemm_layout {
    int64_t l1_a[2];
    int64_t l1_b[2];
    int64_t l1_end;
    int64_t l0a[2];
    int64_t l0a_end;
    int64_t l0b[2];
    int64_t l0b_end;
    int64_t l0c_end; /* the accumulators begin at 0 */
    /* UB: the values (f32 or i32), a matrix as it comes or goes, the same as f32, and vectors. */
    int64_t values;
    int64_t matrix;
    int64_t matrix_f32;
    int64_t vector;
    int64_t vector_f32;
    int64_t ub_end;
};

void npu_gemm_layout(const struct npu_config *config, const struct npu_gemm *gemm,
                     const struct npu_gemm_blocks *blocks, struct npu_gemm_layout *layout);

/* Elements in 32 bytes, the smallest step along k. */
static inline int64_t npu_gemm_across(enum npu_type type)
{
    return NPU_GRANULE / npu_type_bytes(type);
}

/* Rows per column of fractals of B in L1. */
static inline int64_t npu_gemm_b_pitch(const struct npu_gemm *gemm,
                                       const struct npu_gemm_blocks *blocks)
{
    return gemm->transpose_b ? blocks->n : blocks->k;
}

/* A rule that gives every block the same value. */
static inline struct npu_register_rule npu_fixed_rule(int64_t value)
{
    return (struct npu_register_rule){value, {0, 0, 0}, INT64_MAX};
}

/* A rule that gives block i of an axis what is left of `extent`, at most `step`. */
static inline struct npu_register_rule npu_rest_rule(int64_t extent, int64_t step, int axis)
{
    struct npu_register_rule rule = {extent, {0, 0, 0}, step};
    rule.step[axis] = -step;
    return rule;
}

#endif
