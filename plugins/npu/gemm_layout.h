/* SPDX-License-Identifier: Apache-2.0 */
/* Registers and places in memory that the programs and launches of a matrix product agree on. */
#ifndef NPU_GEMM_LAYOUT_H
#define NPU_GEMM_LAYOUT_H

#include "plugins/npu/gemm.h"

enum npu_gemm_register {
    NPU_R_A,
    NPU_R_A_STRIDE,
    NPU_R_B,
    NPU_R_B_STRIDE,
    NPU_R_C,
    NPU_R_C_STRIDE,
    NPU_R_D,
    NPU_R_D_STRIDE,
    NPU_R_M, /* rows of this block */
    NPU_R_N, /* columns of this block */
    NPU_R_K, /* all of it, where it is dynamic */
    /* How much of a packed operand this block takes: stored with k down the rows, columns of 32
       bytes; else bytes of each column. */
    NPU_R_A_PACKED,
    NPU_R_B_PACKED,
    NPU_R_ALPHA,
    NPU_R_BETA,
    NPU_R_EPILOGUE, /* first of 8 pairs: address, stride */
    NPU_R_GEMM_COUNT = NPU_R_EPILOGUE + 2 * NPU_EPILOGUES
};

_Static_assert(NPU_R_GEMM_COUNT <= NPU_REGISTERS, "the registers suffice");

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

/* Lays out the pieces of a block. The ends may lie beyond the memories: blocks are then too large.
 */
void npu_gemm_layout(const struct npu_config *config, const struct npu_gemm *gemm,
                     const struct npu_gemm_blocks *blocks, struct npu_gemm_layout *layout);

/* One of the two operands of the product. */
struct npu_gemm_side {
    bool k_rows; /* stored with k down the rows: K by M, or K by N */
    bool packed;
    int64_t block;   /* rows of op(A) or columns of op(B) in a block */
    int32_t address; /* registers */
    int32_t extent;
    int32_t packed_extent;
    struct npu_pack stored; /* the whole matrix, where it is packed */
};

static inline struct npu_gemm_side npu_gemm_side_a(const struct npu_gemm *gemm,
                                                   const struct npu_gemm_blocks *blocks)
{
    return (struct npu_gemm_side){
        .k_rows = gemm->transpose_a,
        .packed = gemm->packed_a,
        .block = blocks->m,
        .address = NPU_R_A,
        .extent = NPU_R_M,
        .packed_extent = NPU_R_A_PACKED,
        .stored = {gemm->type, gemm->transpose_a ? gemm->k : gemm->m,
                   gemm->transpose_a ? gemm->m : gemm->k},
    };
}

static inline struct npu_gemm_side npu_gemm_side_b(const struct npu_gemm *gemm,
                                                   const struct npu_gemm_blocks *blocks)
{
    return (struct npu_gemm_side){
        .k_rows = !gemm->transpose_b,
        .packed = gemm->packed_b,
        .block = blocks->n,
        .address = NPU_R_B,
        .extent = NPU_R_N,
        .packed_extent = NPU_R_B_PACKED,
        .stored = {gemm->type, gemm->transpose_b ? gemm->n : gemm->k,
                   gemm->transpose_b ? gemm->k : gemm->n},
    };
}

/* Bytes from one column of 32 bytes of a packed matrix to the next. */
static inline int64_t npu_pack_stride(const struct npu_pack *pack)
{
    return npu_round_up(pack->rows, NPU_PACK_ROWS) * NPU_GRANULE;
}

static inline int64_t npu_pack_columns(const struct npu_pack *pack)
{
    return npu_round_up(pack->columns * npu_type_bytes(pack->type), NPU_GRANULE) / NPU_GRANULE;
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

/* How much of a packed operand a block takes; see NPU_R_A_PACKED. `axis` counts blocks. */
static inline struct npu_register_rule npu_packed_rule(const struct npu_gemm_side *side,
                                                       enum npu_type type, int axis)
{
    int64_t across = npu_across(type);
    if (side->k_rows)
        return npu_rest_rule(npu_pack_columns(&side->stored), side->block / across, axis);
    return npu_rest_rule(npu_pack_stride(&side->stored), side->block * NPU_GRANULE, axis);
}

#endif
