/* SPDX-License-Identifier: Apache-2.0 */
/* Packed B: for every block of columns and every block of depth, in this order, the bytes that the
 * block takes in L1, filled up with zeros. UB serves as the place where rows become fractals. */
#include "assembler.h"
#include "gemm_layout.h"

#include <stdio.h>

/* Registers of the programs in this file. */
enum pack_register {
    R_PLAIN,
    R_PLAIN_STRIDE,
    R_PACKED,
    R_ROWS,          /* of the stored matrix in this block */
    R_ROW_ELEMENTS,  /* in each of them */
    R_COLUMNS,       /* of 32 bytes */
    R_PACK_COUNT
};

/* Axes of the grid. */
enum { COLUMNS, DEPTH, BATCH };

static int64_t block_bytes(const struct npu_gemm *gemm, const struct npu_gemm_blocks *blocks)
{
    return blocks->n * blocks->k * npu_type_bytes(gemm->type);
}

int64_t npu_pack_bytes(const struct npu_gemm *gemm, const struct npu_gemm_blocks *blocks)
{
    int64_t across = (gemm->n + blocks->n - 1) / blocks->n;
    int64_t down = (gemm->k + blocks->k - 1) / blocks->k;
    return across * down * block_bytes(gemm, blocks);
}

/* The matrix as it is stored: strided rows in GM, fractals in UB. */
static struct npu_copy plain_copy(const struct npu_gemm *gemm, const struct npu_gemm_blocks *blocks)
{
    int64_t pitch = npu_gemm_b_pitch(gemm, blocks);
    return (struct npu_copy){
        .memory = NPU_UB,
        .layout = NPU_FRACTALS,
        .type = gemm->type,
        .pitch = pitch,
        .row_multiple = pitch,
        .global = npu_register(R_PLAIN),
        .stride = npu_register(R_PLAIN_STRIDE),
        .rows = npu_register(R_ROWS),
        .columns = npu_register(R_ROW_ELEMENTS),
    };
}

/* The same block packed: its columns of 32 bytes one after another on both sides. */
static struct npu_copy packed_copy(const struct npu_gemm *gemm,
                                   const struct npu_gemm_blocks *blocks)
{
    int64_t column = npu_gemm_b_pitch(gemm, blocks) * NPU_GRANULE;
    return (struct npu_copy){
        .memory = NPU_UB,
        .layout = NPU_ROWS,
        .type = NPU_I8,
        .pitch = column,
        .global = npu_register(R_PACKED),
        .stride = npu_constant(column),
        .rows = npu_register(R_COLUMNS),
        .columns = npu_constant(column),
    };
}

struct npu_program *npu_pack_program(const struct npu_config *config, const struct npu_gemm *gemm,
                                     const struct npu_gemm_blocks *blocks, bool unpack, char *error,
                                     size_t size)
{
    struct npu_assembler out = {0};
    struct npu_program *program = NULL;
    int64_t registers[NPU_REGISTERS] = {0};
    struct npu_copy plain = plain_copy(gemm, blocks), packed = packed_copy(gemm, blocks);
    if (block_bytes(gemm, blocks) > config->size[NPU_UB]) {
        snprintf(error, size, "packing needs %lld bytes of UB, which has %lld",
                 (long long)block_bytes(gemm, blocks), (long long)config->size[NPU_UB]);
        return NULL;
    }
    npu_emit_copy_in(&out, unpack ? &packed : &plain);
    npu_emit_copy_out(&out, unpack ? &plain : &packed);
    registers[R_PLAIN] = NPU_GM_BASE;
    registers[R_PACKED] = NPU_GM_BASE + (INT64_C(1) << 40);
    registers[R_PLAIN_STRIDE] = 1 << 20;
    registers[R_ROWS] = gemm->transpose_b ? blocks->n : blocks->k;
    registers[R_ROW_ELEMENTS] = gemm->transpose_b ? blocks->k : blocks->n;
    registers[R_COLUMNS] = registers[R_ROW_ELEMENTS] / npu_gemm_across(gemm->type);
    if (!npu_synchronize(&out, config, registers, error, size))
        program = npu_program_create(unpack ? "unpack" : "pack", out.instruction, out.count, error,
                                     size);
    npu_assembler_free(&out);
    return program;
}

void npu_pack_launch(const struct npu_gemm *gemm, const struct npu_gemm_blocks *blocks,
                     const struct npu_gemm_operand *plain, const struct npu_gemm_operand *packed,
                     int64_t batch, struct npu_launch *launch)
{
    int64_t size = npu_type_bytes(gemm->type), across = npu_gemm_across(gemm->type);
    int64_t down = (gemm->k + blocks->k - 1) / blocks->k;
    bool k_rows = !gemm->transpose_b;
    int elements_axis = k_rows ? COLUMNS : DEPTH;
    int64_t elements = k_rows ? gemm->n : gemm->k, step = k_rows ? blocks->n : blocks->k;
    memset(launch, 0, sizeof *launch);
    launch->grid[COLUMNS] = (uint32_t)((gemm->n + blocks->n - 1) / blocks->n);
    launch->grid[DEPTH] = (uint32_t)down;
    launch->grid[BATCH] = (uint32_t)batch;
    launch->count = R_PACK_COUNT;
    launch->rule[R_PLAIN] = (struct npu_register_rule){
        plain->address,
        {blocks->n * (k_rows ? size : plain->stride), blocks->k * (k_rows ? plain->stride : size),
         plain->batch},
        INT64_MAX};
    launch->rule[R_PLAIN_STRIDE] = npu_fixed_rule(plain->stride);
    launch->rule[R_PACKED] = (struct npu_register_rule){
        packed->address,
        {down * block_bytes(gemm, blocks), block_bytes(gemm, blocks), packed->batch},
        INT64_MAX};
    launch->rule[R_ROWS] = k_rows ? npu_rest_rule(gemm->k, blocks->k, DEPTH)
                                  : npu_rest_rule(gemm->n, blocks->n, COLUMNS);
    launch->rule[R_ROW_ELEMENTS] = npu_rest_rule(elements, step, elements_axis);
    launch->rule[R_COLUMNS] =
        npu_rest_rule(npu_round_up(elements, across) / across, step / across, elements_axis);
}
